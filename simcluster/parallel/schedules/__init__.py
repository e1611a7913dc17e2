"""Pipeline schedules, one file each: order of operations, bubble in closed form."""

from __future__ import annotations

from simcluster.parallel.schedules import gpipe, interleaved, one_f_one_b
from simcluster.parallel.schedules.order import Order


def stage_orders(
    schedule: str, pp: int, micro_batches: int, virtual_stages: int = 1, group: int | None = None
) -> tuple[Order, ...]:
    """Orders of all stages; "1f1b" with virtual_stages > 1 is interleaved, "none" is gradient accumulation.

    >>> [len(o) for o in stage_orders("1f1b", 2, 3)]
    [6, 6]
    """
    if schedule == "gpipe":
        return tuple(gpipe.order(pp, micro_batches, stage) for stage in range(pp))
    if virtual_stages > 1:
        return tuple(interleaved.order(pp, micro_batches, s, virtual_stages, group) for s in range(pp))
    return tuple(one_f_one_b.order(pp, micro_batches, stage) for stage in range(pp))
