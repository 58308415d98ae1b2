"""Generative language models of `transformers`: GPT-2, Llama, Mistral, Gemma. There are forward passes, decoding steps
with a cache, and training steps.

Programs are split as in Megatron (batch rows over `dp`; heads and MLP hidden dims over `tp`), or parameters are fully
sharded over `fsdp`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import transformers as hf
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, by_name, by_size, tokens
from bench.models.training import next_token, training

MESH = {"dp": 2, "tp": 4}
# Flax's GPT-2 stores transposed matrices: their rows, not columns, are the outputs.
GPT2 = by_name({"*.c_attn.kernel": P("tp"), "*.c_attn.bias": P("tp"), "*.c_fc.kernel": P("tp"), "*.c_fc.bias": P("tp"),
                "*.c_proj.kernel": P(None, "tp")})  # fmt: skip
_IN, _OUT = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "lm_head"), ("o_proj", "down_proj")
LLAMA = by_name({f"*{name}.kernel": P(None, "tp") for name in _IN} | {f"*.{name}.kernel": P("tp") for name in _OUT})
BOTH = by_name({f"*{name}.kernel": P("fsdp", "tp") for name in _IN} | {f"*.{name}.kernel": P("tp", "fsdp") for name in _OUT}
               | {"*.embedding": P("tp", "fsdp")})  # fmt: skip


def gpt2_model(small: bool) -> Any:
    sizes = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 64, "n_positions": 32} if small else {}
    return hf.FlaxGPT2LMHeadModel(hf.GPT2Config(**sizes), _do_init=False)


def llama_model(
    small: bool, config: Any = hf.LlamaConfig, model: Any = hf.FlaxLlamaForCausalLM, layers: int = 8, **more: Any
) -> Any:
    """Return a model with the layer sizes of an 8B model but fewer layers."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "vocab_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 32}  # fmt: skip
    if not small:
        sizes |= {"num_hidden_layers": layers, "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 2048}  # fmt: skip
    return model(config(**sizes, **more), _do_init=False, dtype=jnp.float32 if small else jnp.bfloat16)


def parameters(model: Any) -> Any:
    return jax.eval_shape(lambda: model.init_weights(jax.random.key(0), (1, 8)))


def batch(small: bool, rows: int = 8, length: int = 1024) -> Any:
    return tokens(8, 16) if small else tokens(rows, length)


def forward(model: Any, split: Any, ids: Any) -> Program:
    params = parameters(model)
    return Program(lambda params, ids: model(ids, params=params).logits, MESH, (params, ids), (split(params), P("dp")))


def decode(model: Any, split: Any, rows: int, length: int) -> Program:
    """Return a decoding step of one token per row, with a cache for `length` tokens."""
    params = parameters(model)
    cache = jax.eval_shape(lambda: model.init_cache(rows, length))

    def step(params: Any, cache: Any, ids: Any, positions: Any) -> Any:
        seen = jnp.ones((rows, length), "int32")
        out = model(ids, seen, positions, params=params, past_key_values=cache)
        return out.logits[:, -1], out.past_key_values

    split_cache = by_name({"*cached_*": P("dp", None, "tp")})(cache)
    return Program(step, MESH, (params, cache, tokens(rows, 1), tokens(rows, 1)), (split(params), split_cache, P("dp"), P("dp")), (P("dp"), split_cache), donate=(1,))  # fmt: skip


def train(model: Any, split: Any, ids: Any, mesh: Any = MESH, rows: Any = "dp") -> Program:
    def loss(params: Any, ids: Any) -> Any:
        return next_token(model(ids, params=params).logits, ids)

    return training(loss, parameters(model), (ids,), mesh, split, (P(rows),))


MISTRAL = partial(llama_model, config=hf.MistralConfig, model=hf.FlaxMistralForCausalLM)
GEMMA = partial(llama_model, config=hf.GemmaConfig, model=hf.FlaxGemmaForCausalLM)

PROGRAMS = {
    "gpt2": lambda small: forward(gpt2_model(small), GPT2, batch(small)),
    "gpt2-decode": lambda small: decode(gpt2_model(small), GPT2, *((4, 16) if small else (16, 1024))),
    "gpt2-train": lambda small: train(gpt2_model(small), GPT2, batch(small)),
    "llama": lambda small: forward(llama_model(small), LLAMA, batch(small, 4, 2048)),
    "llama-decode": lambda small: decode(llama_model(small), LLAMA, *((4, 16) if small else (16, 2048))),
    "llama-fsdp-train": lambda small: train(
        llama_model(small, layers=4), by_size("fsdp", 8), batch(small), {"fsdp": 8}, "fsdp"
    ),
    "llama-fsdp-tp-train": lambda small: train(
        llama_model(small, layers=4), BOTH, batch(small), {"fsdp": 4, "tp": 2}, "fsdp"
    ),
    "mistral": lambda small: forward(MISTRAL(small), LLAMA, batch(small, 4, 2048)),
    "gemma": lambda small: forward(GEMMA(small, head_dim=8 if small else 128), LLAMA, batch(small, 4, 2048)),
}
