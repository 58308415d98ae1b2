"""Encoder models of `transformers`: BERT, T5, Whisper, ViT, CLIP. Forward and training steps split heads and hidden
dims over `tp`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import transformers as hf
from jax.sharding import PartitionSpec as P
from transformers.models.t5 import modeling_flax_t5

from bench.models.program import Program, array, by_name, tokens
from bench.models.training import cross_entropy, training

MESH = {"dp": 2, "tp": 4}
_IN, _OUT = P(None, "tp"), P("tp")
# The first matrix of attention or an MLP is split by columns (heads or hidden dim), the second by rows.
SPLIT = by_name({f"*.{name}.kernel": _IN for name in ("query", "key", "value", "q_proj", "k_proj", "v_proj", "q", "k", "v", "wi", "wi_0", "wi_1", "fc1")}
                | {f"*.{name}.kernel": _IN for name in ("intermediate.dense",)}
                | {f"*.{name}.kernel": _OUT for name in ("o", "wo", "out_proj", "fc2", "output.dense", "self_attention.dense")})  # fmt: skip


class _OlderNumpy:
    """`jax.numpy` with the argument names of `clip` that transformers 4.57 uses and JAX 0.10 no longer has."""

    def __getattr__(self, name: str) -> Any:
        return getattr(jnp, name)

    @staticmethod
    def clip(x: Any, a_min: Any = None, a_max: Any = None) -> Any:
        return jnp.clip(x, a_min, a_max)


modeling_flax_t5.jnp = _OlderNumpy()


def _weights(model: Any, *inputs: Any) -> Any:
    return jax.eval_shape(lambda: model.init_weights(jax.random.key(0), inputs[0] if len(inputs) == 1 else inputs))


def bert(small: bool, trains: bool = False) -> Program:
    """Return the program of BERT. It predicts masked words; the loss is over all positions."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 64, "max_position_embeddings": 32}  # fmt: skip
    model = hf.FlaxBertForMaskedLM(hf.BertConfig(**sizes if small else {}), _do_init=False)
    params, ids = _weights(model, (1, 8)), tokens(8, 16) if small else tokens(32, 512)
    if trains:
        return training(lambda params, ids, labels: cross_entropy(model(ids, params=params).logits, labels),
                        params, (ids, ids), MESH, SPLIT, (P("dp"), P("dp")))  # fmt: skip
    return Program(lambda params, ids: model(ids, params=params).logits, MESH, (params, ids), (SPLIT(params), P("dp")))


def t5(small: bool, trains: bool = False) -> Program:
    sizes = {"num_layers": 1, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_heads": 4, "vocab_size": 64} if small else {"num_layers": 12, "d_model": 768, "d_ff": 3072, "num_heads": 12}  # fmt: skip
    model = hf.FlaxT5ForConditionalGeneration(hf.T5Config(**sizes), _do_init=False)
    params = _weights(model, (1, 8))
    ids, outputs = (tokens(8, 16), tokens(8, 12)) if small else (tokens(16, 512), tokens(16, 256))

    def logits(params: Any, ids: Any, outputs: Any) -> Any:
        return model(ids, decoder_input_ids=outputs, params=params).logits

    if trains:
        return training(lambda params, ids, outputs: cross_entropy(logits(params, ids, outputs)[:, :-1], outputs[:, 1:]),
                        params, (ids, outputs), MESH, SPLIT, (P("dp"), P("dp")))  # fmt: skip
    return Program(logits, MESH, (params, ids, outputs), (SPLIT(params), P("dp"), P("dp")))


def whisper(small: bool) -> Program:
    """Return the program of Whisper, which transcribes 30 s of speech. It has the layer sizes of whisper-small."""
    layers, width = (1, 32) if small else (12, 768)
    sizes: dict[str, Any] = {f"{side}_{name}": value for side in ("encoder", "decoder")
                             for name, value in (("layers", layers), ("attention_heads", 4 if small else 12), ("ffn_dim", 4 * width))}  # fmt: skip
    if small:
        sizes |= {"num_mel_bins": 8, "vocab_size": 64, "max_source_positions": 16, "max_target_positions": 16}
        sizes |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = hf.WhisperConfig(**sizes, d_model=width)
    model = hf.FlaxWhisperForConditionalGeneration(config, _do_init=False)
    sound = array(8, config.num_mel_bins, 2 * config.max_source_positions)
    params = _weights(model, (1, *sound.shape[1:]))
    ids = tokens(8, 12 if small else 256)

    def logits(params: Any, sound: Any, ids: Any) -> Any:
        return model(sound, decoder_input_ids=ids, params=params).logits

    return Program(logits, MESH, (params, sound, ids), (SPLIT(params), P("dp"), P("dp")))


def vit(small: bool, trains: bool = False) -> Program:
    """Return the program of ViT-B/16 on images of 224 x 224."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "image_size": 16, "patch_size": 4} if small else {}  # fmt: skip
    config = hf.ViTConfig(**sizes, num_labels=8 if small else 1000)
    model = hf.FlaxViTForImageClassification(config, _do_init=False)
    shape = (config.num_channels, config.image_size, config.image_size)
    params, images = _weights(model, (1, *shape[1:], shape[0])), array(8 if small else 64, *shape)
    mesh = {"dp": 4, "tp": 2}
    if trains:
        return training(lambda params, images, labels: cross_entropy(model(images, params=params).logits, labels),
                        params, (images, array(*images.shape[:1], dtype="int32")), mesh, SPLIT, (P("dp"), P("dp")))  # fmt: skip
    return Program(
        lambda params, images: model(images, params=params).logits, mesh, (params, images), (SPLIT(params), P("dp"))
    )


def clip(small: bool) -> Program:
    """Return the program of CLIP: the similarity of each text to each image, which is a matmul of their embeddings."""
    layers = (
        {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4} if small else {}
    )
    text = layers | {"vocab_size": 64, "max_position_embeddings": 16, "eos_token_id": 7} if small else {}
    picture = layers | {"image_size": 16, "patch_size": 8} if small else {}
    config = hf.CLIPConfig(text_config=text, vision_config=picture, projection_dim=16 if small else 512)
    model = hf.FlaxCLIPModel(config, _do_init=False)
    size, length = config.vision_config.image_size, config.text_config.max_position_embeddings
    params = _weights(model, (1, length), (1, size, size, 3))
    rows = 8 if small else 64

    def similar(params: Any, ids: Any, images: Any) -> Any:
        return model(ids, images, params=params).logits_per_text

    return Program(
        similar, MESH, (params, tokens(rows, length), array(rows, 3, size, size)), (SPLIT(params), P("dp"), P("dp"))
    )


PROGRAMS = {
    "bert": bert,
    "bert-train": lambda small: bert(small, True),
    "t5": t5,
    "t5-train": lambda small: t5(small, True),
    "whisper": whisper,
    "vit": vit,
    "vit-train": lambda small: vit(small, True),
    "clip": clip,
}
