"""Builder of programs at stage materialize: every value gets its sharding where it is defined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value
from meshgen.ir.notes import Notes
from meshgen.mesh import Mesh, make_mesh
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.simulate import simulate
from meshgen.sharding.partition import partition
from meshgen.spec import P, Sharding, fit


def tensor(text: str) -> TensorType:
    """Return the type for text such as `f32[10,3]`."""
    dtype, _, sizes = text.rstrip("]").partition("[")
    return TensorType(tuple(int(n) for n in sizes.split(",") if n), dtype)


class Program:
    """A module under construction; `spec` is the sharding of each new value."""

    def __init__(self, **axes: int) -> None:
        self.mesh: Mesh = make_mesh(axes)
        self.graph = Graph("main")

    def input(self, text: str, spec: Sharding | None = None) -> Value:
        kind = tensor(text)
        value = Value(kind, f"arg{len(self.graph.inputs)}", fit(spec or P(), kind.rank))
        self.graph.inputs.append(value)
        return value

    def add(self, op: str, operands: Sequence[Value], text: str, spec: Sharding | None = None, **attrs: Any) -> Value:
        """Append a node and return its result; `why` becomes the node's reason."""
        kind, notes = tensor(text), Notes(attrs.pop("why", ""))
        value = self.graph.add(op, operands, [kind], attrs, notes=notes).result
        value.sharding = fit(spec or P(), kind.rank)
        return value

    def constant(self, value: Any, dtype: str, spec: Sharding | None = None) -> Value:
        array = np.asarray(value, DTYPES[dtype])
        return self.add("constant", [], f"{dtype}[{','.join(map(str, array.shape))}]", spec, value=array)

    def local(self, *outputs: Value, arguments: str = "local") -> Module:
        graph = replace(self.graph, outputs=list(outputs))
        return partition(Module(self.mesh, graph, "materialize"), arguments)

    def run(self, args: Sequence[Any], *outputs: Value, arguments: str = "local") -> list[np.ndarray[Any, Any]]:
        return simulate(self.local(*outputs, arguments=arguments), args)


def assert_same_as_one_device(p: Program, args: list[Any], *outputs: Value) -> None:
    """Assert that all ranks together compute the same results as one device."""
    p.graph.outputs = list(outputs)
    for result, expected in zip(p.run(args, *outputs), evaluate(p.graph, args), strict=True):
        np.testing.assert_array_equal(result, expected)


def ops(module: Module) -> list[str]:
    return [node.op for node in module.graph.nodes]


def node_of(module: Module, op: str) -> Node:
    return next(node for node in module.graph.nodes if node.op == op)


def whole_numbers(text: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return small nonzero integers in the dtype of the type: float sums and products of a few of them are exact."""
    kind = tensor(text)
    signs = np.where(np.random.default_rng([seed, 1]).integers(0, 2, kind.sizes), 1, -1)
    return np.asarray(np.random.default_rng(seed).integers(1, 5, kind.sizes) * signs).astype(DTYPES[kind.dtype])
