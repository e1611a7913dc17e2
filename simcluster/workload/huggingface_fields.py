"""Groups of config.json fields that several families of models share.

Facts of the configuration and modelling classes of huggingface/transformers (4.57) and, where a model brings its own,
of the model's repository: names of fields, class defaults, which matrices have biases, how many norms a layer has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from simcluster.workload.huggingface_sources import Fixed, Of, Scaled, Source, SumOf, Switch, key

Fields: TypeAlias = Mapping[str, Source]


def join(*groups: Fields, **more: Source) -> Fields:
    """Groups one after the other; later ones win, single fields last.

    >>> join({"norm": Fixed("rmsnorm")}, norm=Fixed("layernorm"))["norm"]
    Fixed(value='layernorm')
    """
    return {name: source for group in (*groups, more) for name, source in group.items()}


def biases(*names: str, default: bool = False) -> Fields:
    """One flag for the biases of query, key, value and output."""
    return {"qkv_bias": key(*names, default=default), "out_bias": key(*names, default=default)}


_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length", "max_sequence_length")
_HIDDEN_OVER_HEADS = Of("hidden", over="heads")

BASE: Fields = {
    "layers": key("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "hidden": key("hidden_size", "n_embd", "d_model", "n_embed", "emb_size"),
    "heads": key("num_attention_heads", "n_head", "n_heads", "num_heads", "num_q_heads"),
    "kv_heads": key("num_key_value_heads", "num_kv_heads", default=Of("heads")),
    "head_dim": key("head_dim", default=_HIDDEN_OVER_HEADS),
    "ffn": key("intermediate_size"),
    "vocab": key("vocab_size"),
    "tied_embeddings": key("tie_word_embeddings", default=False),
    "max_sequence": key(*_POSITIONS, default=0),
}
PLAIN_HEADS = join(BASE, head_dim=_HIDDEN_OVER_HEADS)  # head_dim is no field of the class
OWN_HEADS = join(PLAIN_HEADS, kv_heads=Of("heads"))  # each head has its own key and value
TIED: Fields = {"tied_embeddings": key("tie_word_embeddings", default=True)}

LLAMA = join(BASE, biases("attention_bias"), mlp_bias=key("mlp_bias", default=False))
OLMO = join(PLAIN_HEADS, biases("attention_bias"))

GPT = join(
    OWN_HEADS,
    gated_ffn=Fixed(False),
    norm=Fixed("layernorm"),
    qkv_bias=Fixed(True),
    out_bias=Fixed(True),
    mlp_bias=Fixed(True),
)
GPT2 = join(
    GPT,
    TIED,
    ffn=key("n_inner", "intermediate_size", default=Of("hidden", times=4)),
    max_sequence=key("n_positions", "max_position_embeddings", "n_ctx"),
    learned_positions=Of("max_sequence"),
)
OPT = join(
    OWN_HEADS,
    TIED,
    ffn=key("ffn_dim"),
    max_sequence=key("max_position_embeddings"),
    learned_positions=Of("max_sequence", plus=2),  # the first two rows of the table are unused
    qkv_bias=key("enable_bias", default=True),
    out_bias=key("enable_bias", default=True),
    mlp_bias=key("enable_bias", default=True),
    final_norm=key("do_layer_norm_before", default=True),
    norm=key(
        "layer_norm_elementwise_affine", default=Fixed("layernorm"), words={True: "layernorm", False: "nonparametric"}
    ),
    gated_ffn=Fixed(False),
)
_NOT = {True: False, False: True}
MPT = join(
    PLAIN_HEADS,
    TIED,
    kv_heads=key(
        "attn_config.kv_n_heads",
        default=key(
            "attn_config.attn_type",
            default=Of("heads"),
            words={"multihead_attention": Of("heads"), "multiquery_attention": Fixed(1)},
        ),
    ),
    ffn=key("ffn_config.ffn_hidden_size", default=Scaled("expansion_ratio", "hidden", 4)),
    learned_positions=Switch(
        "attn_config.alibi",
        True,
        Fixed(0),
        Switch("attn_config.rope", False, Fixed(0), Switch("learned_pos_emb", True, Of("max_sequence"), Fixed(0))),
    ),
    norm=key("no_bias", default=Fixed("layernorm-nobias"), words={True: "layernorm-nobias", False: "layernorm"}),
    mlp_bias=key("no_bias", default=False, words=_NOT),
    qkv_bias=key("no_bias", default=False, words=_NOT),
    out_bias=key("no_bias", default=False, words=_NOT),
    qk_norm=key("attn_config.qk_ln", default=Fixed("none"), words={True: "full", False: "none"}),
    gated_ffn=Fixed(False),
)


def falcon(new_architecture: bool) -> Fields:
    """Falcon; the larger models share no key and value head over all heads and have two norms."""
    flag = "new_decoder_architecture"
    own = key("num_kv_heads", "n_head_kv", default=Of("heads"))
    norms = key("num_ln_in_parallel_attn", default=Switch("parallel_attn", True, Fixed(1), Fixed(2)))
    return join(
        PLAIN_HEADS,
        TIED,
        biases("bias"),
        kv_heads=Switch(flag, new_architecture, own, Switch("multi_query", True, Fixed(1), own)),
        ffn=key("ffn_hidden_size", default=Of("hidden", times=4)),
        norms_per_layer=Switch(flag, new_architecture, key("num_ln_in_parallel_attn", default=2), norms),
        parallel_block=key("parallel_attn", default=True),
        gated_ffn=Fixed(False),
        norm=Fixed("layernorm"),
        mlp_bias=key("bias", default=False),
        max_sequence=key("max_position_embeddings", "max_seq_len", default=2048),
    )


CHATGLM = join(
    BASE,
    kv_heads=Switch("multi_query_attention", False, key("multi_query_group_num"), Of("heads")),
    head_dim=key("kv_channels"),
    ffn=key("ffn_hidden_size"),
    vocab=key("padded_vocab_size"),
    qkv_bias=Switch("add_bias_linear", False, Fixed(True), key("add_qkv_bias", default=False)),
    out_bias=key("add_bias_linear", default=False),
    mlp_bias=key("add_bias_linear", default=False),
    norm=key("rmsnorm", default=Fixed("rmsnorm"), words={True: "rmsnorm", False: "layernorm"}),
)
GLM = join(BASE, head_dim=key("head_dim", default=128), qkv_bias=key("attention_bias", default=True))
COHERE = join(
    BASE,
    TIED,
    biases("attention_bias"),
    norm=Fixed("layernorm-nobias"),
    norms_per_layer=Fixed(1),
    parallel_block=Fixed(True),
)
GEMMA = join(BASE, TIED, biases("attention_bias"), head_dim=key("head_dim", default=256))
GEMMA2 = join(GEMMA, norms_per_layer=Fixed(4))
QWEN2 = join(BASE, qkv_bias=Fixed(True))
QWEN3 = join(BASE, biases("attention_bias"), head_dim=key("head_dim", default=128), qk_norm=Fixed("head"))
NEMOTRON = join(LLAMA, gated_ffn=Fixed(False), norm=Fixed("layernorm"))
STABLELM = join(
    PLAIN_HEADS,
    qkv_bias=key("use_qkv_bias", default=False),
    norm=Fixed("layernorm"),
    norms_per_layer=Switch("use_parallel_residual", False, Fixed(1), Fixed(2)),
    parallel_block=key("use_parallel_residual", default=False),
)
STARCODER2 = join(
    PLAIN_HEADS,
    TIED,
    biases("use_bias", default=True),
    mlp_bias=key("use_bias", default=True),
    norm=key("norm_type", default=Fixed("layernorm"), words={"layer_norm": "layernorm", "rms_norm": "rmsnorm"}),
    gated_ffn=Fixed(False),
)

# Models with experts

EXPERTS: Fields = {
    "experts": key("num_experts", "num_local_experts", "n_routed_experts"),
    "top_k": key("num_experts_per_tok", "experts_per_token", "moe_top_k", "num_selected_experts"),
    "expert_ffn": key("moe_intermediate_size"),
}
ONE_WIDTH = join(EXPERTS, expert_ffn=key("intermediate_size"))
SHARED_COUNT: Fields = {"shared_ffn": Scaled("n_shared_experts", "expert_ffn", 0)}
DBRX = join(
    PLAIN_HEADS,
    kv_heads=key("attn_config.kv_n_heads"),
    experts=key("ffn_config.moe_num_experts"),
    top_k=key("ffn_config.moe_top_k"),
    expert_ffn=key("ffn_config.ffn_hidden_size"),
    ffn=Of("expert_ffn"),
    norm=Fixed("layernorm-nobias"),
)
GPT_OSS = join(
    BASE,
    ONE_WIDTH,
    biases("attention_bias", default=True),
    head_dim=key("head_dim", default=64),
    mlp_bias=Fixed(True),
    router_bias=Fixed(True),
    attention_sinks=Fixed(True),
)
GROK = join(
    BASE,
    TIED,
    ONE_WIDTH,
    head_dim=key("head_dim", "key_size", default=_HIDDEN_OVER_HEADS),
    norms_per_layer=Fixed(4),
)
LLAMA4 = join(
    BASE,
    ONE_WIDTH,
    biases("attention_bias"),
    head_dim=key("head_dim", default=128),
    ffn=key("intermediate_size_mlp"),
    shared_ffn=Of("expert_ffn"),
)
QWEN2_MOE = join(
    PLAIN_HEADS,
    EXPERTS,
    qkv_bias=key("qkv_bias", default=True),
    shared_ffn=key("shared_expert_intermediate_size", null=0),
    shared_gate=Fixed(True),
)
QWEN3_MOE = join(QWEN3, EXPERTS, head_dim=BASE["head_dim"])
GLM4_MOE = join(
    BASE,
    EXPERTS,
    SHARED_COUNT,
    qkv_bias=key("attention_bias", default=False),
    qk_norm=key("use_qk_norm", default=Fixed("none"), words={True: "head", False: "none"}),
    router_bias=Fixed(True),
    mtp_depth=key("num_nextn_predict_layers", default=0),
)
_BALANCING = {"noaux_tc": True, "greedy": False, "group_limited_greedy": False}  # has a learned bias for balance
DEEPSEEK2 = join(
    BASE,
    EXPERTS,
    SHARED_COUNT,
    biases("attention_bias"),
    kv_heads=Of("heads"),  # the file's num_key_value_heads means nothing under latent attention
    head_dim=SumOf(("nope_dim", "rope_dim")),
    q_rank=key("q_lora_rank", null=0),
    kv_rank=key("kv_lora_rank"),
    nope_dim=key("qk_nope_head_dim"),
    rope_dim=key("qk_rope_head_dim"),
    value_dim=key("v_head_dim"),
    router_bias=key("topk_method", default=False, words=_BALANCING),
)
DEEPSEEK3 = join(
    DEEPSEEK2,
    router_bias=key("topk_method", default=True, words=_BALANCING),
    mtp_depth=key("num_nextn_predict_layers", default=0),
)
