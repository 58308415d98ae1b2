"""GPT-2 and Llama of `transformers` as programs of torch and of JAX, of the same sizes, as files: neither package is needed to plan them.

`python -m tests.frontend.pytorch.same_models torch` writes the `.pt2` files, and with `jax` the texts that JAX lowers, shardings included;
the latter needs a `transformers` that still has its models in Flax.
"""

from __future__ import annotations

import gzip
import sys

from tests.frontend.pytorch.archives import PLACE, save

NAMES = ("gpt2", "llama")


def write_torch() -> None:
    """The programs of torch, with weights that are zero: they are planned, not run."""
    import torch
    import transformers as hf

    from meshgen.frontend.torch.live import exported

    common = {"vocab_size": 64, "use_cache": False, "bos_token_id": 1, "eos_token_id": 1}
    gpt2 = hf.GPT2Config(n_layer=2, n_embd=32, n_head=4, n_positions=32, **common)
    llama = hf.LlamaConfig(num_hidden_layers=1, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=4,
                           max_position_embeddings=32, tie_word_embeddings=False, **common)  # fmt: skip
    for name, model in zip(NAMES, (hf.GPT2LMHeadModel(gpt2), hf.LlamaForCausalLM(llama)), strict=True):
        with torch.no_grad():
            for each in model.parameters():
                each.zero_()
        save(exported(model.eval(), {"input_ids": "i64[8,16]"}), f"{name}_same.pt2")


def write_jax() -> None:
    """What JAX lowers the programs of `bench` to, at their small sizes."""
    from bench.models.decoders import PROGRAMS

    for name in NAMES:
        text = PROGRAMS[name](True).lowered().as_text()
        (PLACE / f"{name}_same.mlir.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    {"torch": write_torch, "jax": write_jax}[sys.argv[1]]()
