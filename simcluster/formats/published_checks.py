"""Whether a published row can be simulated and compared, and the step time that it prints."""

from __future__ import annotations

from simcluster.formats.published import PublishedRow
from simcluster.formats.published_facts import PublishedFacts
from simcluster.formats.published_text import SCHEDULES

_AGREE = 0.10  # tokens/s and step time of one row may differ by rounding, not by more than this
_ATTENTION_DOUBT = 0.05  # causal and full counts closer than this: their mean serves where a source does not say which


def skip_reason(row: PublishedRow, *, architecture_known: bool = False) -> str | None:
    """Why a row is not predicted, None when it can be; unknown GPUs are the catalogue's to tell.

    architecture_known: the caller has the model from elsewhere (a catalogue), so empty columns do not matter.

    Returns task, no_throughput, no_architecture, no_layout, unknown_precision, "inconsistent_row: …" or
    "unsupported: …".
    """
    facts = row.facts
    if facts.task != "pretrain":
        return "task"
    if published_step_time(row) is None and row.result.tokens_per_s_per_gpu is None:
        return "no_throughput"
    if not architecture_known and not has_architecture(facts):
        return "no_architecture"
    if not has_layout(facts):
        return "no_layout"
    if facts.precision is None:
        return "unknown_precision"
    wrong = inconsistency(facts) or _throughputs_differ(row)
    if wrong:
        return f"inconsistent_row: {wrong}"
    if facts.schedule and facts.schedule not in SCHEDULES:
        return f"unsupported: schedule {facts.schedule}"
    return None


def has_architecture(facts: PublishedFacts) -> bool:
    """Layers, widths, heads and vocabulary are known, and the experts' where there are any."""
    needed = (facts.layers, facts.hidden, facts.heads, facts.head_dim, facts.ffn, facts.vocab)
    experts = (facts.top_k, facts.expert_ffn) if facts.experts else ()
    return all(value is not None for value in (*needed, *experts))


def has_layout(facts: PublishedFacts) -> bool:
    """GPUs, parallel sizes, batch and sequence length are known; a micro-batch may be the software's default."""
    needed = (facts.n_gpus, facts.tp, facts.pp, facts.cp, facts.global_batch, facts.sequence_length)
    return all(value is not None for value in needed)


def inconsistency(facts: PublishedFacts) -> str | None:
    """The first thing in a row's layout that cannot be; None when all of it can."""
    tp, pp, cp, n_gpus = facts.tp or 1, facts.pp or 1, facts.cp or 1, facts.n_gpus or 1
    if facts.dp is None or tp * pp * cp * facts.dp != n_gpus:
        return f"layout: tp {tp} x pp {pp} x cp {cp} x dp {facts.dp} is not {n_gpus} GPUs"
    if (facts.global_batch or 1) % (facts.dp * (facts.micro_batch or 1)):
        return f"batch: {facts.global_batch} is not a multiple of dp {facts.dp} x micro-batch {facts.micro_batch or 1}"
    if facts.heads and facts.heads % tp:
        return f"heads: tp {tp} does not divide {facts.heads} heads"
    if facts.layers and pp * facts.vpp > facts.layers + 2:  # embedding and head may count as layers
        return f"layers: pp {pp} x vpp {facts.vpp} is more than {facts.layers} layers"
    if facts.gpus_per_node and n_gpus > facts.gpus_per_node and n_gpus % facts.gpus_per_node:
        return f"nodes: {n_gpus} GPUs do not fill nodes of {facts.gpus_per_node}"
    return _expert_inconsistency(facts, n_gpus // pp)


def _expert_inconsistency(facts: PublishedFacts, ranks: int) -> str | None:
    ep, etp = facts.ep or 1, facts.etp or 1
    if facts.experts and facts.top_k and facts.top_k > facts.experts:
        return f"experts: top {facts.top_k} of {facts.experts}"
    if ep > 1 and not facts.experts:
        return f"experts: ep {ep} of a dense model"
    if facts.experts and facts.experts % ep:
        return f"experts: ep {ep} does not divide {facts.experts} experts"
    if facts.experts and ranks % (ep * etp):
        return f"experts: ep {ep} x etp {etp} does not divide the {ranks} ranks of a stage"
    return None


def _throughputs_differ(row: PublishedRow) -> str | None:
    """Tokens/s and step time of a row that contradict each other."""
    step = row.result.step_time_s
    found = published_step_time(row)
    if step is None or found is None or abs(found[0] / step - 1) <= _AGREE:
        return None
    return f"throughput: {found[0]:.4g} s by {found[1]}, {step:.4g} s printed"


def published_step_time(row: PublishedRow) -> tuple[float, str] | None:
    """Seconds of a step that a row prints, and how they were found; None when nothing in it settles them.

    From tokens/s per GPU, else the step time, samples/s, or TFLOP/s by its own definition of FLOPs.
    """
    facts, result = row.facts, row.result
    batch, tokens = facts.global_batch, None
    if batch and facts.sequence_length:
        tokens = float(batch) * facts.sequence_length
    if result.tokens_per_s_per_gpu and tokens and facts.n_gpus:
        return tokens / (result.tokens_per_s_per_gpu * facts.n_gpus), "tokens_per_s_per_gpu"
    if result.step_time_s:
        return result.step_time_s, "step_time_s"
    if result.samples_per_s and batch:
        return batch / result.samples_per_s, "samples_per_s"
    flops = flops_per_token(facts, result.flops_definition)
    if result.tflops_per_gpu and flops and tokens and facts.n_gpus:
        return tokens * flops / (result.tflops_per_gpu * 1e12 * facts.n_gpus), "tflops_per_gpu"
    return None


def flops_per_token(facts: PublishedFacts, definition: str) -> float | None:
    """FLOPs of one trained token as a source counts them; None where its words leave them open.

    Model FLOPs are three times a forward of every matrix product (the head included, the embedding lookup not) and of
    the attention, counted over the whole square ("full") or half of it ("causal"); hardware FLOPs add the recomputed
    forward of the layers under full recompute (Narayanan et al. 2021; Korthikanti et al. 2022; PaLM 2022).
    """
    words = definition.lower()
    weights = _matmul_weights(facts)
    if not words or weights is None or not facts.sequence_length:
        return None
    layers, head = weights
    square = 2.0 * facts.sequence_length * (facts.heads or 1) * (facts.head_dim or 1) * 2 * (facts.layers or 1)
    passes = 3.0
    if "hardware" in words or ("counts recompute" in words and facts.recompute == "full"):
        if facts.recompute not in {"full", "none"}:
            return None
        passes = 4.0 if facts.recompute == "full" else 3.0
    share = _square_share(words, square, 2 * (layers + head))
    return None if share is None else passes * (2 * layers + share * square) + 6 * head


def _square_share(words: str, square: float, rest: float) -> float | None:
    """Share of the attention square that a definition counts."""
    if any(mark in words for mark in ("non-causal", "sc21", "2205.05198", "72bs", "96bs", "palm", "12*l", "12lh")):
        return 1.0
    if "causal" in words and "not stated" not in words:
        return 0.5
    return 0.75 if 0.25 * square <= _ATTENTION_DOUBT * (rest + 0.75 * square) else None


def _matmul_weights(facts: PublishedFacts) -> tuple[float, float] | None:
    """Weights that one token meets: of all layers, and of the output layer."""
    if not has_architecture(facts):
        return None
    hidden, head_dim = float(facts.hidden or 0), float(facts.head_dim or 0)
    attention = 2 * hidden * head_dim * ((facts.heads or 0) + (facts.kv_heads or 0))
    matrices = 3 if facts.gated_ffn else 2
    if facts.experts:
        feed_forward = hidden * (matrices * float(facts.top_k or 0) * (facts.expert_ffn or 0) + facts.experts)
    else:
        feed_forward = hidden * matrices * float(facts.ffn or 0)
    return (facts.layers or 0) * (attention + feed_forward), hidden * float(facts.vocab or 0)
