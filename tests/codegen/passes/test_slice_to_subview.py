"""Tests of the `slice-to-subview` pass: which slices become views of their operand's buffer, and forged schedules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.passes.slice_to_subview import slice_to_subview
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.codegen.scheduling.schedule_stage import scheduled
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.loading import load
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.checker import check
from meshgen.spec import P, Sharding
from tests.codegen.bodies import ONE
from tests.codegen.passes.after import after
from tests.codegen.programs import costs, f32


def cut(graph: Graph, value: Value, start: tuple[int, ...], limit: tuple[int, ...], stride: tuple[int, ...] | None = None) -> Value:  # fmt: skip
    stride = stride or (1,) * len(start)
    sizes = tuple(-(-(b - a) // s) for a, b, s in zip(start, limit, stride, strict=True))
    attrs = {"start": start, "limit": limit, "stride": stride}
    return graph.add("slice", [value], [TensorType(sizes, value.type.dtype)], attrs).result


def stack(layers: int = 3) -> Graph:
    """Return h = tanh(h @ w[i]) for each of the stacked weights."""
    graph = Graph("main", [Value(f32(64, 64), "h"), Value(f32(layers, 64, 64), "w")])
    h, weights = graph.inputs
    contract = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    for layer in range(layers):
        w = cut(graph, weights, (layer, 0, 0), (layer + 1, 64, 64))
        flat = graph.add("reshape", [w], [f32(64, 64)]).result
        h = graph.add(
            "tanh", [graph.add("dot_general", [h, flat], [f32(64, 64)], contract).result], [f32(64, 64)]
        ).result
    graph.outputs = [h]
    return graph


def module_of(graph: Graph) -> Module:
    return fuse(
        Module(
            ONE, graph, "partition", in_types=[v.type for v in graph.inputs], out_types=[v.type for v in graph.outputs],
            in_shardings=[Sharding.replicated(v.type.rank) for v in graph.inputs],
            out_shardings=[Sharding.replicated(v.type.rank) for v in graph.outputs],
        )
    )  # fmt: skip


def plan_of(module: Module) -> Schedule:
    plan = schedule(module, costs=costs())
    check(plan, module.mesh)
    return plan


def test_slices_of_stacked_weights_become_views(tmp_path: Path) -> None:
    graph = stack()
    module = module_of(graph)
    plan = plan_of(module)
    assert [item.kernel for item in plan.items] == ["dot_tanh"] * 3 and len(module.kernels) == 1
    weights = [plan.buffers[item.inputs[1]] for item in plan.items]
    assert [b.offset - weights[0].offset for b in weights] == [0, 16384, 32768]
    # four arguments, and two buffers for `h`, before and after an iteration
    assert plan.arena_bytes == 4 * 16384 + 2 * 16384
    write_module(tmp_path / "m.mgx", module, plan)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal(v.type.sizes).astype(np.float32) / 8 for v in graph.inputs]
    (got,) = load(tmp_path / "m.mgx").run(args)
    np.testing.assert_allclose(got, evaluate(graph, args)[0], atol=1e-5)


def test_views_round_trip_through_schedule_text() -> None:
    module = module_of(stack())
    text = print_text(scheduled(module, plan_of(module)))
    assert text.count("stablehlo.slice") == 3 and "meshgen.view" in text
    back = parse_text(text)
    assert [n.op for n in back.graph.nodes].count("subview") == 3
    assert print_text(back) == text


@pytest.mark.parametrize(
    "start, limit, stride, is_view",
    [
        ((1, 0, 0), (2, 8, 64), None, True),
        ((0, 2, 0), (1, 4, 64), None, True),  # some rows of one layer
        ((0, 0, 0), (2, 4, 64), None, False),  # of two layers: not contiguous
        ((0, 0, 0), (1, 8, 32), None, False),
        ((0, 0, 0), (3, 8, 64), (2, 1, 1), False),
        ((0, 1, 0), (1, 2, 64), (4, 4, 4), False),
        ((0, 0, 1), (1, 1, 64), None, False),  # starts at byte 4: not aligned
    ],
)
def test_only_contiguous_aligned_slices_become_views(start, limit, stride, is_view) -> None:
    graph = Graph("main", [Value(f32(3, 8, 64), "w")])
    part = cut(graph, graph.inputs[0], start, limit, stride)
    graph.outputs = [graph.add("tanh", [part], [part.type]).result]
    assert (after(slice_to_subview, graph) is not graph) == is_view
    args = [np.random.default_rng(0).standard_normal((3, 8, 64)).astype(np.float32)]
    module = module_of(graph)
    assert ("subview" in [n.op for n in module.graph.nodes]) == is_view
    plan_of(module)
    np.testing.assert_allclose(evaluate_fused(module, args), evaluate(graph, args)[0], atol=1e-6)


def evaluate_fused(module: Module, args: list[np.ndarray]) -> np.ndarray:
    values = dict(zip(module.graph.inputs, args, strict=True))
    for node in module.graph.nodes:
        body = module.kernels[node.attrs.kernel] if node.op == "kernel" else None
        operands = [values[v] for v in node.operands]
        if body is None:
            body = Graph("", [Value(v.type) for v in node.operands])
            body.outputs = body.add(node.op, body.inputs, [v.type for v in node.results], node.attrs).results
        values.update(zip(node.results, evaluate(body, operands), strict=True))
    return values[module.graph.outputs[0]]


def test_overlapping_slices_are_fused_instead_of_viewed() -> None:
    """Check a stencil: its kernel reads each row once."""
    graph = Graph("main", [Value(f32(10, 64), "x")])
    parts = [cut(graph, graph.inputs[0], (n, 0), (n + 8, 64)) for n in range(3)]
    total = graph.add("add", [graph.add("add", parts[:2], [f32(8, 64)]).result, parts[2]], [f32(8, 64)]).result
    graph.outputs = [total]
    assert after(slice_to_subview, graph) is graph


def test_slice_of_kernel_result_is_no_view() -> None:
    graph = Graph("main", [Value(f32(4, 64), "x")])
    computed = graph.add("tanh", graph.inputs, [f32(4, 64)]).result
    part = cut(graph, computed, (1, 0), (2, 64))
    graph.outputs = [graph.add("negate", [part], [part.type]).result]
    assert after(slice_to_subview, graph) is graph


def test_views_of_gathered_tensor_wait_for_the_gather(tmp_path: Path) -> None:
    mesh = make_mesh({"x": 2})
    graph = Graph("main", [Value(f32(2, 64), "x")])
    gathered = graph.add("all_gather", graph.inputs, [f32(4, 64)], {"axes": ("x",), "dim": 0}).result
    parts = [cut(graph, gathered, (n, 0), (n + 2, 64)) for n in (0, 2)]
    graph.outputs = [graph.add("multiply", parts, [f32(2, 64)]).result, parts[1]]
    module = fuse(
        Module(mesh, graph, "partition", in_types=[f32(4, 64)], out_types=[f32(2, 64)] * 2, in_shardings=[P("x", None)],
               out_shardings=[P(None, None)] * 2)
    )  # fmt: skip
    plan = plan_of(module)
    assert [item.op for item in plan.items] == ["all_gather", "kernel"]
    for event in plan.items[1].waits:
        items = (plan.items[0], replace(plan.items[1], waits=tuple(e for e in plan.items[1].waits if e != event)))
        with pytest.raises(ScheduleError, match=r"MG0402"):
            check(replace(plan, items=items), mesh)
    write_module(tmp_path / "m.mgx", module, plan)
    x = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    product, last = load(tmp_path / "m.mgx").run([x])
    np.testing.assert_array_equal(product, x[:2] * x[2:])
    np.testing.assert_array_equal(last, x[2:])


def changed(plan: Schedule, index: int, **changes: object) -> Schedule:
    return replace(plan, buffers=tuple(b._replace(**changes) if n == index else b for n, b in enumerate(plan.buffers)))


def test_checker_rejects_views_at_wrong_offsets() -> None:
    plan = plan_of(module_of(stack()))
    (*_, last) = (item.inputs[1] for item in plan.items)
    with pytest.raises(ScheduleError, match=r"MG0402.*is at another offset"):
        check(changed(plan, last, offset=plan.buffers[last].offset + 256), ONE)
    with pytest.raises(ScheduleError, match=r"MG0402.*multiples of 256"):
        check(changed(plan, last, offset=plan.buffers[last].offset - 4), ONE)
