"""Models for both torch and JAX with the same sizes. They are stored as files, so that tests can plan them without
either package.

GPT-2, Llama, BERT, T5, ViT and ResNet come from `transformers`; Mixtral, Mamba and a U-Net are written in
`bench.models` for both. `python -m tests.frontend.pytorch.same_models torch NAME...` writes `.pt2` files. With `jax`
instead of `torch` it writes the texts that JAX lowers, with shardings; this needs a version of `transformers` that
still has Flax models.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import replace
from typing import Any

from tests.frontend.pytorch.archives import DATA_FOLDER, save

OF_BENCH = {"mixtral": "torch-mixtral", "mamba": "torch-mamba-scan", "unet": "torch-unet"}
NAMES = ("gpt2", "llama", "bert", "t5", "vit", "resnet", *OF_BENCH)
IDS = "i64[8,16]"


def _of_transformers() -> dict[str, tuple[Any, dict[str, str]]]:
    """Return the models from `transformers` by name, each with the types of its arguments."""
    import transformers as hf

    common = {"vocab_size": 64, "use_cache": False, "bos_token_id": 1, "eos_token_id": 1}
    llama = {"num_key_value_heads": 4, "max_position_embeddings": 32, "tie_word_embeddings": False}
    layer = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    return {
        "gpt2": (hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=2, n_embd=32, n_head=4, n_positions=32, **common)), {"input_ids": IDS}),
        "llama": (hf.LlamaForCausalLM(hf.LlamaConfig(**layer, **llama, **common)), {"input_ids": IDS}),
        "bert": (hf.BertForMaskedLM(hf.BertConfig(vocab_size=64, max_position_embeddings=32, **layer)), {"input_ids": IDS}),
        "t5": (hf.T5ForConditionalGeneration(hf.T5Config(num_layers=1, d_model=32, d_kv=8, d_ff=64, num_heads=4, vocab_size=64, use_cache=False)),
               {"input_ids": IDS, "decoder_input_ids": "i64[8,12]"}),
        "vit": (hf.ViTForImageClassification(hf.ViTConfig(image_size=16, patch_size=4, num_labels=8, **layer)), {"pixel_values": "f32[8,3,16,16]"}),
        "resnet": (hf.ResNetForImageClassification(hf.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32], depths=[1, 1], num_labels=8)),
                   {"pixel_values": "f32[16,3,32,32]"}),
    }  # fmt: skip


def write_torch(*names: str) -> None:
    """Write the torch programs. Their weights are zero, because tests plan the programs but do not execute them."""
    import torch

    from bench.models import catalog
    from meshgen.frontend.torch.export import exported

    models = _of_transformers()
    for name, of_bench in OF_BENCH.items():
        program = catalog.program(of_bench, True)
        models[name] = program.model.to_empty(device="cpu"), dict(program.args)
    for name in names or NAMES:
        model, args = models[name]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        save(exported(model.eval(), args), f"{name}_same.pt2")


def write_jax(*names: str) -> None:
    """Write the texts to which JAX lowers the programs of `bench` at small sizes. The images of ResNet are sharded by
    rows, as in torch.
    """
    from jax.sharding import PartitionSpec as P

    from bench.models import catalog

    for name in names or NAMES:
        program = catalog.program(name, True)
        if name == "resnet":
            program = replace(program, in_specs=(P(), P(None, None, "dp")))
        (DATA_FOLDER / f"{name}_same.mlir.gz").write_bytes(
            gzip.compress(program.lowered().as_text().encode(), 9, mtime=0)
        )


if __name__ == "__main__":
    {"torch": write_torch, "jax": write_jax}[sys.argv[1]](*sys.argv[2:])
