"""Bytes that a rank sends in a step, by sharding, axis and precision."""

from __future__ import annotations

import pytest

from simcluster.program.plan import block_names, block_ops, message_bytes
from simcluster.shapes import Transfer


@pytest.fixture(scope="module")
def volume(run, on_toll):
    """`volume(strategy, …)` gives bytes that one rank sends in a step for data parallelism alone, and its parameters.

    One stage whose kernels count for nothing: the step time is the traffic of one rank.
    """

    def of(strategy="none", group="all", micro_batches=1, dp=16, family="megatron-core", **more):
        overrides = {"gradient_dtype": "bf16", "overlap_grad_reduce": False, "overlap_param_gather": False}
        evaluation = run(
            {
                "cluster": {"nodes": dp // 8},
                "training": {
                    "global_batch": dp * micro_batches,
                    "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None},
                    "sharding": {"strategy": strategy, "group": group},
                    "software": {"family": family, "overrides": overrides | more},
                },
            }
        )
        times = on_toll(evaluation)
        return float(times.total[0] - times.total[1]), sum(
            evaluation.resolved.plan.block_parameters[name]
            for name in block_names(evaluation.resolved.plan, evaluation.resolved.plan.contents[0][0])
        )

    return of


def test_volumes_of_the_strategies(volume):
    """Rajbhandari et al. 2020: sharding the states costs nothing, sharding the parameters half as much again."""
    plain, parameters = volume()
    assert plain == pytest.approx(2 * 15 / 16 * 2 * parameters, rel=1e-6)
    assert volume("zero-1")[0] == pytest.approx(plain, rel=1e-6)
    assert volume("zero-2")[0] == pytest.approx(plain, rel=1e-6)
    assert volume("zero-3")[0] == pytest.approx(1.5 * plain, rel=1e-6)
    assert volume("fsdp")[0] == pytest.approx(1.5 * plain, rel=1e-6)


@pytest.mark.parametrize("micro_batches", [1, 2, 5])
@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_sharded_parameters_are_gathered_as_often_as_they_are_used(volume, micro_batches, reshard, each):
    """(2P m' + G m'')(1 - 1/D): m' is 2m, or m without resharding; m'' is m, or one a step."""
    flags = {"reshard_after_forward": reshard, "reduce_every_micro_batch": each}
    moved, parameters = volume("fsdp", micro_batches=micro_batches, **flags)
    gathers = (2 if reshard else 1) * micro_batches
    reductions = micro_batches if each else 1
    assert moved == pytest.approx(15 / 16 * 2 * parameters * (gathers + reductions), rel=1e-6)


@pytest.mark.parametrize(("strategy", "shards"), [("none", 1), ("zero-1", 16), ("zero-1", 4)])
def test_accumulation_does_not_add_traffic_below_zero_2(volume, strategy, shards):
    group = shards if shards > 1 else "all"
    once, often = (volume(strategy, group, micro_batches=count)[0] for count in (1, 6))
    assert once == pytest.approx(often, rel=1e-6)


@pytest.mark.parametrize("micro_batches", [2, 5])
def test_zero_2_reduces_after_every_micro_batch(volume, micro_batches):
    moved, parameters = volume("zero-2", micro_batches=micro_batches)
    assert moved == pytest.approx(15 / 16 * 2 * parameters * (1 + micro_batches), rel=1e-6)


@pytest.mark.parametrize("strategy", ["zero-3", "fsdp", "hsdp"])
def test_shards_of_one_rank_are_plain_data_parallelism(volume, strategy):
    assert volume(strategy, group=1)[0] == pytest.approx(volume()[0], rel=1e-6)


def test_hybrid_sharding_sums_a_shard_over_its_replicas(volume):
    """In the set as ZeRO-3, then an all-reduce of 1/d of the gradients over D/d replicas (of 2-byte gradients here)."""
    moved, parameters = volume("hsdp", group="node")
    inside, outside = 7 / 8 * 3 * 2 * parameters, 2 * 1 / 2 * 2 * parameters / 8
    # Two wires: the sums over replicas run beside the next unit's traffic, so only the last is certain to show.
    assert inside <= moved <= (inside + outside) * (1 + 1e-6)


@pytest.mark.parametrize("sp", [True, False])
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallel_volume(run, sent, tp, sp):
    """Four exchanges of the whole activation a layer and pass with sequence parallelism, two all-reduces without.

    Sequence parallelism gathers the input of each column linear once more in backward.
    """
    change = {"parallelism": {"tp": tp, "pp": 1, "dp": 16 // tp, "sequence_parallel": sp}, "global_batch": 16 // tp}
    plan = run({"training": change}).resolved.plan
    layer = [op.operator for each in (False, True) for op in block_ops(plan, "layer", each)]
    moved = sum(float(sent(move.kind, move.bytes, tp)) for move in layer if isinstance(move, Transfer))
    whole = 2.0 * 2048 * 2048 * (1 - 1 / tp)
    assert moved == pytest.approx(8 * whole + (2 * whole if sp else 0.0), rel=1e-12)


def test_messages_of_32_bit_activations_are_twice_as_large(run):
    half, whole = (
        run({"training": {"precision": precision, "parallelism": {"tp": 2, "pp": 2}}}).resolved.plan
        for precision in ("bf16", "tf32")
    )
    assert message_bytes(whole) == 2 * message_bytes(half)


def test_32_bit_parameters_are_gathered_whole(run):
    change = {"precision": "tf32", "sharding": {"strategy": "fsdp"}}
    assert run({"training": change}).resolved.plan.data.parameter_bytes == 4
