"""Frozen records that the rooms hand to each other; no behaviour lives here.

Numbers are SI (seconds, bytes, FLOP, watts). A field typed `Num` may hold a float or a numpy array; functions that
take such records broadcast over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

Num: TypeAlias = "float | NDArray[Any]"

GRADES = "ABCD"  # A measured on this hardware, B interpolated, C extrapolated, D datasheet or prior only

# Terms of a rent, and months for which one is bound.
TERM_MONTHS: Mapping[str, int] = MappingProxyType({"on-demand": 0, "1y": 12, "3y": 36, "spot": 0})

CollectiveKind = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"]


@dataclass(frozen=True, slots=True)
class Architecture:
    """A decoder-only transformer, as far as parameters, FLOPs and bytes need it.

    Experts: layer i (from 0) has experts if experts > 0, i >= dense_layers and (i - dense_layers + 1) % moe_every == 0;
    the others have the dense `ffn`. `shared_ffn` is the inner width of all shared experts together.
    Latent attention (MLA): kv_rank > 0; then head_dim is nope_dim + rope_dim and q_rank 0 means an unfactored query.
    Windows: window > 0 limits attention to that many tokens ("sliding") or to blocks of them ("chunked"), in all layers
    but every full_every-th (layer i is full if full_every > 0 and (i + 1) % full_every == 0).
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated_ffn: bool = True
    tied_embeddings: bool = False
    learned_positions: int = 0  # rows of a learned position table, 0 = none (rotary, ALiBi)
    norm: Literal["rmsnorm", "layernorm", "layernorm-nobias", "nonparametric"] = "rmsnorm"
    norms_per_layer: int = 2
    final_norm: bool = True
    embedding_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    parallel_block: bool = False  # attention and MLP read the same input (GPT-NeoX, Falcon, Command-R)
    max_sequence: int = 0  # longest sequence the model was published for, 0 = unknown
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    shared_gate: bool = False  # a sigmoid gate (h weights) on the shared experts
    dense_layers: int = 0
    moe_every: int = 1
    router_bias: bool = False
    q_rank: int = 0
    kv_rank: int = 0
    nope_dim: int = 0
    rope_dim: int = 0
    value_dim: int = 0  # 0 = head_dim
    window: int = 0
    window_kind: Literal["sliding", "chunked"] = "sliding"
    full_every: int = 0
    attention_sinks: bool = False  # one learned logit a head
    mtp_depth: int = 0  # extra layers that predict further tokens


@dataclass(frozen=True, slots=True)
class GpuRates:
    """What the timing functions need of one accelerator."""

    id: str
    generation: str  # "ampere", "hopper", "blackwell", …
    peak_flops: Mapping[str, float]  # dense, by precision: bf16, fp16, fp8, fp4, tf32, fp32
    hbm_bytes_per_s: float
    hbm_bytes: float  # what a framework can see
    sms: int
    power_limit_w: float = 0.0
    power_idle_w: float = 0.0


@dataclass(frozen=True, slots=True)
class NetworkRates:
    """The two levels that a collective crosses: the scale-up domain and the fabric between nodes."""

    gpu: str  # gpu id: names the scale-up path's logs
    scale_up: str  # "nvlink3", "nvlink4", "nvlink5", "pcie4", …
    scale_up_bytes_per_s: float  # per GPU, one direction
    domain_gpus: int  # GPUs that reach each other over the scale-up link (8 in a DGX, 72 in an NVL72)
    gpus_per_node: int
    fabric: str  # fabric id, e.g. "ib-hdr-200"; "none" on a single node
    protocol: str  # "ib", "roce", "efa", "tcp", "slingshot", "opa", "none"
    nic_bytes_per_s: float  # line rate of one card, one direction
    nics_per_node: int
    oversubscription: float = 1.0  # worst tier of the path, hosts' ports over uplinks


@dataclass(frozen=True, slots=True)
class GroupShape:
    """How the ranks of one communicator lie over the machine.

    ranks          members of the group
    domains        scale-up domains that it touches (1: the fabric is not used)
    sharers        groups of the same kind that use a node's network cards at the same time
    """

    ranks: int
    domains: int = 1
    sharers: int = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time of an operation and how well it is known; fields are floats or arrays of one shape.

    seconds   the estimate
    grade     index into GRADES, the worst evidence that it rests on
    sigma     relative standard deviation (of ln seconds)
    bound     what sets it: "compute", "memory", "launch", "latency" or "bandwidth"
    """

    seconds: Num
    grade: Any = 3
    sigma: Num = 0.2
    bound: Any = "compute"


@dataclass(frozen=True, slots=True)
class Gemm:
    """y[m, n] = x[m, k] w[k, n], `batch` of them in one kernel; 2*m*n*k*batch FLOP."""

    name: str
    m: Num
    n: Num
    k: Num
    batch: Num = 1
    dtype: str = "bf16"
    accumulate: bool = False  # adds into an fp32 buffer (weight gradients)
    layout: Literal["TN", "NN", "NT"] = "TN"  # TN forward, NN input gradient, NT weight gradient


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """A fused attention kernel; FLOP 4*batch*heads*seq_q*seq_k*head_dim forward (half when causal), backward 2.5x."""

    name: str
    batch: Num
    heads: Num
    kv_heads: Num
    seq_q: Num
    seq_k: Num
    head_dim: int
    causal: bool = True
    direction: Literal["forward", "backward"] = "forward"
    kernel: str = "flash-2"  # flash-1, flash-2, flash-3, cudnn
    dtype: str = "bf16"


@dataclass(frozen=True, slots=True)
class Streaming:
    """An operator limited by memory traffic: norms, activations, softmax, optimizer, copies."""

    name: str
    bytes: Num
    kernels: int = 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """A collective or message; `group` names a mesh axis ("tp", "dp", "pp", …), `bytes` as nccl-tests count them."""

    name: str
    kind: CollectiveKind
    bytes: Num
    group: str


Operator: TypeAlias = Gemm | FlashAttention | Streaming | Transfer


@dataclass(frozen=True, slots=True)
class Assumption:
    """A value that the user did not state."""

    path: str
    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a catalogue value comes from."""

    unit: str
    source: str
    date: str
    kind: Literal["datasheet", "measured", "estimate", "derived"]
    note: str = ""
