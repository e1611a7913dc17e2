"""Physical parameters of collectives: one record per scale-up link, one per fabric, and the logs behind them.

A profile is data (`calibration/profiles/collectives.yaml`, made by `calibration/fit_collectives.py`). Efficiencies are
shares of a line rate, so a record serves any rate of its link; latencies are seconds. Lists of three are ordered by
protocol as in NVIDIA/nccl's tuner: LL (8 of 16 bytes are payload), LL128 (120 of 128), Simple (whole chunks).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem

Triple: TypeAlias = tuple[float, float, float]

PROTOCOLS = ("ll", "ll128", "simple")
PAYLOAD: Triple = (0.5, 15 / 16, 1.0)  # share of the wire bytes that is payload
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a record comes from.

    kind     "measured" (fitted to logs), "estimate" (a prior, or scaled from `like`)
    sigma    relative standard deviation of the parameters that the logs inform; the others are priors
    """

    kind: str
    date: str
    like: str = ""
    logs: int = 0
    points: int = 0
    median_error: float = math.nan
    p90_error: float = math.nan
    sources: tuple[str, ...] = ()
    sigma: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpPath:
    """Collectives inside one scale-up domain.

    ring_base_s, ring_hop_s     latency = base + steps*hop [s]
    ring_efficiency             share of the GPU's line rate that a ring moves, wire bytes
    ring_copy                   rate of the local copy of a rank's own shard over the line rate
    crowding                    ring_efficiency falls as (2/ranks)**crowding (host bridges shared by all ranks)
    nvls_*                      reduction in the switch: line-rate share of wire bytes S*(1+1/n) (all-reduce) or
                                S*(n-1)/n (all-gather, reduce-scatter); 0 = the link has none
    alltoall_*                  two regimes (LL, Simple): base, per peer, share of the line rate
    p2p_*                       one pair of GPUs
    boundary_bytes_per_s        most that the channels of one ring or tree carry out of a domain, however many cards
                                it has (rack-scale domains); 0 = no such limit
    """

    id: str
    line_bytes_per_s: float
    ring_base_s: Triple
    ring_hop_s: Triple
    ring_efficiency: Triple
    ring_copy: float
    alltoall_base_s: tuple[float, float]
    alltoall_peer_s: tuple[float, float]
    alltoall_efficiency: tuple[float, float]
    alltoall_copy: float
    p2p_base_s: float
    p2p_efficiency: float
    source: Source
    crowding: float = 0.0
    nvls_base_s: float = 0.0
    nvls_efficiency: float = 0.0
    nvls_gather_efficiency: float = 0.0
    boundary_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPath:
    """What a fabric adds when a collective crosses domains.

    ring_hop_s             latency of a ring step that leaves the domain [s]
    tree_hop_s             latency of a tree level between domains, by protocol; Simple's is the pipeline ramp [s]
    ring_efficiency, tree_efficiency    share of the NICs' line rate, wire bytes
    tree_fill              LL and LL128 fill the pipeline with the message itself: each level adds this share of the
                           time on the wire
    nvls_tree_base_s, nvls_tree_hop_s   start and ramp per tree level of NVLS-tree [s]
    alltoall_*             two regimes: base, per remote peer, share of the line rate
    p2p_*                  one pair of GPUs over the NICs of one GPU
    nic_limit_bytes_per_s  what one card reaches whatever its line rate (sockets), 0 = no such limit
    """

    id: str
    protocol: str
    nic_bytes_per_s: float
    ring_base_s: Triple
    ring_hop_s: Triple
    ring_efficiency: Triple
    tree_hop_s: Triple
    tree_efficiency: Triple
    tree_fill: float
    nvls_tree_base_s: float
    nvls_tree_hop_s: float
    nvls_tree_efficiency: float
    alltoall_base_s: tuple[float, float]
    alltoall_peer_s: tuple[float, float]
    alltoall_efficiency: tuple[float, float]
    p2p_base_s: float
    p2p_efficiency: float
    source: Source
    nic_limit_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Residuals of the fit on one (GPU, scale-up link, fabric, collective); fabric "none" is one domain.

    median and p90 are of |ln(predicted/measured)|, sigma is its robust standard deviation (68th percentile); `_small`
    is below 1 MiB, `_large` from there on; NaN where there is no log.
    """

    gpu: str
    scale_up: str
    fabric: str
    kind: str
    logs: int
    points: int
    ranks: tuple[int, int]
    domains: tuple[int, int]
    median_small: float
    p90_small: float
    sigma_small: float
    median_large: float
    p90_large: float
    sigma_large: float


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveProfile:
    """All records; compared and hashed by identity, so that plans can be remembered per profile."""

    date: str
    scale_up: Mapping[str, ScaleUpPath]
    fabrics: Mapping[str, FabricPath]
    reference: Mapping[str, str]  # protocol -> fabric id that stands in for one without logs
    evidence: Mapping[tuple[str, str, str], Evidence]  # (gpu, fabric, kind)


@cache
def load_collective_profile(path: Path | None = None) -> CollectiveProfile:
    """The shipped profile, or the one in `path`.

    Raises InputError with every field that is missing, unknown or out of range.

    >>> profile = load_collective_profile()
    >>> 0.7 < profile.scale_up["nvlink4"].ring_efficiency[2] < 0.95
    True
    """
    path = path or data_root("calibration") / "profiles" / "collectives.yaml"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(
            Problem(f"cannot read the collective profile: {error.strerror}", mark=Mark(str(path)))
        ) from None
    return parse_collective_profile(text, str(path))


def parse_collective_profile(text: str, name: str = "<text>") -> CollectiveProfile:
    """Profile from YAML text; `name` stands in messages. Raises InputError."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(text, Loader=loader)  # a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Mark(name, mark.line + 1, mark.column + 1) if mark else Mark(name)
        raise InputError(Problem(f"not YAML: {error.problem}", mark=place)) from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InputError(Problem(f"not a collective profile of format {FORMAT}", "run fit_collectives.py", Mark(name)))
    problems: list[Problem] = []
    reader = _Reader(name, text, problems)
    scale_up = {r["id"]: reader.record(ScaleUpPath, r, "scale_up") for r in reader.items(data, "scale_up")}
    fabrics = {r["id"]: reader.record(FabricPath, r, "fabrics") for r in reader.items(data, "fabrics")}
    evidence = [reader.record(Evidence, row, "evidence") for row in reader.rows(data, "evidence")]
    reference = dict(data.get("reference") or {})
    for protocol, fabric in reference.items():
        if fabric not in fabrics:
            reader.complain(f"reference.{protocol}: no fabric {fabric!r}", "name one of the list `fabrics`", fabric)
    if problems:
        raise InputError(problems)
    table = {(e.gpu, e.fabric, e.kind): e for e in evidence}
    return CollectiveProfile(str(data.get("date", "")), scale_up, fabrics, reference, table)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns mappings into records and gathers what is wrong."""

    name: str
    text: str
    problems: list[Problem]

    def complain(self, message: str, advice: str, word: str = "") -> None:
        """Add a problem, marked at the first line that holds `word`."""
        for number, line in enumerate(self.text.splitlines() if word else (), start=1):
            if word in line:
                self.problems.append(Problem(message, advice, Mark(self.name, number, line.index(word) + 1)))
                return
        self.problems.append(Problem(message, advice, Mark(self.name)))

    def items(self, data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """The records of a list; those without an id are reported and left out."""
        good = [r for r in data.get(key) or () if isinstance(r, dict) and isinstance(r.get("id"), str)]
        if len(good) < len(data.get(key) or ()):
            self.complain(f"{key}: a record has no id", "give each record an id", key)
        return good

    def rows(self, data: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """A table, stored as `columns` and `rows`, as records."""
        table = data.get(key) or {}
        columns = table.get("columns", ())
        for row in table.get("rows", ()):
            if len(row) != len(columns):
                self.complain(
                    f"{key}: a row of {len(row)} values for {len(columns)} columns", "complete it", str(row[0])
                )
        return [dict(zip(columns, row)) for row in table.get("rows", ())]

    def record(self, kind: Any, raw: Mapping[str, Any], where: str) -> Any:
        """A dataclass of type `kind`, or None after a complaint."""
        known = {f.name: f for f in fields(kind)}
        label = f"{where}.{raw.get('id', raw.get('gpu', '?'))}"
        before = len(self.problems)
        for key in raw.keys() - known.keys():
            self.complain(f"{label}: unknown field {key!r}", "remove it or correct its name", key)
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in known}
        if "source" in known and isinstance(raw.get("source"), dict):
            values["source"] = self.record(Source, raw["source"], f"{label}.source")
        for key, value in values.items():
            self._check(label, key, value)
        try:
            made = kind(**values)
        except TypeError as error:
            self.complain(f"{label}: {str(error).partition(')')[2].strip()}", "add it", str(raw.get("id", "")))
            return None
        return made if len(self.problems) == before else None

    def _check(self, label: str, key: str, value: Any) -> None:
        """Numbers are not negative, and no efficiency is above 1."""
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, (int, float)) and number < 0:
                self.complain(f"{label}.{key}: {number} is negative", "latencies and shares are >= 0", key)
            if key.endswith("efficiency") and not (isinstance(number, (int, float)) and number <= 1):
                self.complain(f"{label}.{key}: {number} is not a share", "a share of the line rate is 0 to 1", key)
