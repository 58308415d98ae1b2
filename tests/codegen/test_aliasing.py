"""Tests of in-place results: which operand a result overwrites, also in random programs with collectives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.scheduling.donation import hoist_donated_reads
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.loading import load
from meshgen.runtime.plan import Schedule
from meshgen.runtime.simulate import simulate
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.programs import costs, f32
from tests.trials import trials

MESH = make_mesh({"x": 2})
VECTOR = f32(64)  # 256 bytes, since parts of a join start at multiples of 256 bytes


def arguments(count: int) -> Graph:
    return Graph("main", [Value(VECTOR, f"x{n}") for n in range(count)])


def summed(graph: Graph, *values: Value) -> list[Value]:
    """Return the sums of the values over the devices, computed by one all_reduce."""
    return graph.add("all_reduce", values, [v.type for v in values], {"axes": ("x",), "kind": "sum"}).results


def joined(graph: Graph, parts: Sequence[Value]) -> Value:
    return graph.add("concatenate", parts, [f32(64 * len(parts))], {"dim": 0}).result


def cut(graph: Graph, value: Value, index: int) -> Value:
    bounds = {"start": (64 * index,), "limit": (64 * (index + 1),), "stride": (1,)}
    return graph.add("slice", [value], [VECTOR], bounds).result


def fused(graph: Graph, outputs: Sequence[Value], donations: dict[int, int | None] | None = None) -> Module:
    """Return the fused program. Arguments and results are sharded over the devices."""
    graph.outputs = list(outputs)
    ins, outs = ([wide(value.type) for value in side] for side in (graph.inputs, outputs))
    specs = [P("x")] * len(ins), [P("x")] * len(outs)
    return hoist_donated_reads(
        fuse(
            Module(
                MESH, graph, "partition", in_types=ins, out_types=outs, in_shardings=specs[0], out_shardings=specs[1],
                donations=donations or {},
            )
        )
    )  # fmt: skip


def wide(kind: TensorType) -> TensorType:
    return kind.with_shape((2 * kind.sizes[0],))


def check_numbers(module: Module, plan: Schedule, path: Path) -> None:
    write_module(path, module, plan)
    args = [np.random.default_rng(n).standard_normal(kind.sizes).astype(np.float32) for n, kind in enumerate(module.in_types)]  # fmt: skip
    for got, want in zip(load(path).run(args), simulate(module, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("is_part", [False, True], ids=["another value", "another part"])
def test_part_of_a_join_overwrites_one_operand(is_part: bool, tmp_path: Path) -> None:
    """Check a concatenation of `left - right` and another part, which is `right` if `is_part`.

    The difference may overwrite only one of `left` and `right`.
    """
    graph = arguments(3)
    (left,), (right,), (other,) = (summed(graph, graph.add("tanh", [x], [VECTOR]).result) for x in graph.inputs)
    part = graph.add("subtract", [left, right], [VECTOR]).result
    (sent,) = summed(graph, joined(graph, [part, right if is_part else other]))
    module = fused(graph, [sent, *summed(graph, part)])
    plan = schedule(module, costs=costs())
    check(plan, MESH)
    assert "join" in [node.op for node in module.graph.nodes]
    (subtraction,) = (item for item in plan.items if item.kernel == "subtract")
    offsets = [plan.buffers[n].offset for n in subtraction.inputs]
    result = subtraction.outputs[0]
    assert plan.replaced[result] == subtraction.inputs[offsets.index(plan.buffers[result].offset)]
    assert len({*offsets}) == 2
    check_numbers(module, plan, tmp_path / "m.mgx")


@pytest.mark.parametrize("output_index", [0, 1])
def test_grouped_reduction_overwrites_only_its_own_donated_operand(output_index: int, tmp_path: Path) -> None:
    graph = arguments(2)
    module = fused(graph, summed(graph, *graph.inputs), {0: output_index})
    plan = schedule(module, costs=costs())
    check(plan, MESH)
    shares = plan.buffers[plan.inputs[0]].offset == plan.buffers[plan.outputs[output_index]].offset
    assert shares == (output_index == 0)
    check_numbers(module, plan, tmp_path / "m.mgx")


def random_program(rng: random.Random) -> Module:
    """Return random element-wise ops, all-reduces, and concatenations that are reduced and sliced."""
    graph = arguments(rng.randint(1, 3))
    values = list(graph.inputs)

    def recent_values(count: int) -> list[Value]:
        return [rng.choice(values[-4:]) for _ in range(count)]

    for _ in range(rng.randint(4, 12)):
        op = rng.choice(["tanh", "add", "multiply", "subtract", "all_reduce", "join", "join"])
        operands = list(dict.fromkeys(recent_values(rng.randint(1, 3))))
        if op == "join":
            (reduced,) = summed(graph, joined(graph, operands))
            values += [cut(graph, reduced, n) for n in range(len(operands))]
        elif op == "all_reduce":
            values += summed(graph, *operands)
        else:
            computed = graph.add(op, recent_values(1 if op == "tanh" else 2), [VECTOR]).result
            # The reduction is another user, so no concatenating kernel computes the value.
            values += [*summed(graph, computed), computed]
    return fused(graph, values[-rng.randint(1, 2) :], rng.choice([{}, {0: 0}]))


@pytest.mark.parametrize("seed", trials(20))
def test_random_aliased_programs_match_simulation(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    module = random_program(rng)
    plan = schedule(module, costs=costs(collective=rng.choice([0.1, 1, 10])))
    check(plan, MESH)
    check_numbers(module, plan, tmp_path / "m.mgx")
