"""Whether software, GPU, network and date of a scenario can be had together.

Each check notes what cannot be, with what would do; the facts are rows of `compatibility_rules`. What the table does
not know stays silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from simcluster.hardware.cluster import NO_FABRIC, Cluster
from simcluster.hardware.gpu import GpuSpec
from simcluster.resolve.compatibility_rules import (
    ANY_MINOR,
    TOOLKITS,
    Rules,
    Runs,
    Version,
    load_rules,
    release,
    said,
    toolkit_release,
)
from simcluster.resolve.layout_checks import PRECISIONS
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario, closest, did_you_mean
from simcluster.scenario.suggest import either
from simcluster.scenario.training import Parallelism, Software
from simcluster.timing.records import PEAK_OF
from simcluster.timing.software import SoftwareFamily

_SOFTWARE = "training.software"
_PREVIEW_MONTHS = 6  # vendors' containers carry a torch release that long before it is published
_NAMES = {"cuda": "CUDA", "rocm": "ROCm", "synapse": "Intel's SynapseAI", "xla": "XLA", "neuron": "the AWS Neuron SDK"}


@dataclass(frozen=True, slots=True)
class _Case:
    """What the checks look at."""

    scenario: Scenario
    cluster: Cluster
    family: SoftwareFamily
    rules: Rules
    trail: Trail

    @property
    def software(self) -> Software:
        return self.scenario.training.software

    @property
    def gpu(self) -> GpuSpec:
        return self.cluster.node.gpu

    @property
    def runs(self) -> Runs | None:
        return self.rules.runs.get(self.gpu.generation)

    @property
    def maker(self) -> str:
        return self.gpu.entry.text("vendor")

    @property
    def chip(self) -> str:
        return f"{self.gpu.id} ({self.gpu.generation})"

    def problem(self, key: str, message: str, advice: str) -> None:
        self.trail.problem(f"{_SOFTWARE}.{key}", message, advice)


def check_compatibility(scenario: Scenario, cluster: Cluster, family: SoftwareFamily, trail: Trail) -> None:
    """Notes everything of a scenario that cannot be had together."""
    case = _Case(scenario, cluster, family, load_rules(), trail)
    for check in _CHECKS:
        check(case)


def _check_toolkit(case: _Case) -> None:
    """CUDA and ROCm have kernels for a GPU from some release on."""
    stated, runs = case.software.cuda, case.runs
    if stated is None:
        return
    found = toolkit_release(stated)
    if found is None:
        case.problem("cuda", f"{stated!r} is not a release", 'write it like "12.4" or "rocm 6.2"')
        return
    if runs is None:
        return
    toolkit, version = found
    if toolkit != runs.toolkit:
        message = f"{_NAMES[toolkit]} {said(version)} does not drive {case.chip}, which runs {_NAMES[runs.toolkit]}"
        name = f"rocm {said(runs.first)}" if runs.first and runs.toolkit == "rocm" else said(runs.first or version)
        advice = f'state cuda: "{name}", or later' if runs.first and runs.toolkit in TOOLKITS else "leave cuda out"
        case.problem("cuda", message, advice)
        return
    _check_release(case, "cuda", version, runs)
    if toolkit == "cuda":
        _check_date(case, "cuda", f"CUDA {said(version)}", case.rules.cuda_months.get(version))


def _check_release(case: _Case, key: str, version: Version, runs: Runs) -> None:
    name, text = _NAMES[runs.toolkit], said(version)
    if runs.first and version < runs.first:
        message = f"{name} {text} has no kernels for {case.chip}, which needs {said(runs.first)} or later"
        case.problem(key, message, f'use "{said(runs.first)}" or later')
    elif runs.dropped and version >= runs.dropped:
        message = f"{name} {text} has dropped {case.chip}"
        case.problem(key, message, f"use a release before {said(runs.dropped)}")


def _check_date(case: _Case, key: str, what: str, month: str | None, early: int = 0) -> None:
    """What was released after the stated date cannot have been used then; `early`: months that builds precede it."""
    date = case.software.date
    if not date or not month:
        return
    at = date[:7] if len(date) > 4 else f"{date}-12"  # a year alone is all of it
    if _months(month) > _months(at) + early:
        case.problem(key, f"{what} came in {month}, after the date {date}", "state an older release, or a later date")


def _months(date: str) -> int:
    return 12 * int(date[:4]) + int(date[5:7])


def _check_torch(case: _Case) -> None:
    """Torch is of the date, new enough for the family, and built with a CUDA that knows the GPU."""
    stated = case.software.torch
    if stated is None:
        return
    version = release(stated)
    if version is None:
        case.problem("torch", f"{stated!r} is not a release", 'write it like "2.4" or "2.7.1+cu128"')
        return
    known = case.rules.torch.get(version)
    _check_date(case, "torch", f"torch {said(version)}", known.month if known else None, _PREVIEW_MONTHS)
    _check_engine_torch(case, version)
    built = _built_with(stated)
    if built is not None:
        _check_built(case, stated, built)
    elif case.software.cuda is None and known and case.runs and case.runs.toolkit == "cuda":
        _check_wheels(case, version, known.cuda, case.runs)
    elif known and case.software.cuda:
        _note_own_build(case, version, known.cuda)


def _check_engine_torch(case: _Case, version: Version) -> None:
    for engine in case.rules.engines:
        if case.family.id in engine.families and engine.torch and version < engine.torch:
            message = f"torch {said(version)} has no {engine.name}, which {case.family.id} runs on"
            case.problem("torch", message, f'use "{said(engine.torch)}" or later')


def _built_with(torch: str) -> tuple[str, Version] | None:
    """Toolkit in the local part of a version, as in 2.8.0+cu126."""
    _, plus, local = torch.partition("+")
    return toolkit_release(local) if plus and re.match(r"cu\d|rocm", local) else None


def _check_built(case: _Case, torch: str, built: tuple[str, Version]) -> None:
    runs, stated = case.runs, toolkit_release(case.software.cuda or "")
    if stated and stated != built:
        message = f"torch {torch} is built with {_NAMES[built[0]]} {said(built[1])}, not with {case.software.cuda}"
        case.problem("torch", message, "keep one of them")
    elif runs is not None and built[0] != runs.toolkit:
        message = f"torch {torch} does not drive {case.chip}, which runs {_NAMES[runs.toolkit]}"
        case.problem("torch", message, f"name a build for {_NAMES[runs.toolkit]}")
    elif runs is not None and not stated:
        _check_release(case, "torch", built[1], runs)


def _check_wheels(case: _Case, version: Version, newest: Version, runs: Runs) -> None:
    if runs.first and newest < runs.first:
        message = f"torch {said(version)} is built with CUDA {said(newest)} at most, and {case.chip} needs"
        enough = [one for one, entry in case.rules.torch.items() if entry.cuda >= runs.first]
        advice = f'use torch "{said(min(enough))}" or later, or state the cuda that it was built with'
        case.problem("torch", f"{message} {said(runs.first)} or later", advice)


def _note_own_build(case: _Case, version: Version, newest: Version) -> None:
    stated = toolkit_release(case.software.cuda or "")
    if stated and stated[0] == "cuda" and stated[1] > newest and stated[1][1] != ANY_MINOR:
        wheels = f"the wheels of torch {said(version)} go up to CUDA {said(newest)}"
        why = f"{wheels}: built from source with {said(stated[1])}"
        case.trail.assume(f"{_SOFTWARE}.torch", case.software.torch, why)


def _check_backend(case: _Case) -> None:
    """The communication library drives the GPUs, and its collectives are modelled."""
    stated = case.software.backend
    if stated is None:
        return
    backend = case.rules.backends.get(stated.strip().lower())
    if backend is None:
        fitting = [name for name, one in case.rules.backends.items() if case.maker in one.makers and one.modelled]
        near = closest(stated, case.rules.backends)
        case.problem("backend", f"{stated!r} is not a known backend", did_you_mean(stated, near or fitting))
    elif case.maker not in backend.makers:
        fitting = [name for name, one in case.rules.backends.items() if case.maker in one.makers and one.modelled]
        message = f"{stated} does not drive {case.chip} of {case.maker}"
        case.problem("backend", message, f"use {either(fitting)}" if fitting else "leave it out")
    elif not backend.modelled:
        case.trail.unsupported(f"{_SOFTWARE}.backend", f"communication over {stated}")
    elif case.maker in backend.reads_as:
        library = backend.reads_as[case.maker]
        case.trail.assume(f"{_SOFTWARE}.backend", library, f"{stated} on GPUs of {case.maker} is {library}")


def lacks_precision(gpu: GpuSpec, precision: str) -> tuple[str, str] | None:
    """What keeps a GPU from a precision, and what to use instead; None if nothing does.

    >>> from simcluster.hardware.catalogue import Catalogue
    >>> lacks_precision(Catalogue.load().gpu("a100-80gb-sxm")[0], "fp8")
    ('a100-80gb-sxm (ampere) has no fp8 rate', 'use bf16, fp16 or tf32')
    """
    peak, special = PEAK_OF.get(precision, precision) in gpu.peak_flops, load_rules().precisions.get(precision)
    if peak and _in_recipe(precision, gpu):
        return None
    what = f"{special.what}, which {precision} needs" if peak and special else f"{precision} rate"
    has = [one for one in PRECISIONS if PEAK_OF.get(one, one) in gpu.peak_flops and _in_recipe(one, gpu)]
    return f"{gpu.id} ({gpu.generation}) has no {what}", f"use {either(has)}" if has else "name another GPU"


def _in_recipe(precision: str, gpu: GpuSpec) -> bool:
    special = load_rules().precisions.get(precision)
    return special is None or gpu.generation in special.generations


def _check_precision(case: _Case) -> None:
    lacking = lacks_precision(case.gpu, case.scenario.training.precision)
    if lacking:
        case.trail.problem("training.precision", *lacking)


def _check_engines(case: _Case) -> None:
    """One set of parameters has one sharding engine."""
    text = case.software.family or ""
    named = [engine for engine in case.rules.engines if engine.word and engine.word.search(text)]
    kinds = {engine.name.removesuffix("2") for engine in named}
    if len(kinds) > 1:
        message = f"{text!r} names {' and '.join(sorted(kinds))}, two sharding engines for one set of parameters"
        case.problem("family", message, "keep the one that shards")
        return
    engine = next((one for one in case.rules.engines if case.family.id in one.families), None)
    if engine is None:
        return
    strategy = case.scenario.training.sharding.strategy
    if strategy is not None and strategy not in engine.strategies:
        message = f"{strategy} is not what {case.family.id} shards with: {engine.name} has {either(engine.strategies)}"
        twin = case.rules.same.get(strategy, "")
        advice = (
            f"use {twin}, or another family" if twin in engine.strategies else "use one of these, or another family"
        )
        case.trail.problem("training.sharding.strategy", message, advice)
        return
    _check_pipeline(case, strategy or case.family.sharding)


def _check_pipeline(case: _Case, strategy: str) -> None:
    plan = case.scenario.training.parallelism
    engine = next(one for one in case.rules.engines if case.family.id in one.families)
    if not isinstance(plan, Parallelism) or plan.pp == 1 or strategy in engine.with_pipeline:
        return
    stated = case.scenario.training.sharding.strategy is not None
    message = f"{strategy}{'' if stated else f', the default of {case.family.id},'} does not go with pp {plan.pp}"
    advice = f"use {either(engine.with_pipeline)}, or pp 1"
    case.trail.problem("training.sharding.strategy", f"{message} in {engine.name}", advice)


def _check_cloud(case: _Case) -> None:
    """A cloud instance has the network that its cloud has; asked only of nodes that the catalogue names."""
    stated, node, fabric = case.scenario.cluster, case.cluster.node, case.cluster.fabric
    if not isinstance(stated.node, str) or stated.fabric is None or fabric.protocol == NO_FABRIC:
        return
    only = case.rules.only_at.get(fabric.protocol)
    protocols = case.rules.cloud_protocols.get(node.provider)
    if protocols is not None and fabric.protocol not in protocols:
        message = f"{fabric.id} ({fabric.protocol}) is not a network of {node.id}: instances of {node.provider} have"
        own = f", such as {node.fabric}" if node.fabric else ""
        advice = f"leave fabric out for its own{own}, or name a node that is bought"
        case.trail.problem("cluster.fabric", f"{message} {either(protocols)}", advice)
    elif only and node.provider != only:
        message = f"{fabric.id} ({fabric.protocol}) exists in instances of {only} alone, and {node.id} is none"
        case.trail.problem("cluster.fabric", message, f"name an instance of {only}, or another fabric")


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _check_toolkit,
    _check_torch,
    _check_backend,
    _check_precision,
    _check_engines,
    _check_cloud,
)
