"""Handwritten `fuse`-stage modules and costs for tests of scheduling, packaging and running."""

from __future__ import annotations

import numpy as np

from meshgen.codegen.scheduling.timeline import Costs
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.ir.notes import Notes
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import P, Sharding


def f32(*shape: int) -> TensorType:
    return TensorType(shape, "f32")


def costs(kernel: float = 1.0, collective: float = 3.0) -> Costs:
    return Costs(lambda body: kernel, lambda called: collective, lambda nbytes: 0.0)


def body(name: str, op: str, types: list[TensorType], result: TensorType) -> Graph:
    """Return a kernel body of one element-wise op."""
    graph = Graph(name, [Value(t, f"a{i}") for i, t in enumerate(types)])
    graph.outputs = [graph.add(op, graph.inputs, [result]).result]
    return graph


def module(graph: Graph, kernels: dict[str, Graph], mesh: Mesh, in_specs: list[Sharding], out_specs: list[Sharding],
           in_shapes: list[tuple[int, ...]], out_shapes: list[tuple[int, ...]]) -> Module:  # fmt: skip
    return Module(
        mesh, graph, "fuse", "main",
        in_types=[v.type.with_shape(s) for v, s in zip(graph.inputs, in_shapes, strict=True)],
        out_types=[v.type.with_shape(s) for v, s in zip(graph.outputs, out_shapes, strict=True)],
        in_shardings=in_specs, out_shardings=out_specs, kernels=kernels,
    )  # fmt: skip


def layers(count: int = 4, rows: int = 10, parts: int = 4) -> Module:
    """Return a data-parallel chain h = tanh(h), where each h is also all-reduced beside the chain like a gradient.

    Rows are sharded unevenly if `parts` does not divide them. Outputs: h, then every reduced value.
    """
    mesh = make_mesh({"x": parts})
    local = f32(-(-rows // parts), 3)
    kernels = {"tanh": body("tanh", "tanh", [local], local), "add": body("add", "add", [local, local], local)}
    graph = Graph("main", [Value(local, "h")])
    h, reduced = graph.inputs[0], list[Value]()
    for _ in range(count):
        h = graph.add("kernel", [h], [local], {"kernel": "tanh"}).result
        r = graph.add("all_reduce", [h], [local], {"axes": ("x",), "kind": "sum"}, notes=Notes("gradient")).result
        reduced.append(graph.add("kernel", [r, r], [local], {"kernel": "add"}).result)
    graph.outputs = [h, *reduced]
    tall = (parts * local.sizes[0], 3)
    return module(graph, kernels, mesh, [P("x", None)], [P("x", None)] * (count + 1), [tall], [tall] * (count + 1))


def mixed() -> Module:
    """Return a program with views, a constant, an input that is an output, a 0-d value, and an output that is a view."""
    mesh = make_mesh({"x": 2, "one": 1})
    local, flat = f32(2, 3), f32(6)
    kernels = {
        "add": body("add", "add", [flat, flat], flat),
        "scale": scale_body(local),
    }
    graph = Graph("main", [Value(local, "a"), Value(f32(), "s")])
    a, s = graph.inputs
    c = graph.add("constant", [], [flat], {"value": np.arange(6, dtype=np.float32)}, name="table").result
    v = graph.add("view", [a], [flat]).result
    t = graph.add("kernel", [v, c], [flat], {"kernel": "add"}).result
    w = graph.add("view", [t], [local]).result
    g = graph.add("all_gather", [w], [f32(4, 3)], {"axes": ("x",), "dim": 0}).result
    u = graph.add("kernel", [w, s], [local], {"kernel": "scale"}).result
    o = graph.add("view", [u], [f32(3, 2)]).result
    graph.outputs = [o, g, a]
    return module(graph, kernels, mesh, [P("x", None), P()], [P("x", None), P(None, None), P("x", None)],
                  [(4, 3), ()], [(6, 2), (4, 3), (4, 3)])  # fmt: skip


def scale_body(local: TensorType) -> Graph:
    graph = Graph("scale", [Value(local, "x"), Value(f32(), "s")])
    x, s = graph.inputs
    wide = graph.add("broadcast_in_dim", [s], [local], {"dims": ()}).result
    graph.outputs = [graph.add("multiply", [x, wide], [local]).result]
    return graph
