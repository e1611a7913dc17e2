"""Compares evaluated candidates with the first of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from simcluster.analysis.uncertainty import Difference, difference
from simcluster.errors import InputError, Problem
from simcluster.evaluation import Evaluation
from simcluster.hardware.catalogue import Catalogue
from simcluster.resolve import Resolved
from simcluster.scenario import Loaded
from simcluster.study.layouts import settled, with_layout
from simcluster.study.verdict import Verdict, verdict
from simcluster.units import DAY_S, format_percent, format_seconds


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate and how it differs from the baseline (the baseline from itself: not at all)."""

    name: str
    evaluation: Evaluation
    delta: Mapping[str, Difference]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidates in the order given, the first is the baseline.

    notes   why figures may not be comparable (unlike jobs)
    """

    candidates: tuple[Candidate, ...]
    verdict: Verdict
    notes: tuple[str, ...]

    @property
    def baseline(self) -> Candidate:
        """What the others are compared with."""
        return self.candidates[0]


def compare(
    named: Sequence[tuple[str, Loaded]],
    catalogue: Catalogue | None = None,
    seed: int = 0,
    *,
    same_layout: bool = False,
) -> Comparison:
    """Evaluates and compares; layouts that are not stated are chosen.

    same_layout   all get the layout of the first

    Raises InputError with every problem of every candidate that cannot be resolved.
    """
    store = catalogue or Catalogue.load()
    if same_layout:
        layout = settled(named[0][1], store).resolved.layout
        named = [(name, with_layout(loaded, layout)) for name, loaded in named]
    evaluations = _evaluate_all(named, store, seed)
    baseline = evaluations[0][1]
    candidates = tuple(Candidate(name, one, _delta(baseline, one, seed)) for name, one in evaluations)
    notes = [f"all have the layout of {candidates[0].name}"] if same_layout else []
    return Comparison(candidates, verdict(candidates), (*notes, *_notes(candidates)))


def _evaluate_all(named: Sequence[tuple[str, Loaded]], catalogue: Catalogue, seed: int) -> list[tuple[str, Evaluation]]:
    """Evaluations in order; the problems of all candidates are raised together."""
    evaluations: list[tuple[str, Evaluation]] = []
    problems: list[Problem] = []
    files = [loaded.file for _, loaded in named]
    for name, loaded in named:
        try:
            evaluations.append((name, settled(loaded, catalogue, seed=seed)))
        except InputError as error:
            shared = files.count(loaded.file) > 1  # then the place alone does not tell whose problem it is
            problems += [replace(one, message=f"{name}: {one.message}") if shared else one for one in error.problems]
    if problems:
        raise InputError(problems)
    return evaluations


def _delta(baseline: Evaluation, other: Evaluation, seed: int) -> dict[str, Difference]:
    """Differences by metric; a token takes step time over tokens of a step, whatever the batch."""
    terms = (baseline.error_terms, other.error_terms)
    times = (baseline.step.time_s, other.step.time_s)
    per_token = tuple(1e6 / one.step.tokens_per_s for one in (baseline, other))
    gpus = tuple(one.resolved.cluster.gpus for one in (baseline, other))
    found = {
        "step_time_s": difference(times[0], terms[0], times[1], terms[1], seed),
        "s_per_million_tokens": difference(per_token[0], terms[0], per_token[1], terms[1], seed),
        "gpu_s_per_million_tokens": difference(
            per_token[0] * gpus[0], terms[0], per_token[1] * gpus[1], terms[1], seed
        ),
        "energy_per_token_j": difference(
            baseline.power.energy_per_token_j, terms[0], other.power.energy_per_token_j, terms[1], seed
        ),
    }
    walls = (baseline.run.wall_s, other.run.wall_s)
    if walls[0] is not None and walls[1] is not None:
        of_run = (baseline.run_error_terms, other.run_error_terms)
        found["wall_days"] = difference(walls[0] / DAY_S, of_run[0], walls[1] / DAY_S, of_run[1], seed)
    if baseline.cost is not None and other.cost is not None:
        usd = (baseline.cost.usd_per_million_tokens, other.cost.usd_per_million_tokens)
        of_token = (baseline.token_error_terms, other.token_error_terms)
        found["usd_per_million_tokens"] = difference(usd[0], of_token[0], usd[1], of_token[1], seed)
    return found


def _notes(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Warnings about unlike jobs."""
    first = candidates[0].evaluation.resolved
    notes = []
    for candidate in candidates[1:]:
        other = candidate.evaluation.resolved
        if other.arch != first.arch:
            models = f"{candidate.name} trains {other.arch.name}, the baseline {first.arch.name}"
            notes.append(f"{models}: unlike jobs, compared per token")
        if _tokens(other) != _tokens(first):
            notes.append(f"{candidate.name} has another global batch: compared per token")
        if other.cluster.gpus != first.cluster.gpus:
            notes.append(_unlike_sizes(candidate, candidates[0]))
    return (*notes, *_outlived(candidates))


def _outlived(candidates: Sequence[Candidate]) -> Iterator[str]:
    """Runs that are longer than machines are usually kept: the cost of a month goes on."""
    for one in candidates:
        wall_s, kept_s = one.evaluation.run.wall_s, one.evaluation.means.horizon_s
        cost = one.evaluation.cost
        if cost is None or not cost.pays_idle_hours or not one.evaluation.memory.fits:
            continue
        if wall_s is not None and wall_s > kept_s:
            times = f"{format_seconds(wall_s)} of running, machines are kept for {format_seconds(kept_s)}"
            yield f"{one.name}: {times}: they are taken to be got again at the same cost"


def _unlike_sizes(candidate: Candidate, baseline: Candidate) -> str:
    """That clusters differ in size, and which GPU does more."""
    sizes = [one.evaluation.resolved.cluster.gpus for one in (candidate, baseline)]
    rates = [one.evaluation.step.tokens_per_s_per_gpu for one in (candidate, baseline)]
    gain = rates[0] / rates[1] - 1
    word = "more" if gain >= 0 else "less"
    return (
        f"{candidate.name} has {sizes[0]} GPUs, {baseline.name} {sizes[1]}: whole clusters are compared; "
        f"each of its GPUs does {format_percent(abs(gain))} {word}"
    )


def _tokens(resolved: Resolved) -> int:
    """Tokens of a step."""
    return resolved.layout.sequences * resolved.layout.sequence_length
