"""Whole evaluations: what must always be true, and the faults that other simulators have shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError

SCHEDULES = st.sampled_from([("1f1b", 1), ("1f1b", 2), ("gpipe", 1)])


def layout(tp=1, pp=1, dp=None, sp=True, **more):
    return {"tp": tp, "pp": pp, "dp": dp, "sequence_parallel": sp, **more}


@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4, 8]),
    SCHEDULES,
    st.booleans(),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["none", "zero-1"]),
    st.sampled_from([1, 2]),
    st.sampled_from(["unfused", "flash-2"]),
)
def test_waterfall_sums_and_utilisation_is_below_one(run, tp, pp, schedule, sp, recompute, sharding, micro, attention):
    if tp * pp > 16 or (pp == 1 and schedule[1] > 1):
        return
    evaluation = run(
        {
            "training": {
                "micro_batch": micro,
                "recompute": recompute,
                "sharding": {"strategy": sharding},
                "parallelism": layout(tp, pp, None, sp, schedule=schedule[0], virtual_stages=schedule[1]),
                "software": {"attention": attention},
            }
        }
    )
    waterfall = evaluation.waterfall
    assert sum(waterfall.seconds) == pytest.approx(evaluation.step.time_s, rel=1e-9)
    assert min(waterfall.seconds) >= 0
    assert 0 < evaluation.step.mfu <= evaluation.step.hfu <= 1
    assert evaluation.step.time_s_p10 < evaluation.step.time_s < evaluation.step.time_s_p90
    if tp == 1:
        assert dict(waterfall.items())["tensor_parallel"] == pytest.approx(0, abs=1e-12)
    if pp == 1:
        lost = dict(waterfall.items())
        assert lost["pipeline_messages"] == lost["pipeline_imbalance"] == 0
        assert lost["pipeline_bubble"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("fabric", ["ib-hdr-200", "roce-200", "tcp-100"])
def test_weak_scaling_is_never_free(run, fabric):
    """More replicas at equal work per rank: the step grows, but for what the sharded optimizer saves."""
    steps, saved = [], []
    for nodes in (2, 4, 8, 16, 32, 64, 128):
        evaluation = run(
            {
                "cluster": {"nodes": nodes, "fabric": fabric},
                "training": {
                    "global_batch": 16 * nodes,
                    "parallelism": layout(8, 1),
                    "sharding": {"strategy": "zero-1"},
                },
            }
        )
        steps.append(evaluation.step.time_s)
        saved.append(float(evaluation.times.optimizer.max()))
    for i in range(1, len(steps)):
        assert steps[i] >= steps[i - 1] - (saved[i - 1] - saved[i]) - 1e-12


def test_weak_scaling_without_sharding_rises_strictly(run):
    steps = [
        run(
            {
                "cluster": {"nodes": nodes},
                "training": {
                    "global_batch": 8 * nodes, "parallelism": layout(8, 1), "sharding": {"strategy": "none"},
                    "software": {"overrides": {"overlap_grad_reduce": False}},
                },
            }
        ).step.time_s
        for nodes in (2, 4, 8, 16, 64, 512)
    ]  # fmt: skip
    assert (np.diff(steps) > 0).all()


@pytest.mark.parametrize("attention", ["unfused", "flash-2"])
@pytest.mark.parametrize("sp", [True, False])
def test_selective_recompute_lies_between_none_and_full(run, attention, sp):
    times = [
        run(
            {
                "training": {
                    "recompute": mode,
                    "parallelism": layout(2, 2, None, sp),
                    "software": {"attention": attention},
                }
            }
        ).step.time_s
        for mode in ("none", "selective", "full")
    ]
    assert times[0] < times[1] < times[2]


def test_pipelining_is_never_free(run):
    """At equal GPUs per replica, equal micro-batches and no messages lost to tp, stages cost a bubble."""
    one = run({"cluster": {"nodes": 1, "fabric": "none"}, "training": {"global_batch": 8, "parallelism": layout(1, 1)}})
    four = run({"cluster": {"nodes": 4}, "training": {"global_batch": 8, "parallelism": layout(1, 4, 8)}})
    busy = float(one.times.compute[0, 0])
    lost = dict(four.waterfall.items())
    assert lost["pipeline_bubble"] >= 0.9 * (4 - 1) / 1 * busy / 4 / 8  # (p-1)/m of the stage's time, m = 1 here
    assert lost["pipeline_messages"] > 0


def test_interleaving_shrinks_the_bubble_and_costs_messages(run):
    plain = dict(run({"training": {"parallelism": layout(2, 4)}}).waterfall.items())
    cut = dict(run({"training": {"parallelism": layout(2, 4, virtual_stages=4)}}).waterfall.items())
    assert cut["pipeline_bubble"] < 0.5 * plain["pipeline_bubble"]


def test_smaller_micro_batches_run_less_efficient_kernels(run):
    big = run({"training": {"micro_batch": 8, "parallelism": layout(8, 1)}})
    small = run({"training": {"micro_batch": 1, "parallelism": layout(8, 1)}})
    assert dict(small.waterfall.items())["kernel_inefficiency"] > dict(big.waterfall.items())["kernel_inefficiency"]


@pytest.mark.parametrize(
    ("worse", "better"), [("roce-200", "roce-400"), ("tcp-100", "ib-hdr-200"), ("ib-hdr-200", "ib-ndr-400")]
)
def test_a_faster_fabric_is_never_slower(run, worse, better):
    change = {"training": {"parallelism": layout(8, 1), "software": {"overrides": {"overlap_grad_reduce": False}}}}
    node = {"node": {"base": "dgx-h100", "gpu": "h100-80gb-sxm", "gpus": 8}}
    slow = run({**change, "cluster": {**node, "fabric": worse}}).step.time_s
    fast = run({**change, "cluster": {**node, "fabric": better}}).step.time_s
    assert fast <= slow


def test_overlap_never_costs(run):
    for flag in ("overlap_grad_reduce", "overlap_param_gather", "overlap_p2p", "tp_overlap", "tp_bulk_overlap"):
        times = [run({"training": {"software": {"overrides": {flag: value}}}}).step.time_s for value in (False, True)]
        assert times[1] <= times[0] * (1 + 1e-12), flag


def test_every_override_that_is_read_changes_the_step(run):
    base = run({"training": {"recompute": "selective", "software": {"attention": "unfused"}}}).step.time_s
    changes = {
        "host_issue_s": 1e-3, "fused_softmax": False, "fused_norm": False, "fused_activation": False, "dropout": True,
        "fused_cross_entropy": True, "accumulate_in_gemm": False, "gradient_dtype": "bf16", "optimizer_bytes": 60.0,
        "fused_rope": False, "scatter_p2p": False,
    }  # fmt: skip
    for name, value in changes.items():
        change = {"recompute": "selective", "software": {"attention": "unfused", "overrides": {name: value}}}
        if name == "scatter_p2p":
            change["parallelism"] = layout(2, 2, None, False)
            plain = {**change, "software": {"attention": "unfused"}}
            reference = run({"training": plain}).step.time_s
        else:
            reference = base
        assert run({"training": change}).step.time_s != reference, name


def test_same_scenario_same_figures(run):
    assert run().step == run().step


def test_what_does_not_fit_is_an_answer(run):
    evaluation = run({"training": {"micro_batch": 32, "global_batch": 512, "parallelism": layout(1, 1)}})
    assert not evaluation.memory.fits
    assert evaluation.step.time_s > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"training": {"parallelism": "auto"}}, "no layout"),
        ({"training": {"parallelism": {"tp": 2, "pp": 3}}}, "does not divide the 16 GPUs"),
        ({"training": {"parallelism": {"tp": 2, "dp": 2}}}, "16 GPUs"),
        ({"training": {"global_batch": 63}}, "63 sequences over dp 4"),
        (
            {"training": {"parallelism": {"schedule": "zb-h1"}, "sharding": {"strategy": "fsdp"}}},
            "fsdp with schedule zb-h1 is not simulated yet",
        ),
        ({"training": {"precision": "fp32"}}, "precision fp32 is not simulated yet"),
        ({"training": {"sharding": {"offload": "pool"}}}, "offload to a pool of memory is not simulated yet"),
        ({"training": {"parallelism": {"ep": 2}}}, "has no experts"),
        ({"model": "lama-65b"}, "llama-65b"),
        ({"cluster": {"node": "dgx-h1000"}}, "dgx-h100"),
        ({"cluster": {"fabric": "ib-ndr-40"}}, "ib-ndr-400"),
        ({"training": {"software": {"overrides": {"overlap_grad": True}}}}, "overlap_grad_reduce"),
    ],
)
def test_what_cannot_be_simulated_says_so(run, change, words):
    with pytest.raises(InputError, match=words):
        run(change)


def test_no_wire_carries_more_than_it_can(run):
    """On a slow fabric the pipeline is paced by its messages: each stage sends every micro-batch over one wire."""
    change = {
        "cluster": {"nodes": 4, "fabric": {"protocol": "tcp", "link": "10 Gbit/s", "links_per_node": 1}},
        "training": {
            "global_batch": 64,
            "parallelism": layout(8, 4, 1),
            "software": {"overrides": {"overlap_p2p": True}},
        },
    }
    evaluation = run(change)
    plan, network = evaluation.resolved.plan, evaluation.resolved.machine.network
    bytes_out = 64 * 8 * 2.0 * 2048 * 2048 / 8  # micro-batches, ranks of a node, half-precision activation over tp
    assert plan.micro_batches == 64
    assert evaluation.step.time_s >= bytes_out / (network.nic_bytes_per_s * network.nics_per_node)


@pytest.mark.parametrize(
    ("modules", "same"),
    [(["layer"], "full"), (["core_attn"], "selective")],
)
def test_modules_count_as_the_mode_that_they_make(run, modules, same):
    """FLOPs, memory and step read one meaning of recompute."""
    named, mode = (
        run({"training": {"recompute": value, "software": {"family": "megatron-core", "date": "2024-06"}}})
        for value in ({"modules": modules}, same)
    )
    assert named.flops == mode.flops
    assert named.memory == mode.memory
    assert named.step == mode.step


@pytest.mark.parametrize(
    ("node", "precision"), [("dgx-h100", "fp16"), ("dgx-h100", "fp8-block"), ("dgx-1-v100-32gb", "fp16")]
)
def test_the_peak_is_the_parts_own_or_that_of_the_number_format(run, node, precision):
    evaluation = run({"cluster": {"node": node}, "training": {"precision": precision}})
    peaks = evaluation.resolved.cluster.node.gpu.peak_flops
    own = peaks["fp8"] if precision == "fp8-block" else peaks["fp16"]
    assert evaluation.peak_flops == evaluation.resolved.cluster.gpus * own
