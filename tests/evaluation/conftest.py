"""Random models, machines and plans, primes and ones included, and networks on which a step is easy to tell.

On a toll network a transfer takes as many seconds as a rank sends bytes, so that the step time of a job whose kernels
take next to nothing counts traffic; on a free one everything arrives at once.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st

from simcluster.engine.step import solve_step
from simcluster.errors import InputError
from simcluster.evaluation import Evaluation, evaluate
from simcluster.program.pricing import Machine
from simcluster.scenario import load_mapping
from simcluster.shapes import Estimate

settings.register_profile(
    "reproducible", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)

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


@pytest.fixture(scope="session", name="scenarios")
def fixture_scenarios():
    """Strategy of valid scenarios."""
    return scenarios()


@pytest.fixture(scope="session")
def assess(catalogue):
    """`assess(scenario)` evaluates; a plan that the drawn software refuses is drawn anew."""

    def of(scenario) -> Evaluation:
        try:
            return evaluate(load_mapping(scenario), catalogue)
        except InputError:
            assume(False)
            raise

    return of


@pytest.fixture(scope="session")
def on_free():
    """`on_free(evaluation)` gives the step on a network without latency and with endless bandwidth."""
    return lambda evaluation: on(Free, evaluation)


@pytest.fixture(scope="session")
def on_toll():
    """`on_toll(evaluation)` gives the step on a network where each byte that a rank sends takes a second."""
    return lambda evaluation: on(Toll, evaluation)


@pytest.fixture(scope="session", name="sent")
def fixture_sent():
    """`sent(kind, size, ranks)` gives the bytes that a rank sends."""
    return sent
