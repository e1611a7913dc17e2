"""What may be chosen: the values that each axis of a layout takes."""

from __future__ import annotations

from simcluster.resolve.compatibility_rules import Engine, load_rules
from simcluster.scenario.findings import divisors
from simcluster.timing.software import SoftwareFamily

LONG_SEQUENCE = 8192  # tokens that a context-parallel rank holds at least; shorter pieces hide no exchange (estimate)
MOST_SEQUENCES = 64  # of a micro-batch; kernels gain nothing beyond (estimate)


def strategies(family: SoftwareFamily, group: int | str = "all") -> tuple[str, ...]:
    """Sharding strategies that a software family can run, its own first.

    A framework that is not known is taken to have both an optimizer's shards and fully sharded parameters. Hybrid
    sharding needs a stated group. Of two names for one thing the first is kept.

    >>> strategies(SoftwareFamily("generic", sharding="zero-1")), strategies(SoftwareFamily("mine", sharding="zero-1"))
    (('zero-1', 'fsdp'), ('zero-1',))
    >>> strategies(SoftwareFamily("deepspeed", sharding="zero-3"))
    ('zero-3', 'none', 'zero-1', 'zero-2')
    """
    rules, own = load_rules(), family.sharding
    engine = _engine(family)
    others = engine.strategies if engine else ("fsdp",) if own == "zero-1" and family.id.startswith("generic") else ()
    found: list[str] = [own]
    for name in others:
        twin = rules.same.get(name)
        if name not in found and twin not in found and (name != "hsdp" or group != "all"):
            found.append(name)
    return tuple(found)


def runs_with_pipeline(family: SoftwareFamily, strategy: str) -> bool:
    """Whether the software goes on sharding that way with pipeline parallelism.

    >>> runs_with_pipeline(SoftwareFamily("deepspeed"), "zero-3"), runs_with_pipeline(SoftwareFamily("mine"), "zero-3")
    (False, True)
    """
    engine = _engine(family)
    return engine is None or strategy in engine.with_pipeline


def _engine(family: SoftwareFamily) -> Engine | None:
    return next((one for one in load_rules().engines if family.id in one.families), None)


def powers_of_two(most: int) -> list[int]:
    """1, 2, 4, … up to a number.

    >>> powers_of_two(10)
    [1, 2, 4, 8]
    """
    return [1 << power for power in range(max(most, 1).bit_length())]


def context_degrees(sequence: int, ranks: int) -> list[int]:
    """Degrees of context parallelism for a sequence of that many tokens, on at most that many ranks.

    >>> context_degrees(8192, 64), context_degrees(131072, 64)
    ([1], [1, 2, 4, 8, 16])
    """
    return [cp for cp in powers_of_two(sequence // LONG_SEQUENCE) if ranks % cp == 0] or [1]


def virtual_degrees(layers: int, pp: int) -> list[int]:
    """Virtual stages of a stage: one, or as many as make all parts even, embedding and head counted in or not.

    >>> virtual_degrees(32, 4), virtual_degrees(126, 16), virtual_degrees(32, 1)
    ([1, 2, 4, 8], [1, 2, 4, 8], [1])
    """
    if pp == 1:
        return [1]
    even = [count // pp for whole in (layers, layers + 2) for count in divisors(whole) if count % pp == 0]
    return sorted({1, *even})
