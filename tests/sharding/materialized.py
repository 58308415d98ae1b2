"""Modules at stage materialize that are built op by op, and the properties that every pass keeps on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Module, Value
from meshgen.runtime.simulate import simulate
from meshgen.sharding.optimizations.walk import total_bytes
from meshgen.sharding.partition import partition
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, whole_numbers

T = "f32[8,12]"
SUM_X, SUM_XY = P(None, None, partial="x"), P(None, None, partial=("x", "y"))


def module(program: Program, *outputs: Value) -> Module:
    for node in program.graph.nodes:  # Materialize gives every value a sharding.
        for value in (*node.operands, *node.results):
            assert value.sharding is not None
    return Module(program.mesh, replace(program.graph, outputs=list(outputs)), "materialize")


def reduce_(
    p: Program, value: Value, spec: Sharding | None = None, axes: tuple[str, ...] = ("x",), kind: str = "sum"
) -> Value:
    return p.add("all_reduce", [value], str(value.type), spec, axes=axes, kind=kind, why=f"reduce {value.name}")


def gather(
    p: Program, value: Value, spec: Sharding | None = None, axes: tuple[str, ...] = ("x",), dim: int = 0
) -> Value:
    return p.add("all_gather", [value], str(value.type), spec, axes=axes, dim=dim, why=f"gather {value.name}")


def cut(p: Program, value: Value, spec: Sharding, axes: tuple[str, ...] = ("x",), dim: int = 0) -> Value:
    return p.add("all_slice", [value], str(value.type), spec, axes=axes, dim=dim)


def check(before: Module, rule: Callable[[Module], Module], expected_ops: Sequence[str]) -> Module:
    """Check the ops after a pass. Bytes must not grow, results on all ranks must be equal, and the input must be
    unchanged.
    """
    old = [(n.op, tuple(n.operands)) for n in before.graph.nodes]
    after = rule(before)
    assert [n.op for n in after.graph.nodes] == list(expected_ops)
    assert [(n.op, tuple(n.operands)) for n in before.graph.nodes] == old
    assert total_bytes(after.graph, after.mesh) <= total_bytes(before.graph, before.mesh)
    args = [whole_numbers(str(v.type), seed) for seed, v in enumerate(before.graph.inputs)]
    runs = [simulate(partition(m), args) for m in (before, after)]
    for left, right in zip(*runs, strict=True):
        np.testing.assert_array_equal(left, right)
    return after
