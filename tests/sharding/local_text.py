"""Per-device programs as lines of text, and checks of passes on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Module
from meshgen.mlir.text import parse_text
from meshgen.ops.classes import COMMUNICATING
from meshgen.ops.types.inference import verify_node
from meshgen.runtime.simulate import simulate
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.spec import P, fit

Pass = Callable[[Module], Module]
# sizes of the local arguments; `w` and `c` are replicated
ARGUMENT_SIZES = {"p": "8x12", "q": "8x12", "w": "12x4", "c": "8x12"}


LOCAL = ("all_slice",)


def program(body: str, result: str, **argument_sizes: str) -> Module:
    """Return a per-device program. Its global result is the concatenation of the results of all devices."""
    kinds = {name: f"tensor<{size}xf32>" for name, size in (ARGUMENT_SIZES | argument_sizes).items()}
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in kinds.items())
    lines = body.strip().splitlines()
    text = "\n".join(["shard.grid @g(shape = 4x2) {axis_names = [\"x\", \"y\"]}", f"func.func @f({arguments}) -> tensor<{result}> {{", *lines,
                      f"  return %r : tensor<{result}>", "}"])  # fmt: skip
    module = parse_text(text)
    specs = [(("x", "y"),) if name in ("p", "q") else ((),) for name in kinds]
    shardings = [fit(P(*end), value.type.rank) for end, value in zip(specs, module.graph.inputs, strict=True)]
    types = [
        value.type.with_shape(size * module.mesh.group_size(axes) for size, axes in zip(value.type.sizes, sharding.dims, strict=True))
        for value, sharding in zip(module.graph.inputs, shardings, strict=True)
    ]  # fmt: skip
    return replace(module, in_types=types, in_shardings=shardings)


def counts(graph: Graph) -> Counter[str]:
    """Return the number of collectives and local slices by op name. A node in a loop body counts once."""
    op_counts = Counter(node.op for node in graph.nodes if node.op in (*COMMUNICATING, *LOCAL))
    return sum((counts(region) for node in graph.nodes for region in node.regions), op_counts)


def run(module: Module, pass_: Pass, rtol: float = 0.0) -> Module:
    """Run a pass and check its result: valid nodes, equal results on every rank, no additional bytes."""
    after = pass_(module)
    assert not [fault for node in after.graph.nodes for fault in verify_node(node, after.mesh)]
    assert total_bytes(after.graph, after.mesh) <= total_bytes(module.graph, module.mesh)
    args = [
        np.random.default_rng(n).integers(-2, 3, kind.sizes, np.int8).astype(kind.numpy_dtype)
        for n, kind in enumerate(module.in_types)
    ]
    for left, right in zip(*(simulate(m, args) for m in (module, after)), strict=True):
        np.testing.assert_allclose(left.astype(np.float32), right.astype(np.float32), rtol=rtol, atol=0)
    return after


AR = "shard.all_reduce {} on @g grid_axes = {} : tensor<{}xf32> -> tensor<{}xf32>"


def ar(value: str, size: str = "8x12", axes: str = "[0]", kind: str = "") -> str:
    return f"shard.all_reduce {value} on @g grid_axes = {axes} {f'reduction = {kind} ' if kind else ''}: tensor<{size}xf32> -> tensor<{size}xf32>"


def ag(value: str, size: str, to: str, dim: int, axes: str = "[0]") -> str:
    return f"shard.all_gather {value} on @g grid_axes = {axes} gather_axis = {dim} : tensor<{size}xf32> -> tensor<{to}xf32>"


def cut(value: str, size: str, to: str, dim: int, axes: str = "[0]") -> str:
    return (
        f"shard.all_slice {value} on @g grid_axes = {axes} slice_axis = {dim} : tensor<{size}xf32> -> tensor<{to}xf32>"
    )


def rs(value: str, size: str, to: str, dim: int, axes: str = "[0]") -> str:
    return f"shard.reduce_scatter {value} on @g grid_axes = {axes} scatter_axis = {dim} : tensor<{size}xf32> -> tensor<{to}xf32>"


def a2a(value: str) -> str:
    return f"shard.all_to_all {value} on @g grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<8x12xf32> -> tensor<2x48xf32>"


def op(name: str, *values: str, size: str = "8x12") -> str:
    return f"stablehlo.{name} {', '.join(values)} : tensor<{size}xf32>"


def transpose_line(value: str, size: str, to: str) -> str:
    return f"stablehlo.transpose {value}, dims = [1, 0] : (tensor<{size}xf32>) -> tensor<{to}xf32>"


def row_sums(value: str, size: str, to: str, kind: str = "add", start: str = "0.0") -> str:
    return f"stablehlo.reduce({value} init: %z) applies stablehlo.{kind} across dimensions = [1] : (tensor<{size}xf32>, tensor<f32>) -> tensor<{to}xf32>"


ZERO = "  %z = stablehlo.constant dense<0.0> : tensor<f32>\n"


ONE = ZERO.replace("0.0", "1.0")


HALVES = "  %h = stablehlo.constant dense<0.5> : tensor<8x12xf32>\n"


def lines(*texts: str) -> str:
    """Return the lines `%a = TEXT`, `%b = TEXT`, ... for the given texts; the last line defines `%r`, the result."""
    names = ["a", "b", "d", "e", "f"][: len(texts) - 1] + ["r"]
    return "\n".join(f"  %{name} = {text}" for name, text in zip(names, texts, strict=True))


def dot(left: str, right: str, size: str, other: str, to: str) -> str:
    return f"stablehlo.dot_general {left}, {right}, contracting_dims = [1] x [0] : (tensor<{size}xf32>, tensor<{other}xf32>) -> tensor<{to}xf32>"
