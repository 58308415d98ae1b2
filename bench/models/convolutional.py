"""Convolutional networks over images: ResNet-50 of `transformers` with batch norms, and the U-Net of a diffusion model
with group norms.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import transformers as hf
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, array, by_name, whole
from bench.models.training import OPTIMIZER, cross_entropy, training


def resnet(small: bool, trains: bool = False) -> Program:
    """Return the program of data-parallel ResNet. The training step normalizes over the global batch. It returns
    running means in addition to the parameters.
    """
    sizes = (
        {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 1], "num_labels": 8}
        if small
        else {"num_labels": 1000}
    )
    model = hf.FlaxResNetForImageClassification(hf.ResNetConfig(**sizes), input_shape=(1, 32, 32, 3), _do_init=False)
    variables = jax.eval_shape(lambda: model.init_weights(jax.random.key(0), (1, 32, 32, 3)))
    rows, side = (16, 32) if small else (256, 224)
    images, labels = array(rows, 3, side, side), array(rows, dtype="int32")
    mesh, optimizer = {"dp": 8}, optax.sgd(0.1, momentum=0.9)
    if not trains:
        return Program(
            lambda variables, images: model(images, params=variables).logits, mesh, (variables, images), (P(), P("dp"))
        )

    def step(variables: Any, state: Any, images: Any, labels: Any) -> Any:
        def loss(params: Any) -> Any:
            out, seen = model(images, params=variables | {"params": params}, train=True)
            return cross_entropy(out.logits, labels), seen["batch_stats"]

        (value, means), gradients = jax.value_and_grad(loss, has_aux=True)(variables["params"])
        updates, state = optimizer.update(gradients, state)
        return {"params": optax.apply_updates(variables["params"], updates), "batch_stats": means}, state, value

    state = jax.eval_shape(optimizer.init, variables["params"])
    return Program(step, mesh, (variables, state, images, labels), (P(), P(), P("dp"), P("dp")), P(), donate=(0, 1))


class Residual(nn.Module):
    """A residual block: two convolutions with group norms. The time embedding is added between the convolutions."""

    channels: int

    @nn.compact
    def __call__(self, x: Any, time: Any) -> Any:
        y = nn.Conv(self.channels, (3, 3), name="first")(nn.silu(nn.GroupNorm(8)(x)))
        y = y + nn.Dense(self.channels, name="time")(nn.silu(time))[:, None, None]
        y = nn.Conv(self.channels, (3, 3), name="second")(nn.silu(nn.GroupNorm(8)(y)))
        return y + (x if x.shape[-1] == self.channels else nn.Conv(self.channels, (1, 1), name="skip")(x))


class Attention(nn.Module):
    """Self-attention among the pixels of an image, then cross-attention from the pixels to the prompt."""

    heads: int = 8

    @nn.compact
    def __call__(self, x: Any, prompt: Any) -> Any:
        rows, height, width, channels = x.shape
        y = nn.GroupNorm(8)(x).reshape(rows, height * width, channels)
        y = y + nn.MultiHeadDotProductAttention(self.heads, name="own")(nn.LayerNorm()(y))
        y = y + nn.MultiHeadDotProductAttention(self.heads, name="cross")(nn.LayerNorm()(y), prompt)
        y = y + nn.Dense(channels, name="down")(nn.gelu(nn.Dense(4 * channels, name="up")(nn.LayerNorm()(y))))
        return x + y.reshape(x.shape)


class UNet(nn.Module):
    """Convolutions over ever smaller images with more channels, then back to the original size, with skip connections."""

    channels: tuple[int, ...]
    blocks: int

    @nn.compact
    def __call__(self, x: Any, time: Any, prompt: Any) -> Any:
        wide = 4 * self.channels[0]
        rates = jnp.exp(-jnp.arange(self.channels[0] // 2) * (jnp.log(1e4) / (self.channels[0] // 2)))
        angles = time[:, None] * rates
        time = nn.Dense(wide)(nn.silu(nn.Dense(wide)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))))
        x = nn.Conv(self.channels[0], (3, 3))(x)
        seen = [x]
        for level, channels in enumerate(self.channels):
            for _ in range(self.blocks):
                x = Residual(channels)(x, time)
                x = Attention()(x, prompt) if level else x
                seen.append(x)
            if level + 1 < len(self.channels):
                x = nn.Conv(channels, (3, 3), (2, 2))(x)
                seen.append(x)
        x = Residual(self.channels[-1])(Attention()(Residual(self.channels[-1])(x, time), prompt), time)
        for level, channels in reversed([*enumerate(self.channels)]):
            for _ in range(self.blocks + 1):
                x = Residual(channels)(jnp.concatenate([x, seen.pop()], -1), time)
                x = Attention()(x, prompt) if level else x
            if level:
                rows, height, width, _ = x.shape
                x = nn.Conv(channels, (3, 3))(jax.image.resize(x, (rows, 2 * height, 2 * width, channels), "nearest"))
        return nn.Conv(4, (3, 3))(nn.silu(nn.GroupNorm(8)(x)))


def unet(small: bool, trains: bool = False) -> Program:
    """Return the program of latent diffusion, which predicts the noise of an image from a time and a prompt. Heads and
    hidden dims are split over `tp`.
    """
    model = UNet((16, 32), 1) if small else UNet((320, 640, 1280), 2)
    rows, side, words, width = (8, 8, 4, 16) if small else (16, 64, 77, 768)
    inputs = array(rows, side, side, 4), array(rows), array(rows, words, width)
    params = jax.eval_shape(model.init, jax.random.key(0), *inputs)
    split = by_name({"*.query.kernel": P(None, "tp"), "*.key.kernel": P(None, "tp"), "*.value.kernel": P(None, "tp"), "*.out.kernel": P("tp"),
                     "*.up.kernel": P(None, "tp"), "*.down.kernel": P("tp")})  # fmt: skip
    mesh, rows_split = {"dp": 4, "tp": 2}, P("dp")
    if not trains:
        return Program(model.apply, mesh, (params, *inputs), (split(params), *[rows_split] * 3))

    def loss(params: Any, x: Any, time: Any, prompt: Any, noise: Any) -> Any:
        return ((model.apply(params, x, time, prompt) - noise) ** 2).mean()

    return training(loss, params, (*inputs, inputs[0]), {"dp": 8}, whole, (rows_split,) * 4, OPTIMIZER)


PROGRAMS = {
    "resnet": resnet,
    "resnet-train": lambda small: resnet(small, True),
    "unet": unet,
    "unet-train": lambda small: unet(small, True),
}
