"""The columns of a published result that a prediction may read, as one record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simcluster.errors import Mark, Problem
from simcluster.formats import published_text as text
from simcluster.formats.published_cells import Cells
from simcluster.formats.published_names import fabric, framework_id
from simcluster.formats.published_text import Value
from simcluster.shapes import Assumption

FACT_COLUMNS = (
    *("gpu", "gpus_per_node", "nvlink_domain", "interconnect", "n_gpus", "model_name", "params_b", "layers", "hidden"),
    *("heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "n_experts", "topk", "moe_ffn_hidden", "gated_ffn"),
    *("tied_embeddings", "seq_len", "micro_batch", "global_batch", "tp", "pp", "vpp", "cp", "ep", "dp"),
    *("fsdp_or_zero_stage", "sequence_parallel", "recompute", "precision", "attention", "grad_accum_dtype", "offload"),
    *("overlap_notes", "schedule", "etp", "framework", "date", "task"),
)


@dataclass(frozen=True, slots=True)
class PublishedFacts:
    """What a source says about hardware, model, layout and software; None or empty: it does not say.

    gpu, model_name, framework are texts as written; the caller looks them up. `fabric` is an id or None (the node's).
    `attention` is a kernel, or "flash" where the generation is the software's; `recompute_modules` None: not named.
    `software` holds (field of a software family, value) pairs that the row states. `precision` None: not understood.
    `experts` 0: dense. `ep` None: not stated for a model with experts. `schedule` empty: not stated.
    """

    gpu: str = ""
    gpus_per_node: int | None = None
    nvlink_domain: int | None = None
    fabric: str | None = None
    nics_per_node: int | None = None
    n_gpus: int | None = None
    model_name: str = ""
    params_b: float | None = None
    layers: int | None = None
    hidden: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int | None = None
    vocab: int | None = None
    experts: int = 0
    top_k: int | None = None
    expert_ffn: int | None = None
    gated_ffn: bool | None = None
    tied_embeddings: bool | None = None
    sequence_length: int | None = None
    micro_batch: int | None = None
    global_batch: int | None = None
    tp: int | None = None
    pp: int | None = None
    vpp: int = 1
    cp: int | None = None
    ep: int | None = None
    etp: int | None = None
    dp: int | None = None
    sharding: str | None = None
    sharding_group: int | None = None
    sequence_parallel: bool | None = None
    recompute: str | None = None
    recompute_modules: tuple[str, ...] | None = None
    precision: str | None = "bf16"
    precision_recipe: str = ""
    attention: str | None = None
    offload: str | None = None
    offload_layers: int | None = None
    schedule: str = ""
    stage_layout: str = ""
    software: tuple[tuple[str, Value], ...] = ()
    framework: str = ""
    framework_id: str = ""
    date: str = ""
    task: str = "pretrain"
    assumed: tuple[Assumption, ...] = ()


def facts_of(cells: Mapping[str, str], mark: Mark) -> tuple[PublishedFacts, tuple[Problem, ...]]:
    """Facts from the fact columns of a row, and the cells that could not be read."""
    unknown = set(cells) - set(FACT_COLUMNS)
    if unknown:
        raise ValueError(f"not columns of facts: {', '.join(sorted(unknown))}")
    read = Cells(cells, mark)
    layout = _layout(read)
    parts = {**_machine(read), **_model(read, layout["tp"]), **layout, **_training(read)}
    facts = PublishedFacts(**parts, assumed=tuple(read.assumed))
    return facts, tuple(read.problems)


def _machine(read: Cells) -> dict[str, Any]:
    gpus_per_node = read.count("gpus_per_node")
    written = read.text("interconnect")
    found = fabric(written, gpus_per_node) if written else None
    if written and found is None:
        read.problem("interconnect", "a fabric such as '8x NDR400 IB'")
    if found is None:
        read.assume("cluster.fabric", None, "not stated: the fabric of the node type")
    elif found.assumed:
        read.assume("cluster.fabric", found.id, f"usual reading of {written!r}")
    return {
        "gpu": read.text("gpu"),
        "gpus_per_node": gpus_per_node,
        "nvlink_domain": read.count("nvlink_domain"),
        "fabric": found.id if found else None,
        "nics_per_node": found.nics if found else None,
        "framework": read.text("framework"),
    }


def _model(read: Cells, tp: int | None) -> dict[str, Any]:
    hidden, heads = read.count("hidden"), read.count("heads")
    if heads is None and hidden is not None:
        heads = _usual_heads(hidden, tp or 1)
        read.assume("model.heads", heads, "not stated: heads of about 128 that the tensor-parallel ranks divide")
    head_dim = read.count("head_dim")
    if head_dim is None and hidden and heads and hidden % heads == 0:
        head_dim = hidden // heads
        read.assume("model.head_dim", head_dim, "hidden / heads")
    kv_heads = read.count("kv_heads")
    if kv_heads is None and heads is not None:
        kv_heads = heads
        read.assume("model.kv_heads", kv_heads, "as many as heads")
    experts = read.count("n_experts") or 0
    return {
        "model_name": read.text("model_name"),
        "params_b": read.positive("params_b"),
        "layers": read.count("layers"),
        "hidden": hidden,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": head_dim,
        "vocab": read.count("vocab"),
        "experts": experts,
        "top_k": read.count("topk"),
        "expert_ffn": read.count("moe_ffn_hidden"),
        "tied_embeddings": read.yes_no("tied_embeddings"),
        **_feed_forward(read, hidden, experts),
    }


def _usual_heads(hidden: int, tp: int) -> int:
    """Heads of nearly 128 elements, a multiple of tp where hidden allows it.

    >>> _usual_heads(12288, 8), _usual_heads(14400, 8)
    (96, 120)
    """
    step = tp if hidden % tp == 0 else 1
    near = max(round(hidden / 128 / step), 1)
    tried = sorted(range(max(near - 64, 1), near + 65), key=lambda k: abs(k - near))
    return next((k * step for k in tried if hidden % (k * step) == 0), 1)


def _feed_forward(read: Cells, hidden: int | None, experts: int) -> dict[str, Any]:
    ffn, gated = read.count("ffn_hidden"), read.yes_no("gated_ffn")
    if ffn is None and hidden and not experts and gated is not True:
        ffn = 4 * hidden
        read.assume("model.ffn", ffn, "not stated: 4 x hidden, the GPT block")
    if gated is None and ffn and hidden:
        gated = ffn != 4 * hidden
        read.assume(
            "model.gated_ffn", gated, "not stated: the GPT block has 4 x hidden and no gate, others have a gate"
        )
    return {"ffn": ffn, "gated_ffn": gated}


def _layout(read: Cells) -> dict[str, int | None]:
    sizes: dict[str, int | None] = {name: read.count(name) for name in ("n_gpus", "tp", "pp", "cp", "ep", "etp", "dp")}
    n_gpus = sizes["n_gpus"]
    stated = any(sizes[name] for name in ("tp", "pp")) or (sizes["dp"] is not None and sizes["dp"] == n_gpus)
    if not stated:
        return {**sizes, "vpp": read.count("vpp") or 1}
    for name in ("tp", "pp", "cp"):
        sizes[name] = _filled(read, name, sizes[name], 1, "not stated")
    inner = (sizes["tp"] or 1) * (sizes["pp"] or 1) * (sizes["cp"] or 1)
    if sizes["dp"] is None and n_gpus and n_gpus % inner == 0:
        sizes["dp"] = _filled(read, "dp", None, n_gpus // inner, "n_gpus / (tp * pp * cp)")
    if not read.text("n_experts"):
        sizes["ep"] = sizes["ep"] or 1
    elif sizes["etp"] is None:
        sizes["etp"] = _expert_tp(read, sizes)
    return {**sizes, "vpp": _filled(read, "vpp", read.count("vpp"), 1, "not stated")}


def _filled(read: Cells, name: str, value: int | None, default: int, why: str) -> int:
    if value is not None:
        return value
    read.assume(f"training.parallelism.{'virtual_stages' if name == 'vpp' else name}", default, why)
    return default


def _expert_tp(read: Cells, sizes: Mapping[str, int | None]) -> int:
    """The tensor-parallel size, or 1 where the ranks of a stage cannot hold ep groups of that size."""
    tp, ep = sizes["tp"] or 1, sizes["ep"] or 1
    ranks = (sizes["n_gpus"] or 0) // (sizes["pp"] or 1)
    if tp > 1 and ranks % (ep * tp) and ranks % ep == 0:
        return _filled(read, "etp", None, 1, "the ranks of a stage hold ep groups of one rank, not of tp ranks")
    return _filled(read, "etp", None, tp, "as tp")


def _training(read: Cells) -> dict[str, Any]:
    written = read.text("date")
    when = text.date(written)
    if written and not when:
        read.problem("date", "YYYY, YYYY-MM or YYYY-MM-DD")
    task = read.text("task").lower()
    if not task:
        read.assume("task", "pretrain", "not stated")
    return {
        "sequence_length": read.count("seq_len"),
        "micro_batch": read.count("micro_batch"),
        "global_batch": read.count("global_batch"),
        "sequence_parallel": read.yes_no("sequence_parallel"),
        "schedule": text.schedule(read.text("schedule")),
        "framework_id": framework_id(read.text("framework"), when),
        "date": when,
        "task": task or "pretrain",
        **_precision(read),
        **_sharding(read),
        **_software(read),
    }


def _precision(read: Cells) -> dict[str, Any]:
    written = read.text("precision")
    if not written:
        read.assume("training.precision", "bf16", "not stated")
        return {}
    key, recipe = text.precision(written)
    if key is None:
        read.problem("precision", " | ".join(text.PRECISIONS))
    return {"precision": key, "precision_recipe": recipe}


def _sharding(read: Cells) -> dict[str, Any]:
    strategy, group = text.sharding(read.text("fsdp_or_zero_stage"))
    if strategy is None and read.text("fsdp_or_zero_stage"):
        read.problem("fsdp_or_zero_stage", "a ZeRO stage 0 to 3 or fsdp")
    moved, layers = text.offload(read.text("offload"))
    if moved is None and read.text("offload"):
        read.problem("offload", "none, cpu, nvme or activation offload of N layers")
    return {"sharding": strategy, "sharding_group": group, "offload": moved, "offload_layers": layers}


def _software(read: Cells) -> dict[str, Any]:
    """Recompute, attention and what the notes on overlap state."""
    notes = text.overlap_notes(read.text("overlap_notes"))
    for part in notes.unread:
        read.assume("training.software", part, "part of the overlap notes that has no effect in the model")
    mode, modules = text.recompute(read.text("recompute"))
    if mode is None and read.text("recompute"):
        read.problem("recompute", "none, selective or full")
    kernel, fused_softmax = text.attention(read.text("attention"))
    if kernel is None and read.text("attention"):
        read.problem("attention", "unfused, flash-1, flash-2, flash-3 or cudnn")
    software = dict(notes.software)
    if fused_softmax is not None:
        software["fused_softmax"] = fused_softmax
    if "fp8 attention" in read.text("precision").lower():
        software["fp8_attention"] = True
    gradients = text.precision(read.text("grad_accum_dtype"))[0]
    if gradients in {"fp32", "bf16", "fp16"}:
        software |= {"gradient_dtype": gradients, "gradient_storage": gradients}
    elif read.text("grad_accum_dtype"):
        read.problem("grad_accum_dtype", "fp32, bf16 or fp16")
    return {
        "recompute": mode,
        "recompute_modules": notes.modules if notes.modules is not None else modules or None,
        "attention": kernel,
        "stage_layout": notes.stage_layout,
        "software": tuple(software.items()),
    }


def flash_kernel(stated: str | None, default: str, date: str = "") -> str:
    """The attention kernel of a row: what it states, else the software's; "flash" means the software's fused kernel.

    Where the software's own default is not fused, flash-1 up to mid 2023 and flash-2 after it.

    >>> flash_kernel("flash", "cudnn"), flash_kernel("flash", "unfused", "2023-02"), flash_kernel(None, "flash-2")
    ('cudnn', 'flash-1', 'flash-2')
    """
    if stated is None:
        return default
    if stated != "flash":
        return stated
    if default != "unfused":
        return default
    return "flash-1" if date and date < "2023-07" else "flash-2"
