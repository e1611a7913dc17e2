"""Properties that hold for every layout: random models, machines and plans, primes and ones included.

`Toll` is a network on which a transfer takes as many seconds as a rank sends bytes, so that the step time of a job
whose kernels take next to nothing counts traffic; `Free` is one on which everything arrives at once.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from simcluster.engine.step import solve_step
from simcluster.errors import InputError
from simcluster.evaluation import Evaluation, evaluate
from simcluster.program.plan import block_names, block_ops, message_bytes
from simcluster.program.pricing import Machine
from simcluster.scenario import load_mapping
from simcluster.shapes import Estimate, FlashAttention, Gemm, Transfer

MACHINES = {
    "dgx-a100-80gb": ("ib-hdr-200", ("bf16", "fp16", "tf32")),
    "dgx-h100": ("ib-ndr-400", ("bf16", "fp8", "fp8-block")),
    "dgx-b200": ("roce-400", ("bf16", "mxfp8", "nvfp4")),
}
FAMILIES = ("megatron-core", "fsdp2-torchtitan", "deepspeed", "generic", "megatron-bridge", "fsdp1")
STRATEGIES = ("none", "zero-1", "zero-2", "zero-3", "fsdp", "hsdp")
FLAGS = (
    "overlap_param_gather", "overlap_grad_reduce", "reshard_after_forward", "reduce_every_micro_batch", "tp_overlap",
    "tp_bulk_overlap", "overlap_p2p", "grouped_gemm",
)  # fmt: skip
RECOMPUTE = ("none", "selective", "full", {"modules": ["core_attn", "layernorm"]}, {"modules": ["mlp_act"]})


def divisors(number):
    return [size for size in range(1, number + 1) if number % size == 0]


def primes(number):
    found = []
    for size in range(2, number + 1):
        while number % size == 0:
            found.append(size)
            number //= size
    return found


@st.composite
def models(draw, tp, layers):
    heads = tp * draw(st.sampled_from([1, 2, 3]))
    model = {
        "layers": layers,
        "hidden": draw(st.sampled_from([384, 1000, 2048])),
        "heads": heads,
        "kv_heads": draw(st.sampled_from(sorted({heads, tp, *divisors(tp)}))),
        "head_dim": draw(st.sampled_from([64, 80, 128])),
        "ffn": draw(st.sampled_from([1000, 1536, 5000])),
        "vocab": draw(st.sampled_from([1009, 32000, 50257])),
        "gated_ffn": draw(st.booleans()),
        "tied_embeddings": draw(st.booleans()),
    }
    kind = draw(st.sampled_from(["full", "full", "sliding", "chunked", "latent"]))
    if kind == "latent":
        model |= {"kv_heads": heads, "kv_rank": 128, "q_rank": draw(st.sampled_from([0, 192]))}
        model |= {"nope_dim": 64, "rope_dim": 32, "value_dim": 64, "head_dim": 96}
    elif kind != "full":
        window = draw(st.sampled_from([37, 128, 4096]))
        model |= {"window": window, "window_kind": kind, "full_every": draw(st.sampled_from([0, 2, 3]))}
    return model


@st.composite
def experts(draw, tp, ranks, layers):
    etp = draw(st.sampled_from(sorted({1, tp})))
    ep = draw(st.sampled_from(divisors(ranks // etp)))
    count = ep * draw(st.integers(1, 4))
    model = {
        "experts": count,
        "top_k": draw(st.integers(1, min(4, count))),
        "expert_ffn": draw(st.sampled_from([256, 500, 1536])),
        "shared_ffn": draw(st.sampled_from([0, 512])),
        "dense_layers": draw(st.integers(0, min(2, layers))),
        "moe_every": draw(st.sampled_from([1, 1, 2])),
    }
    return model, {"ep": ep, "etp": etp}


@st.composite
def degrees(draw):
    """GPUs of a node, nodes, and tp, cp, dp, pp: every prime factor of the world goes to some axis."""
    gpus, nodes = draw(st.sampled_from([1, 2, 3, 4, 6, 8])), draw(st.sampled_from([1, 2, 3, 4, 5, 8]))
    axes = dict.fromkeys(("tp", "cp", "dp", "pp"), 1)
    for factor in primes(gpus * nodes):
        axes[draw(st.sampled_from(sorted(axes)))] *= factor
    return gpus, nodes, axes


@st.composite
def scenarios(draw):
    """A valid scenario."""
    base = draw(st.sampled_from(sorted(MACHINES)))
    fabric, precisions = MACHINES[base]
    gpus, nodes, axes = draw(degrees())
    tp, cp, dp, pp = (axes[name] for name in ("tp", "cp", "dp", "pp"))
    virtual = draw(st.sampled_from([1, 1, 2, 3])) if pp > 1 else 1
    layers = draw(st.integers(max(1, pp * virtual - 2), pp * virtual + 5))
    model = draw(models(tp, layers))
    plan = {**axes, "virtual_stages": virtual, "sequence_parallel": draw(st.booleans())}
    plan["schedule"] = draw(st.sampled_from(["1f1b", "gpipe"])) if virtual == 1 else "1f1b"
    if draw(st.booleans()):
        sparse, expert_axes = draw(experts(tp, tp * cp * dp, layers))
        model, plan = model | sparse, plan | expert_axes
    micro_batches = draw(st.integers(1, 7)) if virtual == 1 else pp * draw(st.integers(1, 3))
    micro_batch = draw(st.integers(1, 3))
    strategy = draw(st.sampled_from(STRATEGIES))
    overrides = {name: draw(st.booleans()) for name in FLAGS if draw(st.booleans())}
    overrides["cp_communication"] = draw(st.sampled_from(["p2p", "all-gather", "all-to-all"]))
    overrides["host_issue_s"] = draw(st.sampled_from([0.0, 5e-6]))
    software = {"family": draw(st.sampled_from(FAMILIES)), "date": "2025-06", "overrides": overrides}
    if draw(st.integers(0, 4)) == 0:
        software["attention"] = "unfused"
    return {
        "name": "any",
        "model": model,
        "cluster": {"node": {"base": base, "gpus": gpus}, "nodes": nodes, "fabric": fabric},
        "training": {
            "sequence_length": cp * tp * draw(st.sampled_from([32, 100, 256, 1024])),
            "global_batch": dp * micro_batches * micro_batch,
            "micro_batch": micro_batch,
            "precision": draw(st.sampled_from(precisions)),
            "parallelism": plan,
            "sharding": {
                "strategy": strategy,
                "group": draw(st.sampled_from(["node" if strategy == "hsdp" else "all", *divisors(dp * cp)])),
            },
            "recompute": draw(st.sampled_from(RECOMPUTE)),
            "software": software,
        },
    }


def few(count):
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


def assess(scenario, catalogue):
    """The evaluation; a plan that the drawn software refuses is drawn anew."""
    try:
        return evaluate(load_mapping(scenario), catalogue)
    except InputError:
        assume(False)
        raise


def on(network: type[Machine], evaluation: Evaluation):
    """The step of an evaluation on another machine; the norm's four bytes are left out."""
    machine = evaluation.resolved.machine
    other = network(**{field.name: getattr(machine, field.name) for field in dataclasses.fields(Machine)})
    return solve_step(evaluation.resolved.plan, other)


class Free(Machine):
    """A network without latency and with endless bandwidth."""

    def transfer(self, kind, size, group):
        none = np.zeros(np.shape(size)) if np.shape(size) else 0.0
        return Estimate(none, 0, none, "latency")


def sent(kind, size, ranks):
    """Bytes that a rank sends (and receives) by the textbook ring or pairwise algorithm."""
    passes = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "alltoall": 1.0}
    return np.asarray(size) if kind == "sendrecv" else passes[kind] * (1 - 1 / ranks) * np.asarray(size)


class Toll(Machine):
    """A second for each byte that a rank sends; what is as small as the gradient norm is free."""

    def transfer(self, kind, size, group):
        bytes_sent = np.where(np.asarray(size) <= 4.0, 0.0, sent(kind, size, group.ranks))
        return Estimate(bytes_sent if np.shape(size) else float(bytes_sent), 0, 0.0 * bytes_sent, "bandwidth")


def check(evaluation: Evaluation) -> None:
    """What any single evaluation must satisfy."""
    step, times, lost = evaluation.step, evaluation.times, dict(evaluation.waterfall.items())
    assert sum(lost.values()) == pytest.approx(step.time_s, rel=1e-9)
    assert min(lost.values()) >= 0
    assert 0 < step.mfu <= step.hfu <= 1
    if evaluation.resolved.layout.precision != "tf32":  # whose head is priced in bf16, see below
        assert lost["ideal"] == pytest.approx(step.mfu * step.time_s, rel=1e-9)
    assert step.time_s_p10 < step.time_s < step.time_s_p90
    assert np.isfinite(times.ends).all()
    assert (times.ends >= 0).all()
    assert (np.diff(times.total[:4]) <= 1e-12 * times.total[0]).all()
    layout = evaluation.resolved.layout
    if layout.pp == 1:
        assert lost["pipeline_messages"] == lost["pipeline_imbalance"] == 0
        assert lost["pipeline_bubble"] <= 1e-9 * step.time_s
    if layout.tp == 1:
        assert lost["tensor_parallel"] <= 1e-9 * step.time_s
    if layout.ep == layout.cp == layout.etp == 1:
        assert lost["expert_context_parallel"] == 0
    check_stages(evaluation)
    check_axes(evaluation)


def check_stages(evaluation: Evaluation) -> None:
    """A stage is never done before its own work is, and memory is a positive number."""
    times, plan = evaluation.times, evaluation.resolved.plan
    kinds = times.compute.shape[1]
    assert kinds == 4
    assert (np.diff(times.compute, axis=1) <= 1e-12).all()
    assert times.total[0] >= (times.compute[:, 0] + times.optimizer.min()).max() * (1 - 1e-9)
    for stage in evaluation.memory.stages:
        assert all(np.isfinite(size) and size >= 0 for size in stage.components.values())
        assert stage.peak_bytes > 0
    assert len(evaluation.memory.stages) == plan.mesh.pp


def transfers(plan, backward=None):
    """Transfers inside the blocks of a plan, one of each kind of block and pass."""
    names = {name for stage in plan.contents for chunk in stage for name in block_names(plan, chunk)}
    passes = (False, True) if backward is None else (backward,)
    ops = [op for name in sorted(names) for each in passes for op in block_ops(plan, name, each)]
    return [op for op in ops if isinstance(op.operator, Transfer)]


def check_axes(evaluation: Evaluation) -> None:
    """An axis of one rank carries nothing; every transfer names an axis that has ranks, and has a size."""
    resolved = evaluation.resolved
    moved = [op.operator for op in transfers(resolved.plan)]
    assert all(float(move.bytes) > 0 and resolved.machine.groups[move.group].ranks > 1 for move in moved)
    for axis in ("tp", "cp", "ep", "etp"):
        if getattr(resolved.layout, axis) == 1:
            assert not [move for move in moved if move.group == axis]
    data = resolved.plan.data
    if data.group.ranks == data.expert_group.ranks == 1:
        assert not resolved.plan.data.units or not evaluation.times.program.shape.wires
        assert not evaluation.times.reduce_s.any()
        assert not evaluation.times.gather_s.any()


@few(300)
@given(scenarios())
def test_every_layout(catalogue, scenario):
    check(assess(scenario, catalogue))


@pytest.mark.slow
@settings(max_examples=2000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(scenarios())
def test_every_layout_at_length(catalogue, scenario):
    check(assess(scenario, catalogue))


@few(25)
@given(scenarios())
def test_the_same_input_gives_the_same_bits(catalogue, scenario):
    one, other = assess(scenario, catalogue), assess(scenario, catalogue)
    assert np.array_equal(one.times.ends, other.times.ends)
    assert one.step == other.step
    assert one.waterfall == other.waterfall
    assert [stage.components for stage in one.memory.stages] == [stage.components for stage in other.memory.stages]


FASTER_NETWORK = st.sampled_from(["nic_bytes_per_s", "scale_up_bytes_per_s", "both"])


@few(40)
@given(scenarios(), FASTER_NETWORK, st.floats(1.0, 10.0))
def test_faster_links_never_slow_a_step(catalogue, scenario, which, factor):
    evaluation = assess(scenario, catalogue)
    machine = evaluation.resolved.machine
    names = ("nic_bytes_per_s", "scale_up_bytes_per_s") if which == "both" else (which,)
    rates = {name: getattr(machine.network, name) * factor for name in names}
    faster = dataclasses.replace(machine, network=dataclasses.replace(machine.network, **rates))
    times = solve_step(evaluation.resolved.plan, faster)
    assert times.total[0] <= evaluation.times.total[0] * (1 + 1e-12)


@few(40)
@given(scenarios(), st.floats(0.8, 1.0), st.floats(0.1, 1.0))
def test_faster_kernels_and_hosts_never_slow_a_step(catalogue, scenario, rate, host):
    evaluation = assess(scenario, catalogue)
    machine = evaluation.resolved.machine
    faster = dataclasses.replace(machine, gemm_rate=machine.gemm_rate / rate, host_issue_s=machine.host_issue_s * host)
    times = solve_step(evaluation.resolved.plan, faster)
    assert times.total[0] <= evaluation.times.total[0] * (1 + 1e-12)


@few(40)
@given(scenarios())
def test_on_a_free_network_only_computing_is_left(catalogue, scenario):
    """Exposed exchanges vanish (with no launches to pay), and one stage takes its chunks and its optimizer."""
    scenario["training"]["software"]["overrides"]["host_issue_s"] = 0.0
    evaluation = assess(scenario, catalogue)
    times = on(Free, evaluation)
    assert times.total[0] <= evaluation.times.total[0] * (1 + 1e-12)
    assert np.ptp(times.total[:4]) <= 1e-9 * times.total[0]
    assert times.compute[:, 0] == pytest.approx(evaluation.times.compute[:, 1], rel=1e-9)
    if evaluation.resolved.layout.pp == 1:
        assert times.total[0] == pytest.approx(times.compute[0, 0] + times.optimizer[0], rel=1e-9)


@few(40)
@given(scenarios())
def test_exposed_exchanges_are_no_more_than_all_there_are(catalogue, scenario):
    """On a wire that takes a second a byte a stage waits for no more than all bytes of the job."""
    evaluation = assess(scenario, catalogue)
    times, free = on(Toll, evaluation), on(Free, evaluation)
    plan = evaluation.resolved.plan
    if plan.mesh.pp > 1:
        return
    moved = [
        (op.operator, op.share)
        for name in block_names(plan, plan.contents[0][0])
        for backward in (False, True)
        for op in block_ops(plan, name, backward)
        if isinstance(op.operator, Transfer)
    ]
    groups = evaluation.resolved.machine.groups
    inside = sum(float(sent(one.kind, one.bytes, groups[one.group].ranks)) * share for one, share in moved)
    exposed = times.total[1] - free.total[1]
    assert -1e-9 <= exposed <= plan.micro_batches * inside * (1 + 1e-9) + 1e-6


# One stage whose kernels count for nothing: the step time is the traffic of one rank.


def volume(run, strategy="none", group="all", micro_batches=1, dp=16, family="megatron-core", **more):
    """Bytes that one rank sends in a step for data parallelism alone."""
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
    times = on(Toll, evaluation)
    return float(times.total[0] - times.total[1]), sum(
        evaluation.resolved.plan.block_parameters[name]
        for name in block_names(evaluation.resolved.plan, evaluation.resolved.plan.contents[0][0])
    )


def test_volumes_of_the_strategies(run):
    """Rajbhandari et al. 2020: sharding the states costs nothing, sharding the parameters half as much again."""
    plain, parameters = volume(run)
    assert plain == pytest.approx(2 * 15 / 16 * 2 * parameters, rel=1e-6)
    assert volume(run, "zero-1")[0] == pytest.approx(plain, rel=1e-6)
    assert volume(run, "zero-2")[0] == pytest.approx(plain, rel=1e-6)
    assert volume(run, "zero-3")[0] == pytest.approx(1.5 * plain, rel=1e-6)
    assert volume(run, "fsdp")[0] == pytest.approx(1.5 * plain, rel=1e-6)


@pytest.mark.parametrize("micro_batches", [1, 2, 5])
@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_sharded_parameters_are_gathered_as_often_as_they_are_used(run, micro_batches, reshard, each):
    """(2P m' + G m'')(1 - 1/D): m' is 2m, or m without resharding; m'' is m, or one a step."""
    flags = {"reshard_after_forward": reshard, "reduce_every_micro_batch": each}
    moved, parameters = volume(run, "fsdp", micro_batches=micro_batches, **flags)
    gathers = (2 if reshard else 1) * micro_batches
    reductions = micro_batches if each else 1
    assert moved == pytest.approx(15 / 16 * 2 * parameters * (gathers + reductions), rel=1e-6)


@pytest.mark.parametrize(("strategy", "shards"), [("none", 1), ("zero-1", 16), ("zero-1", 4)])
def test_accumulation_does_not_add_traffic_below_zero_2(run, strategy, shards):
    group = shards if shards > 1 else "all"
    once, often = (volume(run, strategy, group, micro_batches=count)[0] for count in (1, 6))
    assert once == pytest.approx(often, rel=1e-6)


@pytest.mark.parametrize("micro_batches", [2, 5])
def test_zero_2_reduces_after_every_micro_batch(run, micro_batches):
    moved, parameters = volume(run, "zero-2", micro_batches=micro_batches)
    assert moved == pytest.approx(15 / 16 * 2 * parameters * (1 + micro_batches), rel=1e-6)


@pytest.mark.parametrize("strategy", ["zero-3", "fsdp", "hsdp"])
def test_shards_of_one_rank_are_plain_data_parallelism(run, strategy):
    assert volume(run, strategy, group=1)[0] == pytest.approx(volume(run)[0], rel=1e-6)


def test_hybrid_sharding_sums_a_shard_over_its_replicas(run):
    """In the set as ZeRO-3, then an all-reduce of 1/d of the gradients over D/d replicas (of 2-byte gradients here)."""
    moved, parameters = volume(run, "hsdp", group="node")
    inside, outside = 7 / 8 * 3 * 2 * parameters, 2 * 1 / 2 * 2 * parameters / 8
    # Two wires: the sums over replicas run beside the next unit's traffic, so only the last is certain to show.
    assert inside <= moved <= (inside + outside) * (1 + 1e-6)


@pytest.mark.parametrize("sp", [True, False])
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_tensor_parallel_volume(run, tp, sp):
    """Four exchanges of the whole activation a layer and pass with sequence parallelism, two all-reduces without.

    Sequence parallelism gathers the input of each column linear once more in backward.
    """
    change = {"parallelism": {"tp": tp, "pp": 1, "dp": 16 // tp, "sequence_parallel": sp}, "global_batch": 16 // tp}
    plan = run({"training": change}).resolved.plan
    layer = [op.operator for each in (False, True) for op in block_ops(plan, "layer", each)]
    moved = sum(float(sent(move.kind, move.bytes, tp)) for move in layer if isinstance(move, Transfer))
    whole = 2.0 * 2048 * 2048 * (1 - 1 / tp)
    assert moved == pytest.approx(8 * whole + (2 * whole if sp else 0.0), rel=1e-12)


def flops(ops):
    """GEMM and attention work of operations; fused attention by its definition, without the diagonal blocks' waste."""
    total = 0.0
    for op in ops:
        one = op.operator
        if isinstance(one, Gemm):
            total += 2.0 * float(one.m * one.n * one.k * one.batch)
        elif isinstance(one, FlashAttention):
            pairs = float(one.seq_q * one.seq_k) * (0.5 if one.causal else 1.0)
            total += (
                4.0 * float(one.batch * one.heads) * pairs * one.head_dim * (1 if one.direction == "forward" else 2)
            )
    return total


@few(40)
@given(scenarios())
def test_full_recompute_adds_one_forward_of_the_layers(catalogue, scenario):
    training = scenario["training"]
    full, none = (
        assess({**scenario, "training": {**training, "recompute": mode}}, catalogue) for mode in ("full", "none")
    )
    plan = none.resolved.plan
    names = [name for stage in plan.contents for chunk in stage for name in block_names(plan, chunk)]
    forward = {name: flops(block_ops(plan, name, False)) for name in set(names)}
    for name in set(names):
        again = flops(block_ops(full.resolved.plan, name, True)) - flops(block_ops(plan, name, True))
        expected = forward[name] if name not in ("embedding", "head") else 0.0
        assert again == pytest.approx(expected, rel=1e-9, abs=1e-3)
    assert full.flops.model == none.flops.model
    assert full.step.time_s >= none.step.time_s  # equal where a reduction outlasts both
    assert full.times.compute[:, 0].sum() > none.times.compute[:, 0].sum()


@few(200)
@given(scenarios())
def test_the_ranks_together_do_the_work_of_the_model(catalogue, scenario):
    """GEMMs and attention of all ranks of a job are its model FLOPs, once heads and vocabulary divide."""
    plan = scenario["training"]["parallelism"]
    moe_by_halves = plan.get("etp", plan["tp"]) != plan["tp"] and not plan["sequence_parallel"]
    few_keys = scenario["model"]["kv_heads"] < plan["tp"]
    copied_latents = "kv_rank" in scenario["model"] and plan["tp"] > 1 and not plan["sequence_parallel"]
    windowed = "window" in scenario["model"]
    unfused = "attention" in scenario["training"]["software"]
    if moe_by_halves or few_keys or copied_latents or windowed or unfused:
        return
    model = {**scenario["model"], "vocab": 128 * plan["tp"] * 3}
    training = {**scenario["training"], "recompute": "none"}
    evaluation = assess({**scenario, "model": model, "training": training}, catalogue)
    resolved = evaluation.resolved
    names = [name for stage in resolved.plan.contents for chunk in stage for name in block_names(resolved.plan, chunk)]
    each = {name: sum(flops(block_ops(resolved.plan, name, way)) for way in (False, True)) for name in set(names)}
    mesh = resolved.plan.mesh
    done = sum(each[name] for name in names) * resolved.plan.micro_batches * mesh.tp * mesh.cp * mesh.dp
    assert done == pytest.approx(float(evaluation.flops.model), rel=1e-9)


def scaled(run, nodes, strategy, **plan):
    return run(
        {
            "cluster": {"nodes": nodes},
            "training": {
                "global_batch": 4 * 8 * nodes // plan.get("tp", 1) // plan.get("pp", 1) // plan.get("cp", 1),
                "parallelism": {"tp": 1, "pp": 1, **plan},
                "sharding": {"strategy": strategy, "group": "node" if strategy == "hsdp" else "all"},
            },
        }
    )


@pytest.mark.parametrize("strategy", ["none", "zero-1", "zero-2", "zero-3", "fsdp", "hsdp"])
@pytest.mark.parametrize("plan", [{}, {"tp": 8}, {"pp": 4}, {"cp": 2}, {"tp": 2, "pp": 2}])
def test_more_replicas_are_never_faster_than_what_sharding_saves(run, strategy, plan):
    if strategy == "hsdp" and plan.get("tp") == 8:
        return
    steps, optimizer = [], []
    for nodes in (1, 2, 4, 8, 16, 64):
        evaluation = scaled(run, nodes, strategy, **plan)
        steps.append(evaluation.step.time_s)
        optimizer.append(float(evaluation.times.optimizer.max()))
    for i in range(1, len(steps)):
        assert steps[i] >= steps[i - 1] - (optimizer[i - 1] - optimizer[i]) - 1e-4 * steps[i], (i, steps, optimizer)


@pytest.mark.parametrize("axis", ["tp", "pp"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_state_memory_never_grows_with_a_split(run, axis, strategy):
    held = []
    for degree in (1, 2, 4, 8):
        plan = {"tp": 1, "pp": 1, "sequence_parallel": True, axis: degree}
        change = {"parallelism": plan, "sharding": {"strategy": strategy, "group": 2}}
        stages = run({"training": change}).memory.stages
        states = ("weights", "gradients", "optimizer")
        held.append(max(sum(float(stage.components[name]) for name in states) for stage in stages))
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(held))


def test_sharded_states_shrink_with_the_set(run):
    for strategy in ("zero-1", "zero-2", "zero-3"):
        held = []
        for group in (1, 2, 4, 8, 16):
            change = {
                "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None},
                "sharding": {"strategy": strategy, "group": group},
            }
            (stage,) = run({"training": change}).memory.stages
            held.append(sum(float(stage.components[name]) for name in ("weights", "gradients", "optimizer")))
        assert all(after < before for before, after in itertools.pairwise(held))
        parameters = 16 * 2048 * 2048 * 12 + 2 * 32000 * 2048
        assert held[0] == pytest.approx(18 * parameters, rel=0.01)


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


def test_no_product_of_a_tf32_job_runs_at_the_rate_of_16_bits(run):
    plan = run({"training": {"precision": "tf32", "software": {"attention": "unfused"}}}).resolved.plan
    gemms = [op.operator for name in ("layer", "head") for op in block_ops(plan, name, False)]
    assert {one.dtype for one in gemms if isinstance(one, Gemm) and one.name not in ("scores", "values")} == {"tf32"}


def test_messages_of_32_bit_activations_are_twice_as_large(run):
    half, whole = (
        run({"training": {"precision": precision, "parallelism": {"tp": 2, "pp": 2}}}).resolved.plan
        for precision in ("bf16", "tf32")
    )
    assert message_bytes(whole) == 2 * message_bytes(half)


def test_32_bit_parameters_are_gathered_whole(run):
    change = {"precision": "tf32", "sharding": {"strategy": "fsdp"}}
    assert run({"training": change}).resolved.plan.data.parameter_bytes == 4


@pytest.mark.parametrize("strategy", ["zero-2", "zero-3", "fsdp"])
def test_the_optimizer_touches_only_what_the_rank_holds(run, strategy):
    """With everything sharded over D ranks, D times as many ranks take a D-th of the time."""
    plan = {"tp": 1, "pp": 1, "sequence_parallel": None}
    few, many = (
        run({"training": {"parallelism": plan, "sharding": {"strategy": strategy, "group": group}}})
        for group in (2, 16)
    )
    fixed = 1e-4  # four kernels' gaps
    assert few.times.optimizer[0] == pytest.approx(8 * many.times.optimizer[0], abs=8 * fixed, rel=0.05)


# What layouts cost against each other, by physics alone.


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
