"""What layouts cost against each other, by physics alone; and some that once fell over."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.errors import InputError


def lost(run, cause, change):
    return dict(run(change).waterfall.items())[cause]


def plan(tp=1, cp=1, pp=1, nodes=2, fabric="ib-hdr-200", batch=16, strategy="zero-1", group="all", length=2048, **more):
    layout = {"tp": tp, "cp": cp, "pp": pp, "sequence_parallel": tp > 1}
    return {
        "cluster": {"nodes": nodes, "fabric": fabric},
        "training": {
            "sequence_length": length,
            "global_batch": batch,
            "parallelism": layout,
            "sharding": {"strategy": strategy, "group": group},
            "software": {"overrides": more},
        },
    }


def test_tensor_parallelism_over_nodes_is_much_dearer_than_inside(run):
    """Half the activations cross eight cards of 25 GB/s where all went over NVLink of 300 GB/s a GPU."""
    inside, across = (lost(run, "tensor_parallel", plan(tp=tp)) for tp in (8, 16))
    assert across > 2 * inside > 0


@pytest.mark.parametrize("axis", ["tp", "cp"])
def test_exchanges_grow_with_the_ranks_that_share_the_work(run, axis):
    """Each rank computes less and exchanges as much: the share of the step that is exposed rises."""
    cause = {"tp": "tensor_parallel", "cp": "expert_context_parallel"}[axis]
    shares = []
    for degree in (2, 4, 8):
        evaluation = run(plan(**{axis: degree}, cp_communication="all-gather"))
        shares.append(dict(evaluation.waterfall.items())[cause] / evaluation.step.time_s)
    assert 0 < shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize("cp", [2, 4, 8])
@pytest.mark.parametrize("length", [8192, 65536])
def test_a_ring_exposes_no_more_than_gathering_all_keys_first(run, cp, length):
    ring, gathered = (
        lost(run, "expert_context_parallel", plan(cp=cp, length=length, cp_communication=how))
        for how in ("p2p", "all-gather")
    )
    assert ring <= gathered


def test_a_long_sequence_hides_its_ring(run):
    """Attention grows with the square of the sequence, keys only with its length."""
    short, long = (lost(run, "expert_context_parallel", plan(cp=16, length=length)) for length in (2048, 524288))
    assert short > 0
    assert long == pytest.approx(0, abs=1e-9)


def test_shards_in_the_node_spare_a_slow_fabric(run):
    """Per step and rank 2/8 of the gradients cross nodes, against parameters twice and gradients once."""
    slow = plan(strategy="fsdp", nodes=4, batch=32, fabric="tcp-100")
    flat, hybrid = (
        lost(run, "data_parallel", {**slow, "training": {**slow["training"], "sharding": sharding}})
        for sharding in ({"strategy": "fsdp"}, {"strategy": "hsdp", "group": "node"})
    )
    assert hybrid < flat


def test_accumulation_hides_what_is_reduced_once(run):
    """Exposed reduction is a fixed time: its share falls as one over the micro-batches."""
    shares = []
    for batch in (16, 64, 256):
        evaluation = run(plan(batch=batch, overlap_grad_reduce=False))
        shares.append(dict(evaluation.waterfall.items())["data_parallel"] / evaluation.step.time_s)
    assert shares[0] > 3 * shares[1] > 9 * shares[2] > 0


def test_large_batches_tend_to_the_rate_of_the_kernels(run):
    """What is left of a long step on one GPU is its kernels: utilisation rises and levels off."""
    rates = [
        run({**plan(nodes=1, fabric="none"), "training": {**plan(nodes=1)["training"], "micro_batch": size,
             "global_batch": 512}}).step.mfu
        for size in (1, 4, 16, 64)
    ]  # fmt: skip
    gains = np.diff(rates)
    assert (gains > 0).all()
    assert gains[2] < gains[0]
    assert rates[-1] < 0.7965  # never above the sustained share of the peak


def test_a_group_that_straddles_nodes_pays_the_fabric(run):
    """Six ranks on nodes of eight: every second group crosses from one node to the next, and all wait for it."""
    change = {"heads": 18, "kv_heads": 18, "head_dim": 64, "hidden": 2304}
    inside, across = (
        run(
            {
                "model": change,
                "cluster": {"node": {"base": "dgx-a100-80gb", "gpus": gpus}, "nodes": nodes},
                "training": {
                    "global_batch": 4,
                    "sequence_length": 2304,
                    "parallelism": {"tp": 6, "pp": 1, "sequence_parallel": True},
                },
            }
        )
        for gpus, nodes in ((6, 4), (8, 3))
    )
    lost = [dict(one.waterfall.items())["tensor_parallel"] for one in (inside, across)]
    assert lost[1] > 2 * lost[0]


# Layouts that once fell over: an answer or a message, never a traceback.


def no_traceback(run, change):
    try:
        evaluation = run(change)
        return evaluation.step.time_s > 0 and len(evaluation.memory.stages) > 0
    except InputError as error:
        return bool(error.problems)


@pytest.mark.parametrize(("pp", "virtual", "micro_batches"), [(4, 3, 5), (4, 3, 9)])
def test_interleaving_with_a_short_last_group(run, pp, virtual, micro_batches):
    change = {
        "global_batch": 4 * micro_batches,
        "parallelism": {"tp": 1, "pp": pp, "virtual_stages": virtual, "sequence_parallel": None},
    }
    assert no_traceback(run, {"training": change})


@pytest.mark.parametrize(
    "model",
    [
        {"layers": 1, "window": 64, "full_every": 2},
        {"layers": 3, "experts": 4, "top_k": 1, "expert_ffn": 64, "moe_every": 4},
    ],
)
def test_a_further_token_layer_of_its_own_kind(run, model):
    change = {"parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None}}
    assert no_traceback(run, {"model": {**model, "mtp_depth": 1}, "training": change})
