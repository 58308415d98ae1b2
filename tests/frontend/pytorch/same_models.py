"""GPT-2, Llama, BERT, T5 and ViT of `transformers` as programs of torch and of JAX, of the same sizes, as files: neither package is needed to plan them.

`python -m tests.frontend.pytorch.same_models torch` writes the `.pt2` files, and with `jax` the texts that JAX lowers, shardings included;
the latter needs a `transformers` that still has its models in Flax.
"""

from __future__ import annotations

import gzip
import sys

from tests.frontend.pytorch.archives import PLACE, save

NAMES = ("gpt2", "llama", "bert", "t5", "vit")
IDS = "i64[8,16]"


def write_torch() -> None:
    """The programs of torch, with weights that are zero: they are planned, not run."""
    import torch
    import transformers as hf

    from meshgen.frontend.torch.live import exported

    common = {"vocab_size": 64, "use_cache": False, "bos_token_id": 1, "eos_token_id": 1}
    llama = {"num_key_value_heads": 4, "max_position_embeddings": 32, "tie_word_embeddings": False}
    layer = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
    models = {
        "gpt2": (hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=2, n_embd=32, n_head=4, n_positions=32, **common)), {"input_ids": IDS}),
        "llama": (hf.LlamaForCausalLM(hf.LlamaConfig(**layer, **llama, **common)), {"input_ids": IDS}),
        "bert": (hf.BertForMaskedLM(hf.BertConfig(vocab_size=64, max_position_embeddings=32, **layer)), {"input_ids": IDS}),
        "t5": (hf.T5ForConditionalGeneration(hf.T5Config(num_layers=1, d_model=32, d_kv=8, d_ff=64, num_heads=4, vocab_size=64, use_cache=False)),
               {"input_ids": IDS, "decoder_input_ids": "i64[8,12]"}),
        "vit": (hf.ViTForImageClassification(hf.ViTConfig(image_size=16, patch_size=4, num_labels=8, **layer)), {"pixel_values": "f32[8,3,16,16]"}),
    }  # fmt: skip
    for name, (model, args) in models.items():
        with torch.no_grad():
            for each in model.parameters():
                each.zero_()
        save(exported(model.eval(), args), f"{name}_same.pt2")


def write_jax() -> None:
    """What JAX lowers the programs of `bench` to, at their small sizes."""
    from bench.models import catalog

    for name in NAMES:
        text = catalog.program(name, True).lowered().as_text()
        (PLACE / f"{name}_same.mlir.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    {"torch": write_torch, "jax": write_jax}[sys.argv[1]]()
