"""Small models in the style of ONNX exporters, shared by several tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
RANDOM = np.random.default_rng(0)
KINDS = {
    "f32": TensorProto.FLOAT,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "i1": TensorProto.BOOL,
    "ui8": TensorProto.UINT8,
}


class Builder:
    """A graph under construction: `b("MatMul", x, w)` appends a node and returns the name of its result."""

    def __init__(self, scope: str = "") -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.scope = scope

    def __call__(self, op: str, *operands: str, results: int = 1, domain: str = "", **attributes: Any) -> Any:
        index = len(self.nodes)
        outs = [f"{op.lower()}_{index}" + (f".{n}" if n else "") for n in range(results)]
        name = f"{self.scope}/{op}"
        count = sum(node.name.split("_")[0] == name for node in self.nodes)
        name += f"_{count}" if count else ""
        self.nodes.append(helper.make_node(op, list(operands), outs, name=name, domain=domain, **attributes))
        return outs[0] if results == 1 else outs

    def weight(self, name: str, *shape: int, around: float = 0.0) -> str:
        """Add a named weight, small enough to keep activations near 1."""
        scale = 1 / np.sqrt(shape[0]) if len(shape) > 1 else 0.1
        return self.array(name, (around + RANDOM.standard_normal(shape) * scale).astype(np.float32))

    def array(self, name: str, value: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def ints(self, *numbers: int) -> str:
        return self.array(f"ints_{len(self.weights)}", np.asarray(numbers, np.int64))

    def number(self, value: float) -> str:
        return self.array(f"number_{len(self.weights)}", np.float32(value))

    def model(self, inputs: Sequence[tuple[str, str, Sequence[Any]]], outputs: Sequence[tuple[str, str]], name: str = "model", opset: int = 18) -> Any:  # fmt: skip
        """Return the model with inputs by name, type and shape, and outputs by name and type."""
        ins = [helper.make_tensor_value_info(value_name, KINDS[dtype], shape) for value_name, dtype, shape in inputs]
        outs = [helper.make_tensor_value_info(value_name, KINDS[dtype], None) for value_name, dtype in outputs]
        graph = helper.make_graph(self.nodes, name, ins, outs, self.weights)
        domains = {node.domain for node in self.nodes} - {""}
        opsets = [
            helper.make_opsetid("", opset),
            *(helper.make_opsetid(value_name, 1) for value_name in sorted(domains)),
        ]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def mlp(batch: Any = "batch", hidden: int = 64) -> Any:
    """Return a model of two layers, with the value names that PyTorch's exporter writes."""
    b = Builder("/layers.0/up")
    h = b("Gemm", "x", b.weight("layers.0.up.weight", hidden, 32), b.weight("layers.0.up.bias", hidden), transB=1)
    b.scope = "/layers.0/act"
    h = b("Relu", h)
    b.scope = "/layers.0/down"
    y = b("Gemm", h, b.weight("layers.0.down.weight", 32, hidden), b.weight("layers.0.down.bias", 32), transB=1)
    return b.model([("x", "f32", [batch, 32])], [(y, "f32")], "mlp")


def _norm(b: Builder, x: str, name: str, width: int) -> str:
    return b("LayerNormalization", x, b.weight(f"{name}.weight", width, around=1), b.weight(f"{name}.bias", width))


def _linear(b: Builder, x: str, name: str, ins: int, outs: int) -> str:
    return b("Add", b("MatMul", x, b.weight(f"{name}.weight", ins, outs)), b.weight(f"{name}.bias", outs))


def _heads(b: Builder, x: str, like: str, count: int, order: Sequence[int]) -> str:
    """Append a reshape of [b, s, h * d] to [b, h, s, d]. As in exported models, the target shape is computed from the
    shape of the operand.
    """
    shape = b("Shape", like)
    sizes = [b("Gather", shape, b.array(f"at_{len(b.weights)}", np.int64(n)), axis=0) for n in (0, 1)]
    target_shape = b("Concat", *(b("Unsqueeze", size, b.ints(0)) for size in sizes), b.ints(count), b.ints(-1), axis=0)
    return b("Transpose", b("Reshape", x, target_shape), perm=list(order))


def _attention(b: Builder, x: str, name: str, width: int, heads: int, mask: Any) -> str:
    """Append attention in the primitive ops that exporters write. `mask` appends the masking of the scores."""
    joint = _linear(b, x, f"{name}.qkv", width, 3 * width)
    projections = b("Split", joint, b.ints(width, width, width), results=3, axis=2)
    q, k, v = (_heads(b, projection, x, heads, (0, 2, 1, 3)) for projection in projections)
    scores = b("Div", b("MatMul", q, b("Transpose", k, perm=[0, 1, 3, 2])), b.number((width // heads) ** 0.5))
    weights = b("Softmax", mask(scores), axis=-1)
    mixed = b("Transpose", b("MatMul", weights, v), perm=[0, 2, 1, 3])
    return _linear(b, b("Reshape", mixed, b.ints(0, 0, width)), f"{name}.proj", width, width)


def gpt2(layers: int = 2, width: int = 32, heads: int = 4, rows: int = 8, vocabulary: int = 64) -> Any:
    """Return a decoder with tanh GELU. Its causal mask is a slice of a buffer."""
    b = Builder()
    positions = b("Range", b.array("first", np.int64(0)), b("Gather", b("Shape", "ids"), b.array("second", np.int64(1)), axis=0), b.array("step", np.int64(1)))  # fmt: skip
    x = b("Add", b("Gather", b.weight("wte.weight", vocabulary, width), "ids"), b("Gather", b.weight("wpe.weight", 2 * rows, width), positions))  # fmt: skip
    buffer = b.array("causal", np.tril(np.ones((1, 1, 2 * rows, 2 * rows), np.bool_)))

    def mask(scores: str) -> str:
        cut = b("Slice", buffer, b.ints(0, 0), b.ints(rows, rows), b.ints(2, 3))
        return b("Where", cut, scores, b.number(-1e9))

    for n in range(layers):
        b.scope = f"/h.{n}/attn"
        x = b("Add", x, _attention(b, _norm(b, x, f"h.{n}.ln_1", width), f"h.{n}.attn", width, heads, mask))
        b.scope = f"/h.{n}/mlp"
        up = _linear(b, _norm(b, x, f"h.{n}.ln_2", width), f"h.{n}.mlp.up", width, 4 * width)
        cubed = b("Mul", b.number(0.044715), b("Pow", up, b.number(3.0)))
        inner = b("Tanh", b("Mul", b.number(0.7978845608), b("Add", up, cubed)))
        gelu = b("Mul", b("Mul", b.number(0.5), up), b("Add", b.number(1.0), inner))
        x = b("Add", x, _linear(b, gelu, f"h.{n}.mlp.down", 4 * width, width))
    b.scope = "/lm_head"
    logits = b("MatMul", _norm(b, x, "ln_f", width), b.weight("lm_head.weight", width, vocabulary))
    return b.model([("ids", "i64", ["batch", rows])], [(logits, "f32")], "gpt2")


def bert(layers: int = 2, width: int = 32, heads: int = 4, rows: int = 8, vocabulary: int = 64) -> Any:
    """Return an encoder with erf GELU. A mask of the valid tokens is added to its scores."""
    b = Builder()
    x = b("Gather", b.weight("embeddings.word.weight", vocabulary, width), "ids")
    x = _norm(b, b("Add", x, b.weight("embeddings.place.weight", rows, width)), "embeddings.norm", width)
    wide = b("Unsqueeze", b("Unsqueeze", b("Cast", "mask", to=TensorProto.FLOAT), b.ints(1)), b.ints(2))
    added = b("Mul", b("Sub", b.number(1.0), wide), b.number(-1e4))
    for n in range(layers):
        b.scope = f"/encoder/layer.{n}/attention"
        mixed = _attention(b, x, f"encoder.layer.{n}.attention", width, heads, lambda scores: b("Add", scores, added))
        x = _norm(b, b("Add", x, mixed), f"encoder.layer.{n}.norm_1", width)
        b.scope = f"/encoder/layer.{n}/mlp"
        up = _linear(b, x, f"encoder.layer.{n}.up", width, 4 * width)
        share = b("Add", b("Erf", b("Div", up, b.number(2**0.5))), b.number(1.0))
        gelu = b("Mul", b("Mul", up, share), b.number(0.5))
        x = _norm(b, b("Add", x, _linear(b, gelu, f"encoder.layer.{n}.down", 4 * width, width)), f"encoder.layer.{n}.norm_2", width)  # fmt: skip
    return b.model([("ids", "i64", ["batch", rows]), ("mask", "i64", ["batch", rows])], [(x, "f32")], "bert")


def resnet(blocks: int = 2, width: int = 8, size: int = 16) -> Any:
    """Return a convolutional network with batch norms, residual connections, pooling and a classifier."""
    b = Builder()

    def conv(x: str, name: str, ins: int, outs: int, taps: int, stride: int = 1) -> str:
        kernel = b.array(f"{name}.weight", (RANDOM.standard_normal((outs, ins, taps, taps)) / taps / ins**0.5).astype(np.float32))  # fmt: skip
        x = b("Conv", x, kernel, kernel_shape=[taps, taps], strides=[stride] * 2, pads=[taps // 2] * 4)
        spread = b.array(f"{name}.bn.var", RANDOM.uniform(0.5, 1.5, outs).astype(np.float32))
        numbers = [
            b.weight(f"{name}.bn.{statistic}", outs, around=statistic == "scale")
            for statistic in ("scale", "bias", "mean")
        ]
        return b("BatchNormalization", x, *numbers, spread)

    x = b("Relu", conv("image", "stem", 3, width, 7, 2))
    x = b("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for n in range(blocks):
        b.scope = f"/layer{n}"
        ins, outs = width * 2 ** max(n - 1, 0), width * 2**n
        inner = b("Relu", conv(x, f"layer{n}.conv1", ins, outs, 3, 1 + (n > 0)))
        inner = conv(inner, f"layer{n}.conv2", outs, outs, 3)
        x = b("Relu", b("Add", inner, x if n == 0 else conv(x, f"layer{n}.down", ins, outs, 1, 2)))
    flat = b("Flatten", b("GlobalAveragePool", x))
    y = b("Gemm", flat, b.weight("fc.weight", 10, width * 2 ** (blocks - 1)), b.weight("fc.bias", 10), transB=1)
    return b.model([("image", "f32", ["batch", 3, size, size])], [(y, "f32")], "resnet")


def lstm(rows: int = 6, width: int = 16) -> Any:
    """Return an LSTM over embedded tokens, with a classifier of its last state."""
    b = Builder()
    x = b("Transpose", b("Gather", b.weight("embed.weight", 32, width), "ids"), perm=[1, 0, 2])
    weights = [b.array(f"lstm.{letter}", (RANDOM.standard_normal((1, 4 * width, width)) / width**0.5).astype(np.float32)) for letter in "wr"]  # fmt: skip
    bias = b.array("lstm.b", RANDOM.standard_normal((1, 8 * width)).astype(np.float32) / 4)
    _, last, _ = b("LSTM", x, *weights, bias, results=3, hidden_size=width)
    y = b("Gemm", b("Squeeze", last, b.ints(0)), b.weight("head.weight", width, 4))
    return b.model([("ids", "i64", ["batch", rows])], [(y, "f32")], "lstm")


def reference(model: Any, *arrays: Array) -> list[Array]:
    """Return the results of the model by the reference implementation in the `onnx` package."""
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in model.graph.input]
    return list(ReferenceEvaluator(model).run(None, dict(zip(names, arrays, strict=True))))


def save(model: Any, path: Any, **options: Any) -> str:
    onnx.save(model, str(path), **options)
    return str(path)


def mlp_of(path: str) -> Any:
    """Return the model of a file."""
    return onnx.load(path)


def without_input(model: Any) -> Any:
    """Return the model with its last input removed, so that the initializer of the same name is a constant."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.input[-1]
    return changed
