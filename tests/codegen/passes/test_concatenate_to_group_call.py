"""Messages as group calls: which are, what they cost, that nothing is copied, that they mean what they meant, and forged ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meshgen.ccl.collective import Collective
from meshgen.ccl.links import rate_along
from meshgen.ccl.lower import lower
from meshgen.ccl.steps import Group
from meshgen.codegen.fuse import fuse
from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.codegen.scheduling.schedule_stage import scheduled
from meshgen.errors import ProgramError, ScheduleError
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.runtime.loading import load
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.simulate import simulate
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.programs import costs, f32

MESH = make_mesh({"x": 2})
COUNT = MESH.size
WIDTHS = (6, 3, 10)  # no two alike, and no multiple of what a buffer's offset is one of
ATTRS = {"all_reduce": {"kind": "sum"}, "all_gather": {"dim": 0}, "reduce_scatter": {"dim": 0, "kind": "sum"}}
ROWS = {"all_reduce": (1, 1), "all_gather": (1, COUNT), "reduce_scatter": (COUNT, 1)}  # of operand and result


def message(op: str = "all_reduce", widths: tuple[int, ...] = WIDTHS, *, computed: int = 0, uses: str = "cut") -> Module:  # fmt: skip
    """Arguments, the first of them doubled where `computed`, sent in one message that is cut apart again.

    `uses`: `cut`, or also `twice` the same part, `across` two parts, the `whole` message, `none` of the first part.
    """
    before, after = ROWS[op]
    graph = Graph("main", [Value(f32(before, width), f"x{n}") for n, width in enumerate(widths)])
    rows = list(graph.inputs)
    rows[:computed] = [graph.add("add", [v, v], [v.type]).result for v in rows[:computed]]
    total = sum(widths)
    joined = graph.add("concatenate", rows, [f32(before, total)], {"dim": 1}).result
    sent = graph.add(op, [joined], [f32(after, total)], {"axes": ("x",), **ATTRS[op]}).result
    cuts = [(sum(widths[:n]), sum(widths[: n + 1])) for n in range(len(widths))]
    cuts = {"twice": [*cuts, cuts[0]], "across": [*cuts, (1, widths[0] + 1)], "none": cuts[1:]}.get(uses, cuts)
    for start, stop in cuts:
        attrs = {"start": (0, start), "limit": (after, stop), "stride": (1, 1)}
        part = graph.add("slice", [sent], [f32(after, stop - start)], attrs).result
        graph.outputs.append(graph.add("tanh", [part], [part.type]).result)
    graph.outputs += [sent] if uses == "whole" else []
    types = [[_wide(v.type) for v in side] for side in (graph.inputs, graph.outputs)]
    lies = [[P("x", None)] * len(side) for side in types]
    return Module(
        MESH, graph, "partition", in_types=types[0], out_types=types[1], in_shardings=lies[0], out_shardings=lies[1]
    )


def _wide(kind: TensorType) -> TensorType:
    return kind.with_shape((COUNT * kind.sizes[0], *kind.sizes[1:]))


def planned(module: Module) -> Schedule:
    plan = schedule(module, costs=costs())
    check(plan, module.mesh)
    return plan


def sent_in(plan: Schedule) -> Item:
    (item,) = (item for item in plan.items if item.is_collective)
    return item


def is_group_call(module: Module) -> bool:
    return len(sent_in(planned(fuse(module))).inputs) > 1


@pytest.mark.parametrize("uses", ["cut", "twice", "none"])
@pytest.mark.parametrize("op", list(ROWS))
def test_parts_are_sent_from_where_they_lie_in_one_launch(op: str, uses: str, tmp_path: Path) -> None:
    module = message(op, uses=uses)
    fused = fuse(module)
    plan = planned(fused)
    item = sent_in(plan)
    assert item.inputs == plan.inputs and item.scratch is None
    assert not any("concatenate" in [node.op for node in body.nodes] for body in plan.kernels.values())
    steps = lower(plan.collective(item, MESH), 0).steps
    assert [(type(step), step.count) for step in steps if isinstance(step, Group)] and len(steps) == len(WIDTHS)
    args = [np.random.default_rng(n).standard_normal(kind.sizes).astype(np.float32) for n, kind in enumerate(module.in_types)]  # fmt: skip
    write_module(tmp_path / "m.mgx", fused, plan)
    results = load(tmp_path / "m.mgx").run(args)
    for found in (results, simulate(fused, args)):
        assert [*map(np.ndarray.tobytes, found)] == [*map(np.ndarray.tobytes, simulate(module, args))]


def test_a_part_that_is_computed_is_made_before() -> None:
    """One row needs a kernel in any case; two or more are made and packed by one."""
    assert is_group_call(message(computed=1)) and not is_group_call(message(widths=(64, 64, 64), computed=2))


@pytest.mark.parametrize("uses", ["across", "whole"])
def test_a_message_that_is_used_otherwise_is_packed(uses: str) -> None:
    assert not is_group_call(message(uses=uses))


def test_sums_are_written_over_their_summands() -> None:
    """Each over its own, where nothing reads it later."""
    module = message()
    graph = module.graph
    made = [graph.add("tanh", [v], [v.type]).result for v in graph.inputs]
    made_nodes, rest = graph.nodes[-3:], graph.nodes[:-3]
    joined = next(node for node in rest if node.op == "concatenate")
    graph.nodes[:] = [*made_nodes, *rest]
    sums = Node("all_reduce", made, [Value(v.type) for v in made], {"axes": ("x",), "kind": "sum"})
    graph.nodes[:] = [*made_nodes, sums]
    graph.outputs = [graph.add("tanh", [v], [v.type]).result for v in sums.results]
    assert joined not in graph.nodes
    plan = planned(fuse(module))
    item = sent_in(plan)
    places = [[plan.buffers[n].offset for n in side] for side in (item.inputs, item.outputs)]
    assert places[0] == places[1] and len(set(places[0])) == len(WIDTHS)


def test_a_launch_waits_for_the_links_once() -> None:
    kinds = tuple(f32(1, width) for width in WIDTHS)
    attrs = {"axes": ("x",), "kind": "sum"}
    together = Collective("all_reduce", attrs, kinds, kinds, MESH)
    alone = [Collective("all_reduce", attrs, (kind,), (kind,), MESH) for kind in kinds]
    assert together.ring_bytes == sum(each.ring_bytes for each in alone)
    latency = rate_along(MESH, ("x",)).latency
    assert together.link_seconds == pytest.approx(sum(each.link_seconds for each in alone) - 2 * latency)
    node = Node("all_reduce", [Value(k) for k in kinds], [Value(k) for k in kinds], attrs)
    assert default_costs("cuda:sm_90").collective(Collective.of(node, MESH)) == together.link_seconds, (
        "nothing is copied"
    )


@pytest.mark.parametrize("op", list(ROWS))
def test_the_text_tells_what_is_sent_together(op: str) -> None:
    fused = fuse(message(op))
    for module in (fused, scheduled(fused, planned(fused))):
        text = print_text(module)
        assert f'meshgen.grouped "{op}"' in text and print_text(parse_text(text)) == text


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            'meshgen.stage = "fuse"',
            'meshgen.stage = "partition"',
            "MG0103.*meshgen.grouped is not allowed before stage 'fuse'",
        ),
        (
            '"all_reduce"',
            '"all_to_all"',
            "MG0104.*'all_to_all'; expected one of all_reduce, all_gather, reduce_scatter",
        ),
        (" reduction = sum", "", "MG0104.*'all_reduce': has no attribute 'kind'"),
        ("grid_axes = [0]", "grid_axes = [4]", "MG0202.*mesh axis '4' is not in"),
    ],
)
def test_faulty_texts_are_refused(old: str, new: str, fault: str) -> None:
    text = print_text(fuse(message()))
    assert old in text
    with pytest.raises(ProgramError, match=f"(?s){fault}"):
        parse_text(text.replace(old, new))


def forged(plan: Schedule, **changes: object) -> Schedule:
    return replace(plan, items=tuple(replace(i, **changes) if i.is_collective else i for i in plan.items))


def test_forged_calls_are_found() -> None:
    plan = planned(fuse(message()))
    item = sent_in(plan)
    for changes, fault in (
        ({"inputs": item.inputs[:2]}, "has 3 results instead of 2, one for each operand"),
        ({"inputs": (item.inputs[1], item.inputs[0], item.inputs[2])}, "changes size"),
        ({"outputs": (item.outputs[0],) * 3, "inputs": (item.inputs[0],) * 3}, "both write|writes"),
        ({"op": "all_to_all", "attrs": {"axes": ("x",), "split_dim": 0, "concat_dim": 1}}, "has 3 operands instead of 1"),
    ):  # fmt: skip
        with pytest.raises(ScheduleError, match=f"MG0402.*({fault})"):
            check(forged(plan, **changes), MESH)


@pytest.mark.parametrize("op", list(ROWS))
def test_kernels_read_parts_through_groups_dissolved_into_them(op: str) -> None:
    """A rotation of two halves, as in rotary embeddings: its products become part of the kernel that joins them.

    The kernel that makes a part of the message also makes what the program computes last, so only the def-use order keeps it before the call.
    """
    module = message(op, computed=1)
    graph = module.graph
    computed = graph.nodes[0].result
    for part in [node for node in graph.nodes if node.op == "slice"]:
        value = part.result
        halves = [graph.add("multiply", [value, value], [value.type]).result, graph.add("add", [value, value], [value.type]).result]  # fmt: skip
        wide = f32(value.type.sizes[0], 2 * value.type.sizes[1])
        graph.outputs.append(graph.add("concatenate", halves, [wide], {"dim": 1}).result)
    graph.outputs.append(graph.add("negate", [computed], [computed.type]).result)
    types = [_wide(v.type) for v in graph.outputs]
    module = replace(module, out_types=types, out_shardings=[P("x", None)] * len(types))
    fused = fuse(module)
    assert is_group_call(module)
    args = [np.random.default_rng(n).standard_normal(kind.sizes).astype(np.float32) for n, kind in enumerate(module.in_types)]  # fmt: skip
    assert [*map(np.ndarray.tobytes, simulate(fused, args))] == [*map(np.ndarray.tobytes, simulate(module, args))]
