"""Tests of the `concatenate-to-group-call` pass: which messages become a group of NCCL calls, one per part.

The checker must reject forged group calls.
"""

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
WIDTHS = (6, 3, 10)  # distinct sizes, none a multiple of the offset alignment of buffers
ATTRS = {"all_reduce": {"kind": "sum"}, "all_gather": {"dim": 0}, "reduce_scatter": {"dim": 0, "kind": "sum"}}
ROWS = {"all_reduce": (1, 1), "all_gather": (1, COUNT), "reduce_scatter": (COUNT, 1)}  # rows of operand and result


def message(op: str = "all_reduce", widths: tuple[int, ...] = WIDTHS, *, computed: int = 0, uses: str = "cut") -> Module:  # fmt: skip
    """Return a program that sends its arguments in one message and slices the result.

    The first `computed` arguments are doubled before they are sent. `uses` says how the result is used:
    `cut` slices each part once;
    `twice` also slices one part a second time;
    `across` also takes a slice that spans two parts;
    `whole` also returns the whole result;
    `none` leaves the first part unused.
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
    shardings = [[P("x", None)] * len(side) for side in types]
    return Module(
        MESH,
        graph,
        "partition",
        in_types=types[0],
        out_types=types[1],
        in_shardings=shardings[0],
        out_shardings=shardings[1],
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
def test_group_call_sends_parts_from_their_buffers_in_one_launch(op: str, uses: str, tmp_path: Path) -> None:
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
    for outputs in (results, simulate(fused, args)):
        assert [*map(np.ndarray.tobytes, outputs)] == [*map(np.ndarray.tobytes, simulate(module, args))]


def test_group_call_allows_one_computed_part() -> None:
    """Check that one computed row keeps the group call, and that two or more are packed by one kernel instead."""
    assert is_group_call(message(computed=1)) and not is_group_call(message(widths=(64, 64, 64), computed=2))


@pytest.mark.parametrize("uses", ["across", "whole"])
def test_message_with_other_uses_is_packed(uses: str) -> None:
    assert not is_group_call(message(uses=uses))


def test_group_call_reduces_in_place() -> None:
    """Check that each sum of a group call reuses its own summand's buffer if nothing reads the summand later."""
    module = message()
    graph = module.graph
    summands = [graph.add("tanh", [v], [v.type]).result for v in graph.inputs]
    summand_nodes, rest = graph.nodes[-3:], graph.nodes[:-3]
    joined = next(node for node in rest if node.op == "concatenate")
    graph.nodes[:] = [*summand_nodes, *rest]
    sums = Node("all_reduce", summands, [Value(v.type) for v in summands], {"axes": ("x",), "kind": "sum"})
    graph.nodes[:] = [*summand_nodes, sums]
    graph.outputs = [graph.add("tanh", [v], [v.type]).result for v in sums.results]
    assert joined not in graph.nodes
    plan = planned(fuse(module))
    item = sent_in(plan)
    offsets = [[plan.buffers[n].offset for n in side] for side in (item.inputs, item.outputs)]
    assert offsets[0] == offsets[1] and len(set(offsets[0])) == len(WIDTHS)


def test_group_call_cost_has_link_latency_once() -> None:
    kinds = tuple(f32(1, width) for width in WIDTHS)
    attrs = {"axes": ("x",), "kind": "sum"}
    grouped_call = Collective("all_reduce", attrs, kinds, kinds, MESH)
    single_calls = [Collective("all_reduce", attrs, (kind,), (kind,), MESH) for kind in kinds]
    assert grouped_call.ring_bytes == sum(single.ring_bytes for single in single_calls)
    latency = rate_along(MESH, ("x",)).latency
    assert grouped_call.link_seconds == pytest.approx(sum(single.link_seconds for single in single_calls) - 2 * latency)
    node = Node("all_reduce", [Value(k) for k in kinds], [Value(k) for k in kinds], attrs)
    assert default_costs("cuda:sm_90").collective(Collective.of(node, MESH)) == grouped_call.link_seconds, (
        "group calls copy nothing"
    )


@pytest.mark.parametrize("op", list(ROWS))
def test_group_call_round_trips_through_text(op: str) -> None:
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
def test_invalid_group_call_texts_are_rejected(old: str, new: str, fault: str) -> None:
    text = print_text(fuse(message()))
    assert old in text
    with pytest.raises(ProgramError, match=f"(?s){fault}"):
        parse_text(text.replace(old, new))


def forged(plan: Schedule, **changes: object) -> Schedule:
    return replace(plan, items=tuple(replace(i, **changes) if i.is_collective else i for i in plan.items))


def test_checker_rejects_forged_group_calls() -> None:
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
def test_group_call_parts_are_read_through_fused_rotation(op: str) -> None:
    """Check a rotation of two halves, as in rotary embeddings, that is fused into the kernel that joins them.

    The kernel that computes a part of the message also computes the program's last result. Only the def-use order keeps
    that kernel before the call.
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
