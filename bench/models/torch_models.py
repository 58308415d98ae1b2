"""PyTorch models on the meta device, from `transformers` (GPT-2, Llama, BERT, T5, ViT, ResNet) or hand-written (Mamba,
experts, scans, a U-Net).

Shardings equal those of the JAX programs: rows of the batch over `dp`, heads and hidden dims over `tp`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf

import meshgen as mg
from bench.models import torch_modules as modules

MESH = {"dp": 2, "tp": 4}
P = mg.P
_IN, _OUT = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head"), ("o_proj", "down_proj")
LLAMA = {f"*{name}.weight": P("tp") for name in _IN} | {f"*.{name}.weight": P(None, "tp") for name in _OUT}
GPT2 = {"*.c_attn.weight": P(None, "tp"), "*.c_attn.bias": P("tp"), "*.c_fc.weight": P(None, "tp"), "*.c_fc.bias": P("tp"), "*.c_proj.weight": P("tp")}  # fmt: skip


@dataclass(frozen=True)
class TorchProgram:
    """A PyTorch model, the types of its arguments by name, and its shardings on `mesh`."""

    model: Any
    args: Mapping[str, str]
    in_specs: Mapping[str, Any]
    mesh: Mapping[str, int]

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options of `mg.compile` for this program."""
        return {"mesh": self.mesh, "in_specs": self.in_specs}

    def lowered(self) -> Any:
        """Return the program from torch.export. Its parameters have no elements if the model is on the meta device."""
        from meshgen.frontend.torch.export import exported

        return exported(self.model, self.args)


def made(kind: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return a model of class `kind` in eval mode, on the meta device."""
    with torch.device("meta"):
        return kind(*args, **options).eval()


def gpt2(small: bool) -> TorchProgram:
    sizes = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 64, "n_positions": 32, "bos_token_id": 1, "eos_token_id": 1} if small else {}  # fmt: skip
    ids = "i64[8,16]" if small else "i64[8,1024]"
    return TorchProgram(made(hf.GPT2LMHeadModel, hf.GPT2Config(use_cache=False, **sizes)), {"input_ids": ids}, GPT2 | {"input_ids": P("dp")}, MESH)  # fmt: skip


def _llama_sizes(small: bool, layers: int) -> dict[str, Any]:
    if small:
        return {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "vocab_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}  # fmt: skip
    return {"num_hidden_layers": layers, "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 2048}  # fmt: skip


def llama(small: bool) -> TorchProgram:
    model = made(hf.LlamaForCausalLM, hf.LlamaConfig(use_cache=False, tie_word_embeddings=False, **_llama_sizes(small, 8)))  # fmt: skip
    model = model if small else model.to(torch.bfloat16)
    return TorchProgram(model, {"input_ids": "i64[8,16]" if small else "i64[4,2048]"}, LLAMA | {"input_ids": P("dp")}, MESH)  # fmt: skip


def bert(small: bool) -> TorchProgram:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "vocab_size": 64, "num_attention_heads": 4, "max_position_embeddings": 32} if small else {}  # fmt: skip
    split = {f"*.{name}.weight": P("tp") for name in ("query", "key", "value", "intermediate.dense")} | {"*.attention.output.dense.weight": P(None, "tp")}  # fmt: skip
    ids = "i64[8,16]" if small else "i64[16,512]"
    rows = {"input_ids": P("dp"), "attention_mask": P("dp")}
    return TorchProgram(made(hf.BertModel, hf.BertConfig(**sizes)), {"input_ids": ids, "attention_mask": ids}, split | rows, MESH)  # fmt: skip


def t5(small: bool) -> TorchProgram:
    sizes = {"num_layers": 2, "d_model": 32, "d_kv": 8, "d_ff": 64, "vocab_size": 64, "num_heads": 4} if small else {}
    split = {f"*.{name}.weight": P("tp") for name in ("q", "k", "v", "wi")} | {f"*.{name}.weight": P(None, "tp") for name in ("o", "wo")}  # fmt: skip
    ids = "i64[8,16]" if small else "i64[8,512]"
    model = made(hf.T5ForConditionalGeneration, hf.T5Config(use_cache=False, **sizes))
    return TorchProgram(model, {"input_ids": ids, "decoder_input_ids": ids}, split | {"*input_ids": P("dp")}, MESH)


def vit(small: bool) -> TorchProgram:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "image_size": 32, "patch_size": 8} if small else {}  # fmt: skip
    pixels = "f32[8,3,32,32]" if small else "f32[32,3,224,224]"
    return TorchProgram(made(hf.ViTForImageClassification, hf.ViTConfig(**sizes)), {"pixel_values": pixels}, {"pixel_values": P("dp")}, {"dp": 8})  # fmt: skip


def resnet(small: bool) -> TorchProgram:
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"} if small else {}
    pixels = "f32[8,3,32,32]" if small else "f32[32,3,224,224]"
    return TorchProgram(made(hf.ResNetForImageClassification, hf.ResNetConfig(**sizes)), {"pixel_values": pixels}, {"pixel_values": P("dp")}, {"dp": 8})  # fmt: skip


def mamba(small: bool) -> TorchProgram:
    sizes = {"num_hidden_layers": 2, "hidden_size": 32, "vocab_size": 64, "state_size": 4} if small else {"num_hidden_layers": 2}  # fmt: skip
    ids = "i64[8,16]" if small else "i64[8,64]"
    return TorchProgram(made(hf.MambaForCausalLM, hf.MambaConfig(use_cache=False, **sizes)), {"input_ids": ids}, {"input_ids": P("dp")}, {"dp": 8})  # fmt: skip


def mixtral(small: bool) -> TorchProgram:
    """Return the counterpart of `experts.py`. torch.export refuses the Mixtral of `transformers`, because it loops over
    the chosen experts.
    """
    sizes, ids = ((1, 16, 32, 32, 4, 2), "i64[4,8]") if small else ((4, 4096, 14336, 32000, 32, 8), "i64[8,1024]")
    split = {f"*.{name}": P("ep") for name in ("gate", "up", "down")} | {"ids": P("dp")}
    return TorchProgram(made(modules.Mixtral, *sizes), {"ids": ids}, split, {"dp": 2, "ep": 4})


def mamba_scan(small: bool) -> TorchProgram:
    """Return the counterpart of `state_space.py`, a language model of Mamba blocks."""
    sizes, ids = ((1, 16, 4, 32), "i64[4,8]") if small else ((4, 2048, 16, 32000), "i64[8,1024]")
    split = {"*.into": P(None, None, "tp"), "*.step": P(None, "tp")} | {f"*.{name}": P("tp") for name in ("taps", "select", "step_bias", "decay", "skip", "out")}  # fmt: skip
    return TorchProgram(made(modules.Mamba, *sizes), {"ids": ids}, split | {"ids": P("dp")}, MESH)


def unet(small: bool) -> TorchProgram:
    """Return the counterpart of the U-Net in `convolutional.py`."""
    rows, side, words, width = (8, 8, 4, 16) if small else (16, 64, 77, 768)
    model = made(modules.UNet, *(((16, 32), 1) if small else ((320, 640, 1280), 2)), width)
    inputs = {"x": f"f32[{rows},4,{side},{side}]", "time": f"f32[{rows}]", "prompt": f"f32[{rows},{words},{width}]"}
    split = {f"*.{name}.{part}": P("tp") for name in ("query", "key", "value", "up") for part in ("weight", "bias")} | {f"*.{name}.weight": P(None, "tp") for name in ("out", "down")}  # fmt: skip
    return TorchProgram(model, inputs, split | dict.fromkeys(inputs, P("dp")), {"dp": 4, "tp": 2})


PROGRAMS: Mapping[str, Callable[[bool], TorchProgram]] = {
    f"torch-{make.__name__.replace('_', '-')}": make
    for make in (gpt2, llama, mixtral, bert, t5, vit, resnet, mamba, mamba_scan, unet)
}
