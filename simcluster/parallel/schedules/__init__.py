"""Pipeline schedules, one file each: order of operations, bubble in closed form."""

from __future__ import annotations

from simcluster.parallel.schedules import (
    breadth_first,
    dualpipe,
    gpipe,
    interleaved,
    one_f_one_b,
    overlapped,
    zb_h1,
    zb_h2,
)
from simcluster.parallel.schedules.order import Order

SPLIT = ("zb-h1", "zb-h2", "dualpipe")  # schedules that run input and weight gradients apart


def stage_orders(
    schedule: str, pp: int, micro_batches: int, virtual_stages: int = 1, group: int | None = None
) -> tuple[Order, ...]:
    """Orders of all stages.

    schedule   "gpipe", "1f1b" (with virtual_stages > 1 interleaved, depth first), "breadth-first", "zb-h1", "zb-h2",
               "dualpipe" (whose two directions are chunks 0 and 1), "1f1b-overlapped" (as 1f1b, forwards beside
               backwards), or "none" (gradient accumulation)

    >>> [len(o) for o in stage_orders("1f1b", 2, 3)]
    [6, 6]
    >>> [len(o) for o in stage_orders("zb-h1", 2, 3)]
    [9, 9]
    """
    if schedule == "gpipe":
        return tuple(gpipe.order(pp, micro_batches, stage) for stage in range(pp))
    if schedule == "breadth-first":
        return (breadth_first.order(micro_batches, virtual_stages),) * pp
    if schedule == "zb-h1":
        return tuple(zb_h1.order(pp, micro_batches, stage) for stage in range(pp))
    if schedule == "zb-h2":
        return zb_h2.orders(pp, micro_batches)
    if schedule == "dualpipe" and pp > 1:
        return tuple(dualpipe.order(pp, micro_batches, stage) for stage in range(pp))
    if schedule == overlapped.NAME:
        return tuple(overlapped.order(pp, micro_batches, stage, virtual_stages, group) for stage in range(pp))
    if virtual_stages > 1:
        return tuple(interleaved.order(pp, micro_batches, s, virtual_stages, group) for s in range(pp))
    return tuple(one_f_one_b.order(pp, micro_batches, stage) for stage in range(pp))
