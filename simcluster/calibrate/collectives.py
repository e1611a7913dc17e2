"""Fits the collective profile to logs of nccl-tests: a few physical parameters per scale-up link and per fabric.

Robust least squares (soft L1) on ln(predicted/measured), each log with the same weight, parameters in logarithms and
pulled to a prior: NCCL's tuner constants, or the record of the nearest path. So a path with three logs moves only
what they see. Deterministic: no random start, rows in file order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import yaml
from scipy.optimize import least_squares

from simcluster.calibrate.collective_logs import Array, Log
from simcluster.timing.collective_lines import candidate_lines, span_of
from simcluster.timing.collective_profile import FORMAT, CollectiveProfile, Evidence, FabricPath, ScaleUpPath, Source
from simcluster.timing.collectives import SMALL_BYTES

Record = Any  # ScaleUpPath or FabricPath

RESIDUAL_SCALE = 0.08  # ln units; beyond it a residual counts linearly
ROWS_PER_LOG = 12.0  # every log weighs as this many rows
WIRE_SHARE = 0.98  # packet headers take the rest of a card's line rate
INFORMED = 0.8  # a parameter whose spread stays above this share of its prior's width was not seen by the logs


@dataclass(frozen=True, slots=True)
class Parameter:
    """A fitted number of a record: field, place in the tuple (-1: a float), prior width and bounds of the value."""

    field: str
    index: int
    width: float
    low: float
    high: float

    @property
    def name(self) -> str:
        """Field, with its place if it has one."""
        return self.field if self.index < 0 else f"{self.field}[{self.index}]"

    def get(self, record: Record) -> float:
        """The record's number."""
        value = getattr(record, self.field)
        return float(value if self.index < 0 else value[self.index])


def with_values(record: Record, parameters: Sequence[Parameter], values: Iterable[float]) -> Record:
    """A copy of the record with those numbers."""
    changes: dict[str, Any] = {}
    for parameter, value in zip(parameters, values):
        if parameter.index < 0:
            changes[parameter.field] = float(value)
        else:
            old = list(changes.get(parameter.field, getattr(record, parameter.field)))
            old[parameter.index] = float(value)
            changes[parameter.field] = tuple(old)
    return replace(record, **changes)


def predict(log: Log, up: ScaleUpPath, fabric: FabricPath | None) -> Array:
    """Seconds of a log's sizes on given records."""
    lines = candidate_lines(log.kind, span_of(log.network, log.group, log.kind, up, fabric))
    name = log.algorithm
    times = [line.alpha_s + line.beta_s_per_byte * log.bytes for line in lines if name in ("", line.algorithm)]
    result: Array = np.min(times, axis=0)
    return result


@dataclass(frozen=True, slots=True)
class Fit:
    """A fitted record, with the residuals ln(predicted/measured) by log."""

    record: Record
    residuals: dict[int, Array]  # position in the logs given


def fit_record(
    prior: Record,
    parameters: Sequence[Parameter],
    logs: Sequence[Log],
    paths: Callable[[Record, Log], tuple[ScaleUpPath, FabricPath | None]],
    evaluations: int = 60,
) -> Fit:
    """The record that makes the logs most likely, starting from and pulled to `prior`.

    `paths` gives both records of a log, one of which is the trial record.
    """
    centre = np.log([parameter.get(prior) for parameter in parameters])
    low = np.log([parameter.low for parameter in parameters])
    high = np.log([parameter.high for parameter in parameters])
    width = np.array([parameter.width for parameter in parameters])
    weight = [_row_weights(log) for log in logs]

    def residuals(theta: Array) -> Array:
        trial = with_values(prior, parameters, np.exp(theta))
        parts = [w * np.log(predict(log, *paths(trial, log)) / log.seconds) for w, log in zip(weight, logs)]
        return np.concatenate([*parts, (theta - centre) / width])

    start = np.clip(centre, low + 1e-6, high - 1e-6)
    solution = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", max_nfev=evaluations, xtol=1e-6)
    record = with_values(prior, parameters, np.exp(solution.x))
    jacobian = np.asarray(solution.jac, dtype=np.float64)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    spread = np.sqrt(np.diag(covariance))
    sigma = {p.name: float(s) for p, s in zip(parameters, spread) if s < INFORMED * p.width}
    found = {i: np.log(predict(log, *paths(record, log)) / log.seconds) for i, log in enumerate(logs)}
    return Fit(replace(record, source=describe(prior.source, logs, found, sigma)), found)


def _row_weights(log: Log) -> Array:
    """Rows below 1 MiB and rows from there on count alike, whatever their number."""
    small = log.bytes < SMALL_BYTES
    count = np.where(small, small.sum(), (~small).sum())
    weights: Array = np.sqrt(ROWS_PER_LOG / count) / RESIDUAL_SCALE
    return weights


def _repository(source: str) -> str:
    """The part of a log's source that names a repository or document; the table of logs has the file."""
    return ":".join(source.split(" ")[0].split(":")[:2]).split("@")[0] if source.startswith("github:") else source


def describe(old: Source, logs: Sequence[Log], residuals: Mapping[int, Array], sigma: Mapping[str, float]) -> Source:
    """Provenance of a fitted record."""
    errors = np.abs(np.concatenate([residuals[i] for i in range(len(logs))]))
    families = sorted({_repository(log.source) for log in logs})
    return replace(
        old,
        kind="measured",
        logs=len(logs),
        points=int(errors.size),
        median_error=float(np.median(errors)),
        p90_error=float(np.quantile(errors, 0.9)),
        sources=tuple(families),
        sigma={name: float(f"{value:.2g}") for name, value in sigma.items()},
    )


def scale_up_parameters(record: ScaleUpPath) -> list[Parameter]:
    """What logs inside one domain can tell; terms that the link does not have (0) stay out."""
    wanted = [
        *_triple("ring_base_s", 1.0, 1e-7, 1e-3),
        *_triple("ring_hop_s", 1.0, 1e-8, 1e-4),
        *_triple("ring_efficiency", 0.4, 0.01, 1.0),
        Parameter("ring_copy", -1, 0.7, 1.0, 50.0),
        *_pair("alltoall_base_s", 1.0, 1e-7, 1e-3),
        *_pair("alltoall_peer_s", 1.0, 1e-9, 1e-4),
        *_pair("alltoall_efficiency", 0.4, 0.01, 1.0),
        Parameter("alltoall_copy", -1, 0.7, 1.0, 50.0),
        Parameter("p2p_base_s", -1, 1.0, 1e-6, 1e-5),
        Parameter("p2p_efficiency", -1, 0.3, 0.4 if record.crowding else 0.8, 0.9),
        Parameter("crowding", -1, 1.0, 0.01, 2.0),
        Parameter("nvls_base_s", -1, 0.7, 1e-6, 1e-3),
        Parameter("nvls_efficiency", -1, 0.3, 0.05, 2 / 3),
        Parameter("nvls_gather_efficiency", -1, 0.3, 0.05, 1.0),
    ]
    return [parameter for parameter in wanted if parameter.get(record) > 0]


def fabric_parameters(record: FabricPath) -> list[Parameter]:
    """What logs over several domains can tell. A message's efficiency stays in 0.85 to 0.95 on cards that reach it.

    sendrecv logs are ring shifts or both directions of one pair at once; a pipeline's pair does no worse.
    """
    limited = record.nic_limit_bytes_per_s > 0
    wanted = [
        *_triple("ring_base_s", 1.0, 1e-6, 1e-2),
        *_triple("ring_hop_s", 1.0, 1e-7, 1e-2),
        *_triple("ring_efficiency", 0.3, 0.05, WIRE_SHARE),
        *_triple("tree_hop_s", 1.0, 1e-7, 1e-2),
        *_triple("tree_efficiency", 0.3, 0.05, WIRE_SHARE),
        Parameter("tree_fill", -1, 1.0, 1e-3, 10.0),
        Parameter("nvls_tree_base_s", -1, 0.7, 1e-6, 1e-3),
        Parameter("nvls_tree_hop_s", -1, 0.5, 1e-6, 1e-3),
        Parameter("nvls_tree_efficiency", -1, 0.3, 0.05, WIRE_SHARE),
        *_pair("alltoall_base_s", 1.0, 1e-6, 1e-2),
        *_pair("alltoall_peer_s", 1.0, 1e-8, 1e-2),
        *_pair("alltoall_efficiency", 0.5, 0.02, WIRE_SHARE),
        Parameter("p2p_base_s", -1, 1.0, 2e-6, 6e-5),
        Parameter("p2p_efficiency", -1, 0.1, 0.3 if limited else 0.85, 0.95),
        Parameter("nic_limit_bytes_per_s", -1, 0.7, 1e8, 1e11),
    ]
    return [parameter for parameter in wanted if parameter.get(record) > 0]


def _triple(name: str, width: float, low: float, high: float) -> list[Parameter]:
    return [Parameter(name, index, width, low, high) for index in range(3)]


def _pair(name: str, width: float, low: float, high: float) -> list[Parameter]:
    return [Parameter(name, index, width, low, high) for index in range(2)]


def fit_profile(
    logs: Sequence[Log],
    start: CollectiveProfile,
    parents: Mapping[str, str],
    date: str,
    pools: Mapping[str, Sequence[str]] | None = None,
) -> CollectiveProfile:
    """Fit every record of `start` that has logs, scale-up links first, in the order of `start`.

    `parents` names, for a record, the already fitted record whose values are its prior; others start from `start`.
    Records without logs keep the parent's values and say so in their source. `pools` gives a fabric the logs of
    others as well, for a record that stands for a whole protocol.
    """
    scale_up: dict[str, ScaleUpPath] = {}
    for name, record in start.scale_up.items():
        prior = inherit(record, scale_up.get(parents.get(name, "")), date)
        mine = [log for log in logs if log.group.domains == 1 and log.network.scale_up == name]
        scale_up[name] = _fit_scale_up(prior, mine) if mine else prior
    fabrics: dict[str, FabricPath] = {}
    for name, base in start.fabrics.items():
        prior = inherit(base, fabrics.get(parents.get(name, "")), date)
        names = (name, *(pools or {}).get(name, ()))
        mine = [log for log in logs if any(_informs(log, member) for member in names)]
        fabrics[name] = _fit_fabric(prior, mine, scale_up) if mine else prior
    evidence = judge(logs, scale_up, fabrics)
    return CollectiveProfile(date, scale_up, fabrics, start.reference, {(e.gpu, e.fabric, e.kind): e for e in evidence})


def inherit(record: Record, parent: Record | None, date: str) -> Record:
    """The record with its parent's numbers, still under its own name and line rate."""
    if parent is None:
        return replace(record, source=replace(record.source, date=date))
    own = (
        "id",
        "protocol",
        "nic_bytes_per_s",
        "line_bytes_per_s",
        "nic_limit_bytes_per_s",
        "crowding",
        "boundary_bytes_per_s",
    )
    kept = {name: getattr(record, name) for name in own if hasattr(record, name)}
    for name in ("nvls_base_s", "nvls_efficiency", "nvls_gather_efficiency"):
        if hasattr(record, name) and not (getattr(record, name) and getattr(parent, name)):
            kept[name] = getattr(record, name)
    return replace(parent, **kept, source=Source(kind="estimate", date=date, like=parent.id))


def _informs(log: Log, fabric: str) -> bool:
    """Whether a log speaks for a fabric.

    Ring shifts over many nodes say little of a pair (one rank of a node crosses, with a fraction of the queues), and
    an alltoall between rack-scale domains does not fill the cards: both are only judged, never fitted.
    """
    shift = log.kind == "sendrecv" and log.group.domains > 2
    rack = log.kind == "alltoall" and log.network.domain_gpus > log.network.gpus_per_node
    return log.group.domains > 1 and log.network.fabric == fabric and not shift and not rack


def _fit_scale_up(prior: ScaleUpPath, logs: Sequence[Log]) -> ScaleUpPath:
    fitted: ScaleUpPath = fit_record(prior, scale_up_parameters(prior), logs, lambda trial, _: (trial, None)).record
    return fitted


def _fit_fabric(prior: FabricPath, logs: Sequence[Log], scale_up: Mapping[str, ScaleUpPath]) -> FabricPath:
    paths = lambda trial, log: (scale_up[log.network.scale_up], trial)  # noqa: E731
    fitted: FabricPath = fit_record(prior, fabric_parameters(prior), logs, paths).record
    return fitted


def residuals_of(log: Log, scale_up: Mapping[str, ScaleUpPath], fabrics: Mapping[str, FabricPath]) -> Array:
    """ln(predicted/measured) of a log on fitted records."""
    fabric = fabrics[log.network.fabric] if log.group.domains > 1 else None
    result: Array = np.log(predict(log, scale_up[log.network.scale_up], fabric) / log.seconds)
    return result


def judge(
    logs: Sequence[Log], scale_up: Mapping[str, ScaleUpPath], fabrics: Mapping[str, FabricPath]
) -> list[Evidence]:
    """Residual statistics by (gpu, fabric, collective), sorted."""
    cells: dict[tuple[str, str, str], list[Log]] = {}
    for log in logs:
        if log.kind == "sendrecv" and log.group.domains > 2:
            continue
        fabric = log.network.fabric if log.group.domains > 1 else "none"
        cells.setdefault((log.network.gpu, fabric, log.kind), []).append(log)
    return [_evidence(key, cells[key], scale_up, fabrics) for key in sorted(cells)]


def _evidence(
    key: tuple[str, str, str], logs: list[Log], scale_up: Mapping[str, ScaleUpPath], fabrics: Mapping[str, FabricPath]
) -> Evidence:
    errors = np.abs(np.concatenate([residuals_of(log, scale_up, fabrics) for log in logs]))
    small = np.concatenate([log.bytes for log in logs]) < SMALL_BYTES
    ranks, domains = [log.group.ranks for log in logs], [log.group.domains for log in logs]
    gpu, fabric, kind = key
    below, above = _quantiles(errors[small]), _quantiles(errors[~small])
    return Evidence(
        gpu=gpu, scale_up=logs[0].network.scale_up, fabric=fabric, kind=kind, logs=len(logs), points=int(errors.size),
        ranks=(min(ranks), max(ranks)), domains=(min(domains), max(domains)),
        median_small=below[0], p90_small=below[2], sigma_small=below[1],
        median_large=above[0], p90_large=above[2], sigma_large=above[1],
    )  # fmt: skip


def _quantiles(errors: Array) -> tuple[float, float, float]:
    """Median, 68th and 90th percentile; NaN without points."""
    if not errors.size:
        return math.nan, math.nan, math.nan
    median, sigma, p90 = np.quantile(errors, (0.5, 0.6827, 0.9))
    return float(median), float(sigma), float(p90)


def leave_one_log_out(logs: Sequence[Log], profile: CollectiveProfile) -> dict[str, Array]:
    """Residuals of each log on its path's record fitted without it, started from the full fit; by log id.

    The path's prior stays what the full fit found with a tenfold width, so the log's own pull is let go; a few steps
    on the logs of the same collective, hence somewhat kinder than a refit from nothing.
    """
    result: dict[str, Array] = {}
    for left in logs:
        several = left.group.domains > 1
        name = left.network.fabric if several else left.network.scale_up
        if several and not _informs(left, name):
            continue
        same = [log for log in logs if log is not left and (log.group.domains > 1) == several]
        mine = [log for log in same if (log.network.fabric if several else log.network.scale_up) == name]
        near = [log for log in mine if log.kind == left.kind]
        if not near:
            continue
        result[f"{left.id}|{left.group.ranks}"] = _refit_without(left, near, several, profile)
    return result


def _refit_without(left: Log, near: Sequence[Log], several: bool, profile: CollectiveProfile) -> Array:
    """Residuals of `left` after a refit on the other logs of its collective."""
    table: Mapping[str, Any] = profile.fabrics if several else profile.scale_up
    record = table[left.network.fabric if several else left.network.scale_up]
    parameters = fabric_parameters(record) if several else scale_up_parameters(record)
    free = [replace(parameter, width=10 * parameter.width) for parameter in parameters]

    def paths(trial: Record, log: Log) -> tuple[ScaleUpPath, FabricPath | None]:
        return (profile.scale_up[log.network.scale_up], trial) if several else (trial, None)

    fitted = fit_record(record, free, near, paths, evaluations=6).record
    result: Array = np.log(predict(left, *paths(fitted, left)) / left.seconds)
    return result


def dump_profile(profile: CollectiveProfile, note: str) -> str:
    """YAML text that `parse_collective_profile` reads; numbers to four digits."""
    data = {
        "format": FORMAT,
        "date": profile.date,
        "note": note,
        "units": "s, B/s; efficiencies are shares of a line rate; three values: LL, LL128, Simple; two: LL, Simple",
        "reference": dict(profile.reference),
        "scale_up": [_plain(record) for record in profile.scale_up.values()],
        "fabrics": [_plain(record) for record in profile.fabrics.values()],
        "evidence": {
            "columns": [f.name for f in fields(Evidence)],
            "rows": [[_plain(getattr(e, f.name)) for f in fields(Evidence)] for e in profile.evidence.values()],
        },
    }
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=140, allow_unicode=True)


def _plain(value: Any) -> Any:
    """Dataclasses and tuples to YAML's own types; empty and zero-by-default fields stay out."""
    if is_dataclass(value):
        return {
            f.name: _plain(getattr(value, f.name))
            for f in fields(value)
            if getattr(value, f.name) not in ("", (), {}, None)
        }
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value
