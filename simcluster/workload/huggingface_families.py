"""What each model_type of a Hugging Face config.json means; a new family is a line here.

Facts of the configuration and modelling classes of huggingface/transformers (4.57); see `huggingface_fields`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from simcluster.workload import huggingface_fields as groups
from simcluster.workload.huggingface_fields import join
from simcluster.workload.huggingface_sources import Family, Fixed, Of, Switch, Windows, key

_SIZE_NAMES = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "max_sequence")


def _sizes(*values: int, **more: int) -> Mapping[str, int]:
    """Class defaults of the sizes, in the order of `_SIZE_NAMES`."""
    return dict(zip(_SIZE_NAMES, values, strict=True)) | more


_QWEN_WINDOWS = Windows(default=4096, enabled_by="use_sliding_window", after="max_window_layers")
_LLAMA4_WINDOWS = Windows(
    "attention_chunk_size", 8192, "chunked", every=4, every_key="no_rope_layer_interval", rope_layers="no_rope_layers"
)

_BLOOM = join(groups.GPT, groups.TIED, ffn=Of("hidden", times=4), embedding_norm=Fixed(True))
_COHERE = join(groups.COHERE, qk_norm=key("use_qk_norm", default=Fixed("none"), words={True: "full", False: "none"}))
_GPT_BIGCODE = join(groups.GPT2, kv_heads=Switch("multi_query", True, Fixed(1), Of("heads")))
_GPT_NEOX = join(
    groups.GPT,
    groups.biases("attention_bias", default=True),
    ffn=key("intermediate_size"),
    parallel_block=key("use_parallel_residual", default=True),
)
_OLMO2 = join(groups.OLMO, qk_norm=Fixed("full"))

_DEEPSEEK3 = Family(groups.DEEPSEEK3, "leading")
_LLAMA = Family(groups.LLAMA, sizes=_sizes(32, 4096, 32, 32, 11008, 32000, 2048))
_QWEN2 = Family(groups.QWEN2, windows=_QWEN_WINDOWS, sizes=_sizes(32, 4096, 32, 32, 22016, 151936, 32768))
_QWEN3 = Family(groups.QWEN3, windows=_QWEN_WINDOWS, sizes=_sizes(32, 4096, 32, 32, 22016, 151936, 32768))
_QWEN3_MOE = Family(
    groups.QWEN3_MOE,
    "sparse_step",
    Windows(default=4096, enabled_by="use_sliding_window"),
    sizes=_sizes(24, 2048, 32, 4, 6144, 151936, 32768, experts=128, top_k=8, expert_ffn=768),
)

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "baichuan": Family(groups.OWN_HEADS),
        "bloom": Family(_BLOOM),
        "chatglm": Family(groups.CHATGLM, only={"post_layer_norm": True}),
        "cohere": Family(_COHERE),
        "cohere2": Family(groups.COHERE, windows=Windows(default=4096, every=4, every_key="sliding_window_pattern")),
        "dbrx": Family(groups.DBRX, "all"),
        "deepseek_v2": Family(groups.DEEPSEEK2, "leading", only={"mlp_bias": False}),
        "deepseek_v3": _DEEPSEEK3,
        "falcon": Family(groups.falcon(False)),
        "gemma": Family(groups.GEMMA),
        "gemma2": Family(
            groups.GEMMA2, windows=Windows(default=4096, every=2), sizes=_sizes(26, 2304, 8, 4, 9216, 256_000, 8192)
        ),
        "gemma3_text": Family(
            join(groups.GEMMA2, qk_norm=Fixed("head")),
            windows=Windows(default=4096, every=6, every_key="sliding_window_pattern"),
            sizes=_sizes(26, 2304, 8, 4, 9216, 262_208, 131_072),
        ),
        "glm": Family(groups.GLM),
        "glm4": Family(join(groups.GLM, norms_per_layer=Fixed(4))),
        "glm4_moe": Family(groups.GLM4_MOE, "leading"),
        "gpt2": Family(groups.GPT2, only={"add_cross_attention": False}),
        "gpt_bigcode": Family(_GPT_BIGCODE, only={"add_cross_attention": False}),
        "gpt_neox": Family(_GPT_NEOX),
        "gpt_oss": Family(
            groups.GPT_OSS,
            "all",
            Windows(default=128, every=2),
            sizes=_sizes(36, 2880, 64, 8, 2880, 201_088, 131_072, experts=128, top_k=4, expert_ffn=2880),
        ),
        "granite": Family(groups.LLAMA),
        "grok-1": Family(groups.GROK, "all"),
        "internlm": Family(join(groups.OWN_HEADS, groups.biases("bias", default=True))),
        "internlm2": Family(join(groups.PLAIN_HEADS, groups.biases("bias", default=True))),
        "llama": _LLAMA,
        "llama4_text": Family(
            groups.LLAMA4,
            "interleaved",
            _LLAMA4_WINDOWS,
            sizes=_sizes(48, 5120, 40, 8, 16384, 202_048, 131_072, experts=16, top_k=1, expert_ffn=8192),
        ),
        "mistral": Family(
            groups.BASE, windows=Windows(default=4096), sizes=_sizes(32, 4096, 32, 8, 14336, 32000, 131_072)
        ),
        "mixtral": Family(
            join(groups.BASE, groups.ONE_WIDTH),
            "all",
            Windows(),
            sizes=_sizes(32, 4096, 32, 8, 14336, 32000, 131_072, experts=8, top_k=2, expert_ffn=14336),
        ),
        "mpt": Family(groups.MPT),
        "nemotron": Family(groups.NEMOTRON),
        "olmo": Family(join(groups.OLMO, norm=Fixed("nonparametric"))),
        "olmo2": Family(_OLMO2),
        "olmo3": Family(_OLMO2, windows=Windows(default=4096, every=4)),
        "olmoe": Family(join(_OLMO2, groups.ONE_WIDTH), "all"),
        "opt": Family(groups.OPT, only={"word_embed_proj_dim": Of("hidden"), "_remove_final_layer_norm": False}),
        "phi3": Family(groups.PLAIN_HEADS, windows=Windows()),
        "qwen2": _QWEN2,
        "qwen2_moe": Family(
            groups.QWEN2_MOE,
            "sparse_step",
            _QWEN_WINDOWS,
            sizes=_sizes(24, 2048, 16, 16, 5632, 151_936, 32768, experts=60, top_k=4, expert_ffn=1408, shared_ffn=5632),
        ),
        "qwen3": _QWEN3,
        "qwen3_moe": _QWEN3_MOE,
        "stablelm": Family(groups.STABLELM, only={"qk_layernorm": False}),
        "starcoder2": Family(groups.STARCODER2, windows=Windows()),
        # Other names of the same: older ones, and the text parts of models that also see or hear.
        "RefinedWeb": Family(groups.falcon(True)),
        "RefinedWebModel": Family(groups.falcon(False)),
        "Yi": _LLAMA,
        "kimi_k2": _DEEPSEEK3,
        "qwen2_5_vl": _QWEN2,
        "qwen2_5_vl_text": _QWEN2,
        "qwen2_vl": _QWEN2,
        "qwen2_vl_text": _QWEN2,
        "qwen3_vl_text": _QWEN3,
        "qwen3_vl_moe_text": _QWEN3_MOE,
    }
)

# model_type of the text part where the file does not state it, by that of the whole.
TEXT_PART: Mapping[str, str] = MappingProxyType(
    {
        "gemma3": "gemma3_text",
        "llama4": "llama4_text",
        "llava": "llama",
        "llava_next": "llama",
        "mistral3": "mistral",
        "qwen2_5_vl": "qwen2_5_vl_text",
        "qwen2_vl": "qwen2_vl_text",
        "qwen3_vl": "qwen3_vl_text",
        "qwen3_vl_moe": "qwen3_vl_moe_text",
    }
)

# What some models have that `Architecture` cannot hold.
NOT_COUNTED: Mapping[str, str] = MappingProxyType(
    {
        "deepseek_v32": "its attention selects tokens with an indexer",
        "deepseek_v4": "its attention selects tokens with an indexer",
        "gemma4_text": "its layers with a window have heads of another size",
        "glm_moe_dsa": "its attention selects tokens with an indexer",
        "gpt_neo": "its windows and biases differ from layer to layer",
        "gptj": "its head has a bias",
        "jamba": "some of its layers are state-space layers",
        "kimi_linear": "some of its layers have linear attention",
        "mamba": "its layers are state-space layers",
        "mamba2": "its layers are state-space layers",
        "mllama": "some of its layers attend to images",
        "mllama_text_model": "some of its layers attend to images",
        "nemotron-nas": "its layers differ in size",
        "nemotron_h": "some of its layers are state-space layers",
        "phi": "its head has a bias",
        "phimoe": "its head has a bias",
        "qwen3_5_moe_text": "some of its layers have linear attention",
        "qwen3_5_text": "some of its layers have linear attention",
        "qwen3_next": "some of its layers have linear attention",
        "t5": "it has an encoder and a decoder",
    }
)
