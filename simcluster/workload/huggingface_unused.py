"""What of a config.json was not used: parts that are no language model, stored number formats, unknown keys."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.shapes import Assumption
from simcluster.workload.huggingface_config import Config, shown

_PARTS = ("vision_config", "audio_config", "speech_config", "talker_config", "token2wav_config", "visual")

# Keys that change neither parameters nor the operators of a layer.
_NAMES = """
    _attn_implementation _name_or_path activation activation_function add_faster_video architectures auto_map
    attention_dropout attention_multiplier attention_softmax_in_fp32 attn_implementation attn_logit_softcapping
    attn_pdrop attn_scale attn_temperature_tuning aux_loss_alpha beta_fast beta_slow bos_token_id cache_implementation
    classifier_dropout clip_qkv dropout dtype emb_pdrop embd_pdrop embedding_multiplier embedding_multiplier_scale
    ep_size eoi_token_index eos_token_id final_logit_softcapping floor_scale for_llm_scale gradient_checkpointing
    hidden_act hidden_activation hidden_dropout hidden_dropout_prob init_config init_device init_std
    initial_context_length initializer_range is_decoder label2id id2label layer_norm_eps layer_norm_epsilon layerdrop
    layernorm_epsilon logit_scale logits_scaling model_type n_group norm_eps norm_epsilon norm_topk_prob num_beams
    original_max_position_embeddings output_attentions output_hidden_states output_multiplier_scale
    output_router_logits pad_token_id partial_rotary_factor prefix pretraining_tp quantization_config
    query_pre_attn_scalar rescale_every resid_pdrop residual_dropout residual_multiplier rms_norm_eps
    rope_interleave rope_local_base_freq rope_parameters rope_pct rope_scaling rope_theta rotary rotary_dim
    rotary_emb_base rotary_pct routed_scaling_factor router_aux_loss_coef router_jitter_noise scale_attn_weights
    scale_attention_softmax_in_fp32 scale_attn_by_inverse_layer_idx reorder_and_upcast_attn scoring_func seq_aux
    slow_but_exact softmax_scale swiglu_limit summary_activation summary_first_dropout summary_proj_to_labels
    summary_type summary_use_proj task_specific_params topk_group torch_dtype transformers_version unk_token_id
    use_bfloat16 use_cache use_qk_norm use_rmsnorm verbose attn_output_multiplier max_attn_value
"""
_WITHOUT_EFFECT = frozenset(_NAMES.split())


def report_unused(whole: Config, config: Config, model_type: str) -> Iterator[Assumption]:
    """Assumptions about what was left out."""
    if config is not whole:
        others = [name for name in _PARTS if name in whole.data]
        left = f"; left out: {', '.join(others)}" if others else ""
        yield Assumption(f"model.{'.'.join(config.path)}", model_type, f"only the text part is counted{left}")
    elif any(name in whole.data for name in _PARTS):
        others = [name for name in _PARTS if name in whole.data]
        yield Assumption(
            "model.model_type", model_type, f"only the text part is counted; left out: {', '.join(others)}"
        )
    stored = whole.data.get("quantization_config") or config.data.get("quantization_config")
    if stored:
        method = stored.get("quant_method", stored) if isinstance(stored, dict) else stored
        why = "weights are counted as elements; how the file stores them does not count"
        yield Assumption("model.quantization_config", shown(method).strip('"'), why)
    ignored = sorted(str(name) for name in config.data if name not in config.used | _WITHOUT_EFFECT | set(_PARTS))
    if ignored:
        yield Assumption("model.config", ", ".join(ignored), "keys that are not used")
