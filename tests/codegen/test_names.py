"""Kernels and their parameters get valid names of their own, whatever the program calls them."""

from __future__ import annotations

import ast
import builtins
import keyword
from pathlib import Path

import numpy as np
import pytest
from bodies import ONE, Body, launch

from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.emit.names import entry_name
from meshgen.codegen.fuse import fuse
from meshgen.codegen.triton_source import KernelSource, kernel_source
from meshgen.ir.graph import Graph, Module
from meshgen.kernels.functions import FUNCTIONS
from meshgen.ops.registry import with_meaning

ODD = ["tl", "triton", "i", "tile", "acc", "2x", "", "π", "a b", "_", "__init__", "x.y", "BLOCK", "k"]


def doubled(name: str) -> Graph:
    """A kernel of which everything has one name: itself, its operand and its result."""
    b = Body("i32[5]", name=name)
    b.inputs[0].name = name
    result = b.op("add", b.inputs[0], b.inputs[0])
    result.name = name
    return b.done(result)


def names_in(source: KernelSource) -> tuple[str, list[str]]:
    functions = [node for node in ast.parse(source.text).body if isinstance(node, ast.FunctionDef)]
    entry = next(node for node in functions if node.name == source.entry)
    return entry.name, [argument.arg for argument in entry.args.args]


@pytest.mark.parametrize("names", [sorted(with_meaning()), sorted(FUNCTIONS), [*keyword.kwlist, *keyword.softkwlist], ODD],
                         ids=["operations", "functions", "keywords", "odd"])  # fmt: skip
def test_a_kernel_can_have_every_name(names: list[str]) -> None:
    for name in names:
        graph = doubled(name)
        source = kernel_source(name, graph, ONE)
        entry, parameters = names_in(source)
        taken = {*FUNCTIONS, *keyword.kwlist, *keyword.softkwlist, "tl", "triton", *dir(builtins)}
        assert entry.isidentifier() and entry.isascii() and entry not in taken
        assert len(set(parameters)) == len(parameters) == 3 and not taken & set(parameters)
    (result,) = launch(source, graph, [np.arange(5, dtype=np.int32)])
    np.testing.assert_array_equal(result, 2 * np.arange(5))


def test_names_that_are_free_are_kept() -> None:
    assert [entry_name(name) for name in ("softmax", "dot_2", "Add")] == ["softmax", "dot_2", "Add"]
    assert [entry_name(name) for name in ("and", "power", "tl", "3d")] == [
        "and_kernel",
        "power_kernel",
        "tl_kernel",
        "k3d",
    ]


def test_parameters_with_one_wish_are_told_apart() -> None:
    b = Body("i32[5]", "i32[5]", "i32[5]")
    for value in b.inputs:
        value.name = "not"
    source = kernel_source("or", b.done(b.op("add", b.op("add", *b.inputs[:2]), b.inputs[2])), ONE)
    assert len(set(names_in(source)[1])) == 5
    found = launch(source, b.graph, [np.full(5, n, np.int32) for n in (1, 10, 100)])
    np.testing.assert_array_equal(found[0], np.full(5, 111))


def test_a_kernel_of_one_logical_operation_builds(tmp_path: Path) -> None:
    b = Body("i32[8]", "i32[8]")
    module = fuse(Module(ONE, b.done(b.op("and", *b.inputs)), "partition"))
    ((name, body),) = module.kernels.items()
    built = build_kernels([request_of(name, kernel_source(name, body, ONE), body)], ["sm_90"], tmp_path, 1)
    assert name == "and" and len(built) == 1
