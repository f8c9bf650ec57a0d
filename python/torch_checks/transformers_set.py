"""27 models of transformers: tiny, random weights, two bindings of each dynamic size."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers as T  # noqa: E402

Inputs = dict[str, Any]
Made = tuple[Any, Inputs]

TEXT: dict[str, Any] = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 64,
}  # fmt: skip
CODER: dict[str, Any] = {
    "vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}  # fmt: skip
VISION: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip


def ids(batch: int = 2, length: int = 12) -> torch.Tensor:
    return torch.randint(3, 90, (batch, length))


def _text(model: str, config: str, cache: bool = False, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        torch.manual_seed(0)
        module = getattr(T, model)(getattr(T, config)(**{**TEXT, **options})).eval()
        mask = torch.ones(2, 12, dtype=torch.int64)
        mask[1, 9:] = 0
        inputs: Inputs = {"input_ids": ids(), "attention_mask": mask}
        if cache:
            inputs["use_cache"] = False
        return module, inputs

    return make


def _coder(model: str, config: str, features: Inputs, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        torch.manual_seed(0)
        module = getattr(T, model)(getattr(T, config)(**options)).eval()
        first = {n: (ids() if v is None else v) for n, v in features.items()}
        return module, {**first, "decoder_input_ids": ids(2, 8), "use_cache": False}

    return make


def _vision(model: str, config: str, size: int = 32, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        torch.manual_seed(0)
        module = getattr(T, model)(getattr(T, config)(**options)).eval()
        return module, {"pixel_values": torch.randn(2, 3, size, size)}

    return make


def _wav2vec2() -> Made:
    torch.manual_seed(0)
    config = T.Wav2Vec2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        conv_dim=(32, 32), conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    return T.Wav2Vec2Model(config).eval(), {"input_values": torch.randn(2, 800)}


def _clip() -> Made:
    torch.manual_seed(0)
    text = {**TEXT, "max_position_embeddings": 32}
    config = T.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)
    return T.CLIPModel(config).eval(), {
        "input_ids": ids(),
        "pixel_values": torch.randn(2, 3, 32, 32),
    }


def _detr() -> Made:
    torch.manual_seed(0)
    backbone = T.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic",
        out_features=["stage2"],
    )  # fmt: skip
    config = T.DetrConfig(
        backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False,
        backbone=None, num_queries=10, **{k: v for k, v in CODER.items() if k != "vocab_size"},
    )  # fmt: skip
    return T.DetrForObjectDetection(config).eval(), {
        "pixel_values": torch.randn(2, 3, 64, 64),
        "pixel_mask": torch.ones(2, 64, 64, dtype=torch.int64),
    }


_GQA = {"num_key_value_heads": 2}

ALL: dict[str, Callable[[], Made]] = {
    "bert": _text("BertModel", "BertConfig"),
    "roberta": _text("RobertaModel", "RobertaConfig"),
    "distilbert": _text("DistilBertModel", "DistilBertConfig", dim=32, n_layers=2, n_heads=4,
                        hidden_dim=64),
    "albert": _text("AlbertModel", "AlbertConfig", embedding_size=16),
    "electra": _text("ElectraModel", "ElectraConfig", embedding_size=16),
    "deberta_v2": _text("DebertaV2Model", "DebertaV2Config", relative_attention=True,
                        pos_att_type=["p2c", "c2p"], position_buckets=8),
    "gpt2": _text("GPT2LMHeadModel", "GPT2Config", True, n_embd=32, n_layer=2, n_head=4,
                  n_positions=64),
    "gpt_neox": _text("GPTNeoXForCausalLM", "GPTNeoXConfig", True),
    "opt": _text("OPTForCausalLM", "OPTConfig", True, ffn_dim=64, word_embed_proj_dim=32),
    "llama": _text("LlamaForCausalLM", "LlamaConfig", True, **_GQA),
    "mistral": _text("MistralForCausalLM", "MistralConfig", True, sliding_window=6, **_GQA),
    "qwen2": _text("Qwen2ForCausalLM", "Qwen2Config", True, **_GQA),
    "qwen3": _text("Qwen3ForCausalLM", "Qwen3Config", True, head_dim=8, **_GQA),
    "gemma2": _text("Gemma2ForCausalLM", "Gemma2Config", True, head_dim=8, **_GQA),
    "phi3": _text("Phi3ForCausalLM", "Phi3Config", True, pad_token_id=0, **_GQA),
    "mixtral": _text("MixtralForCausalLM", "MixtralConfig", True, num_local_experts=4, **_GQA),
    "mamba": _text("MambaForCausalLM", "MambaConfig", True, state_size=8),
    "t5": _coder("T5ForConditionalGeneration", "T5Config", {"input_ids": None}, vocab_size=99,
                 d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
    "bart": _coder("BartForConditionalGeneration", "BartConfig", {"input_ids": None},
                   max_position_embeddings=64, **CODER),
    "whisper": _coder("WhisperModel", "WhisperConfig",
                      {"input_features": torch.randn(2, 16, 64)}, num_mel_bins=16,
                      max_source_positions=32, max_target_positions=32, pad_token_id=0,
                      bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, **CODER),
    "wav2vec2": _wav2vec2,
    "vit": _vision("ViTModel", "ViTConfig", **VISION),
    "swin": _vision("SwinModel", "SwinConfig", image_size=32, patch_size=2, embed_dim=16,
                    depths=[2, 2], num_heads=[2, 4], window_size=4),
    "clip": _clip,
    "convnext": _vision("ConvNextModel", "ConvNextConfig", 64, hidden_sizes=[8, 16, 32, 32],
                        depths=[1, 1, 2, 1]),
    "segformer": _vision("SegformerForSemanticSegmentation", "SegformerConfig", 64,
                         hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                         num_attention_heads=[1, 2, 2, 4], decoder_hidden_size=32),
    "detr": _detr,
}  # fmt: skip


def bindings(name: str) -> tuple[Any, list[Inputs], dict[str, Any]]:
    """The model, inputs at two bindings of its dynamic sizes, and those."""
    model, first = ALL[name]()
    second: Inputs = {}
    shapes: dict[str, Any] = {}
    # mamba without its kernels walks the sequence in Python: as many steps as the example has.
    length = 12 if name == "mamba" else 9
    for key, value in first.items():
        if not isinstance(value, torch.Tensor):
            second[key], shapes[key] = value, None
            continue
        shapes[key] = {0: "batch"}
        if key in ("input_ids", "attention_mask"):
            shapes[key] = {0: "batch"} if name == "mamba" else {0: "batch", 1: "sequence"}
            second[key] = ids(3, length)
            if key == "attention_mask":
                second[key] = torch.ones(3, length, dtype=torch.int64)
                second[key][2, 5:] = 0
        elif key == "decoder_input_ids":
            shapes[key] = {0: "batch", 1: "target_sequence"}
            second[key] = ids(3, 5)
        elif key == "input_values":
            shapes[key] = {0: "batch", 1: "samples"}
            second[key] = torch.randn(3, 1000)
        elif key == "pixel_mask":
            second[key] = torch.ones(3, *value.shape[1:], dtype=value.dtype)
        else:
            second[key] = torch.randn(3, *value.shape[1:])
    return model, [first, second], shapes
