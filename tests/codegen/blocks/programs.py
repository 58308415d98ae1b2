"""Blocks of models in bf16, forward and training step, in JAX.

`python -m tests.codegen.blocks.programs [--large] FOLDER [NAME ...]` writes their MLIR. Weights and activations are
bf16. Norms, softmax, losses, states of scans and Adam's moments are f32, as in practice. A training step returns the
loss, the gradient of the block's input and the updated weights and moments. Small sizes suit the emulated GPU; large
sizes are those of the published models.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from tests.codegen.blocks.layers import adam, attention, experts, layer_norm, rms_norm, rotary, selective_state_space

BF16 = jnp.bfloat16
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Block:
    """A model block. `apply(weights, x)` computes it; `shapes(large)` returns the shapes of `x` and of the weights."""

    apply: Callable[[Any, Any], Any]
    shapes: Callable[[bool], Shapes]

    def text(self, large: bool, train: bool) -> str:
        """Return the StableHLO text of the block, or of its training step if `train`."""
        types = {name: jax.ShapeDtypeStruct(shape, BF16) for name, shape in self.shapes(large).items()}
        x = types.pop("x")
        if not train:
            return jax.jit(self.apply).lower(types, x).as_text()
        moments = {name: jax.ShapeDtypeStruct(weight.shape, jnp.float32) for name, weight in types.items()}
        y = jax.eval_shape(self.apply, types, x)
        return jax.jit(self._step, donate_argnums=(0, 1)).lower(types, (moments, moments), x, y).as_text()

    def _step(self, weights: Any, moments: Any, x: Any, y: Any) -> Any:
        def loss(weights: Any, x: Any) -> Any:
            return jnp.square((self.apply(weights, x) - y).astype(jnp.float32)).mean()

        value, (gradients, to_input) = jax.value_and_grad(loss, (0, 1))(weights, x)
        return value, to_input, *adam(weights, gradients, *moments)


def llama(w: Any, x: Any) -> Any:
    n = rms_norm(x, w["norm1"])
    q, k, v = (jnp.einsum("blw,whd->blhd", n, w[name]) for name in "qkv")
    x = x + jnp.einsum("blhd,hdw->blw", attention(rotary(q), rotary(k), v, causal=True), w["o"])
    n = rms_norm(x, w["norm2"])
    return x + (jax.nn.silu(n @ w["gate"]) * (n @ w["up"])) @ w["down"]


def _grouped_heads(large: bool) -> Shapes:
    length, width, heads, groups = (4096, 4096, 32, 8) if large else (32, 64, 4, 2)
    head = width // heads
    return {"x": (1, length, width), "norm1": (width,), "norm2": (width,), "q": (width, heads, head), "k": (width, groups, head),
            "v": (width, groups, head), "o": (heads, head, width)}  # fmt: skip


def _llama(large: bool) -> Shapes:
    width, hidden = (4096, 14336) if large else (64, 96)
    return {**_grouped_heads(large), "gate": (width, hidden), "up": (width, hidden), "down": (hidden, width)}


def mixtral(w: Any, x: Any) -> Any:
    n = rms_norm(x, w["norm1"])
    q, k, v = (jnp.einsum("blw,whd->blhd", n, w[name]) for name in "qkv")
    x = x + jnp.einsum("blhd,hdw->blw", attention(rotary(q), rotary(k), v, causal=True), w["o"])
    return x + experts(rms_norm(x, w["norm2"]), w)


def _mixtral(large: bool) -> Shapes:
    width, hidden = (4096, 14336) if large else (64, 96)
    return {
        **_grouped_heads(large),
        "router": (width, 8),
        "gate": (8, width, hidden),
        "up": (8, width, hidden),
        "down": (8, hidden, width),
    }


def _transformer(w: Any, x: Any, *, causal: bool) -> Any:
    n = layer_norm(x, w["scale1"], w["shift1"])
    q, k, v = jnp.moveaxis(jnp.einsum("blw,wchd->blchd", n, w["qkv"]) + w["qkv_bias"], 2, 0)
    x = x + jnp.einsum("blhd,hdw->blw", attention(q, k, v, causal=causal), w["o"]) + w["o_bias"]
    n = layer_norm(x, w["scale2"], w["shift2"])
    return x + jax.nn.gelu(n @ w["up"] + w["up_bias"]) @ w["down"] + w["down_bias"]


def gpt2(w: Any, x: Any) -> Any:
    return _transformer(w, x, causal=True)


def _with_biases(rows: tuple[int, int], width: int, heads: int) -> Shapes:
    head, norms = width // heads, dict.fromkeys(("scale1", "shift1", "scale2", "shift2"), (width,))
    return {"x": (*rows, width), **norms, "qkv": (width, 3, heads, head), "qkv_bias": (3, heads, head), "o": (heads, head, width), "o_bias": (width,),
            "up": (width, 4 * width), "up_bias": (4 * width,), "down": (4 * width, width), "down_bias": (width,)}  # fmt: skip


def vit(w: Any, x: Any) -> Any:
    """Embed the patches of an image, apply a transformer block, and return class scores from the mean of the tokens."""
    size = w["patch"].shape[0]
    tokens = jax.lax.conv_general_dilated(
        x, w["patch"], (size, size), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    tokens = _transformer(w, tokens.reshape(x.shape[0], -1, tokens.shape[-1]) + w["places"], causal=False)
    return tokens.mean(1) @ w["head"]


def _vit(large: bool) -> Shapes:
    images, pixels, size, width, heads, classes = (32, 224, 16, 768, 12, 1000) if large else (2, 20, 4, 64, 4, 10)
    patches = (pixels // size) ** 2
    return {**_with_biases((images, patches), width, heads), "x": (images, pixels, pixels, 3), "patch": (size, size, 3, width),
            "places": (patches, width), "head": (width, classes)}  # fmt: skip


def resnet(w: Any, x: Any) -> Any:
    """Apply a ResNet bottleneck that halves the resolution, with batch norms that use the statistics of the batch."""

    def conv(x: Any, name: str, stride: int = 1) -> Any:
        y = jax.lax.conv_general_dilated(
            x, w[name], (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return layer_norm(y, w[name + "_scale"], w[name + "_shift"], dims=(0, 1, 2))

    y = jax.nn.relu(conv(x, "narrow"))
    y = jax.nn.relu(conv(y, "middle", 2))
    return jax.nn.relu(conv(y, "wide") + conv(x, "shortcut", 2))


def _resnet(large: bool) -> Shapes:
    images, pixels, narrow = (32, 56, 128) if large else (2, 8, 16)
    kernels = {"narrow": (1, 1, 2 * narrow, narrow), "middle": (3, 3, narrow, narrow), "wide": (1, 1, narrow, 4 * narrow),
               "shortcut": (1, 1, 2 * narrow, 4 * narrow)}  # fmt: skip
    norms = {f"{name}_{part}": shape[-1:] for name, shape in kernels.items() for part in ("scale", "shift")}
    return {"x": (images, pixels, pixels, 2 * narrow), **kernels, **norms}


def mamba(w: Any, x: Any) -> Any:
    return x + selective_state_space(rms_norm(x, w["norm"]), w)


def _mamba(large: bool) -> Shapes:
    rows, width, states, rank = ((4, 1024), 2048, 16, 128) if large else ((2, 16), 32, 4, 4)
    inner = 2 * width
    return {"x": (*rows, width), "norm": (width,), "in": (width, 2, inner), "taps": (4, inner), "select": (inner, rank + 2 * states),
            "step": (rank, inner), "step_bias": (inner,), "decay": (inner, states), "skip": (inner,), "out": (inner, width)}  # fmt: skip


BLOCKS = {
    "llama": Block(llama, _llama),
    "gpt2": Block(gpt2, lambda large: _with_biases((8, 1024), 768, 12) if large else _with_biases((2, 32), 64, 4)),
    "mixtral": Block(mixtral, _mixtral),
    "vit": Block(vit, _vit),
    "resnet": Block(resnet, _resnet),
    "mamba": Block(mamba, _mamba),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(BLOCKS))
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    for name in options.names:
        for kind, train in (("forward", False), ("train", True)):
            (options.folder / f"{name}_{kind}.mlir").write_text(BLOCKS[name].text(options.large, train))


if __name__ == "__main__":
    main()
