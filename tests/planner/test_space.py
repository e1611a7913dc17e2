"""The space of layouts: counted, and valid by the resolver's own rules."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.errors import InputError
from simcluster.planner.job import plainly, settle_job
from simcluster.planner.space import space_of
from simcluster.resolve import resolve
from simcluster.scenario import Origin
from simcluster.scenario.loading import apply_changes


def test_counts_add_up(whole, open_layout, models):
    for name in models:
        every = whole(open_layout(models[name]))
        assert every.space.size == len(every.candidates) + sum(every.space.rejected.values())
        assert min(every.space.rejected.values()) > 0


def test_all_ranks_have_a_place(whole, open_layout, models):
    points = whole(open_layout(models["experts"], nodes=3)).space.points
    assert (points.tp * points.cp * points.pp * points.dp == 24).all()
    assert ((points.tp * points.cp * points.dp) % (points.ep * points.etp) == 0).all()
    assert (points.micro_batch * points.micro_batches * points.dp == points.sequences).all()


@pytest.mark.parametrize("family", ["megatron-core", "deepspeed", "fsdp2", "generic", "megatron-lm-2021"])
def test_the_resolver_takes_every_point(whole, open_layout, models, family):
    every = whole(open_layout(models["experts"], family=family)).some(1, 40)
    for row in range(len(every.candidates)):
        layout, point = every.resolved(row).layout, every.candidates.points.take(row)
        for name in ("tp", "pp", "dp", "cp", "micro_batch", "micro_batches", "sequences", "ep", "etp"):
            assert getattr(layout, name) == getattr(point, name)
        assert layout.sequence_parallel == bool(point.sequence_parallel)
        assert layout.virtual_stages == point.virtual


def test_what_the_resolver_refuses_is_no_point(catalogue, open_layout, models):
    """Every mesh of a small cluster, tried by hand."""
    loaded = open_layout(models["dense"] | {"layers": 32}, nodes=1, micro_batch=1)
    points = space_of(settle_job(loaded, catalogue)).points
    there = set(zip(points.tp.tolist(), points.pp.tolist(), points.virtual.tolist()))
    for tp in (1, 2, 4, 8):
        for pp in (1, 2, 4, 8):
            for virtual in (1, 2, 4):
                plan = {"tp": tp, "pp": pp, "virtual_stages": virtual}
                try:
                    resolve(apply_changes(loaded, {"training.parallelism": plan}, Origin("arguments")), catalogue)
                    valid = True
                except InputError:
                    valid = False
                assert ((tp, pp, virtual) in there) == valid, (tp, pp, virtual)


def test_a_long_sequence_may_be_cut(catalogue, open_layout, models):
    short = space_of(settle_job(open_layout(models["dense"]), catalogue)).points
    long = space_of(settle_job(open_layout(models["dense"], sequence_length=131072, global_batch=16), catalogue)).points
    assert short.cp.max() == 1
    assert set(long.cp.tolist()) == {1, 2, 4, 8, 16}


def test_a_small_model_on_one_node_is_only_replicated(catalogue, open_layout, models):
    job = settle_job(open_layout(models["dense"], nodes=1), catalogue)
    assert job.small
    points = space_of(plainly(job)).points
    for axis in (points.tp, points.pp, points.cp, points.ep):
        assert set(axis.tolist()) == {1}
    assert len(np.unique(points.micro_batch)) > 1
    large = settle_job(open_layout(models["dense"] | {"layers": 40}, nodes=1), catalogue)
    assert not large.small
    assert space_of(large).points.tp.max() == 8


def test_a_huge_cluster_keeps_its_replicas_where_no_batch_is_stated(catalogue, open_layout, models):
    """No multiple of so many replicas is near four million tokens; then the nearest serve."""
    model = models["dense"] | {"layers": 1, "heads": 1, "kv_heads": 1}
    loaded = open_layout(model, nodes=2048, global_batch=None, sequence_length=8192)
    alone = space_of(settle_job(loaded, catalogue)).points
    assert len(alone)
    assert (alone.sequences % (alone.dp * alone.micro_batch) == 0).all()
