"""Nodes of unlike speed as tables: how long steps get, what slow nodes cost, what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from simcluster.analysis.straggler_costs import StageCost, gains
from simcluster.analysis.straggler_remedies import Remedies
from simcluster.evaluation import StragglerResult
from simcluster.parallel.position import counted
from simcluster.reports.blocks import Block, Column, Table, Words
from simcluster.units import format_percent, format_seconds

REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "dropped": "the replicas of {worst} left out, the others doing their work",
        "rebalanced": "micro-batches shared out over replicas by speed",
        "binned": "slow nodes put together in as few replicas as hold them",
        "binned_rebalanced": "slow nodes put together, and micro-batches shared out",
    }
)
_MOST = 5  # nodes shown
_MOST_STAGES = 8  # rows of stages shown
_SAME = 1e-4  # share of a step: less is not shown
_NO_GAIN = "no gain"


def slow_nodes_blocks(found: StragglerResult) -> list[Block]:
    """Steps; the nodes that are known and what would help against them, or what one costs by stage."""
    blocks: list[Block] = [_steps(found)]
    if found.nodes:
        blocks += [_nodes(found), _help(found)]
    elif found.stages:
        blocks.append(
            Words(("With node: 5 instead of count, or a file of measured times, remedies are computed too.",))
        )
    return blocks


def slow_sentence(found: StragglerResult) -> str:
    """What the slow nodes make of a step that was told without them."""
    over = f", the mean over {_joined(found.drawn)}" if found.drawn else ""
    takes = f"{format_seconds(found.mean_s)} ({_change(found.mean_s, found.healthy_s)}{over})"
    return f"That is with all nodes alike; with slow nodes as stated it takes {takes}."


def remedy_seconds(remedies: Remedies) -> dict[str, float]:
    """Step times of the remedies that make sense, by name."""
    every = {name: getattr(remedies, f"{name}_s") for name in REMEDIES}
    return {name: seconds for name, seconds in every.items() if seconds is not None}


def _steps(found: StragglerResult) -> Table:
    columns = (Column("nodes of unlike speed"), Column("step", "right"), Column("change", "right"))
    rows = [("all nodes typical", found.healthy_s), *_draws(found), *_by_stage(found)]
    return Table(
        columns,
        tuple((words, format_seconds(seconds), _change(seconds, found.healthy_s)) for words, seconds in rows),
    )


def _draws(found: StragglerResult) -> Iterator[tuple[str, float]]:
    """The mean, and percentiles by what they are over."""
    if not found.drawn:
        yield "slow nodes as stated", found.mean_s
        return
    them = {"speeds of the nodes": "fleets", "places of the slow nodes": "places"}.get(found.drawn[0], "steps")
    them = them if len(found.drawn) == 1 else "draws"
    yield f"mean over {_joined(found.drawn)}", found.mean_s
    yield f"in half of the {them} at most", found.p50_s
    yield f"in nine of ten {them} at most", found.p90_s
    yield f"in 99 of 100 {them} at most", found.p99_s


def _by_stage(found: StragglerResult) -> Iterator[tuple[str, float]]:
    """One slow node in each stage, all other nodes typical; neighbouring stages of one cost in one row."""
    for factor in dict.fromkeys(one.factor for one in found.stages):
        runs: list[list[StageCost]] = []
        for one in (cost for cost in found.stages if cost.factor == factor):
            if not runs or abs(runs[-1][0].step_s - one.step_s) >= _SAME * found.healthy_s:
                runs.append([])
            runs[-1].append(one)
        slower = f"one node {format_percent(factor - 1)} slower"
        for where, run in _few(runs):
            yield f"{slower}, {where}", max(one.step_s for one in run)


def _few(runs: list[list[StageCost]]) -> Iterator[tuple[str, list[StageCost]]]:
    """Where each run lies; of too many only the cheapest and the dearest."""
    if len(runs) == 1:
        yield "wherever it is", runs[0]
    elif len(runs) <= _MOST_STAGES:
        yield from ((f"in {_stages(run)}", run) for run in runs)
    else:
        least, *_, most = sorted(runs, key=lambda run: run[0].step_s)
        yield f"where it costs least, in {_stages(least)}", least
        yield f"where it costs most, in {_stages(most)}", most


def _stages(run: list[StageCost]) -> str:
    return counted("stage", tuple(sorted({stage for one in run for stage in one.stages})))


def _nodes(found: StragglerResult) -> Table:
    """Known slow nodes, the one that costs most alone first."""
    columns = (
        Column("slow nodes"),
        Column("its ranks"),
        Column("takes longer by", "right"),
        Column("alone costs", "right"),
        Column("", "right"),
        Column("replacing it alone gives back", "right"),
    )
    rows = []
    for one in found.nodes[:_MOST]:
        cost = one.cost
        share = _change(found.healthy_s + cost.alone_s, found.healthy_s)
        longer, gain = format_percent(cost.factor - 1), format_seconds(cost.gives_back_s)
        gain = gain if cost.gives_back_s > _SAME * found.healthy_s else "nothing"
        rows.append((one.name, str(one.position), longer, format_seconds(cost.alone_s), share, gain))
    if len(found.nodes) > _MOST:
        rows.append((f"and {len(found.nodes) - _MOST} more", "", "", "", "", ""))
    return Table(columns, tuple(rows))


def _help(found: StragglerResult) -> Table:
    """Step after each remedy, against the step as it is."""
    assert found.remedies is not None
    now_s = found.remedies.now_s
    others = "" if found.mean_s == now_s else ", all others typical"
    rows = [(f"as it is{others}", format_seconds(now_s), "")]
    rows += [(words, format_seconds(seconds), _gain(seconds, now_s)) for words, seconds in _remedies(found)]
    if found.layers is not None and not (found.layers.fits or found.layers.as_now):
        rows[-1] = (rows[-1][0], rows[-1][1], "does not fit in memory")
    columns = (Column("what would help against slow nodes"), Column("step", "right"), Column("change", "right"))
    return Table(columns, tuple(rows))


def _remedies(found: StragglerResult) -> Iterator[tuple[str, float]]:
    yield from _spares(found)
    if found.remedies is not None:
        for name, seconds in remedy_seconds(found.remedies).items():
            yield REMEDIES[name].format(worst=found.nodes[0].name), seconds
    layers = found.layers
    if layers is not None:
        split = "as they are" if layers.as_now else " ".join(map(str, layers.of_stages))
        yield f"layers shared out over stages by speed ({split})", layers.step_s


def _spares(found: StragglerResult) -> Iterator[tuple[str, float]]:
    """Typical spares for the worst nodes, one after the other."""
    replaced = found.replaced_s
    for count, (one, seconds) in enumerate(zip(found.nodes[:_MOST], replaced)):
        yield f"and one for {one.name}" if count else f"a typical spare for {one.name}", seconds
    if len(replaced) > _MOST:
        yield f"and {len(replaced) - _MOST} more, for the worst {len(replaced)}", replaced[-1]


def _gain(seconds: float, now_s: float) -> str:
    return _change(seconds, now_s) if gains(seconds, now_s) else _NO_GAIN


def _change(seconds: float, before_s: float) -> str:
    return f"{100 * (seconds / before_s - 1):+.2f}%"


def _joined(parts: tuple[str, ...]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), parts[-1]) if part)
