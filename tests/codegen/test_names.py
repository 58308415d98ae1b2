"""Tests of the names of kernels and their parameters: they are valid and unique for any names in the program."""

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
from meshgen.ops.registry import evaluable_ops

ODD = ["tl", "triton", "i", "tile", "acc", "2x", "", "π", "a b", "_", "__init__", "x.y", "BLOCK", "k"]


def body_of_one_name(name: str) -> Graph:
    """Return a kernel body in which the kernel, its operand and its result all have one name."""
    b = Body("i32[5]", name=name)
    b.inputs[0].name = name
    result = b.op("add", b.inputs[0], b.inputs[0])
    result.name = name
    return b.done(result)


def names_in(source: KernelSource) -> tuple[str, list[str]]:
    functions = [node for node in ast.parse(source.text).body if isinstance(node, ast.FunctionDef)]
    entry = next(node for node in functions if node.name == source.entry)
    return entry.name, [argument.arg for argument in entry.args.args]


@pytest.mark.parametrize("names", [sorted(evaluable_ops()), sorted(FUNCTIONS), [*keyword.kwlist, *keyword.softkwlist], ODD],
                         ids=["operations", "functions", "keywords", "odd"])  # fmt: skip
def test_any_program_name_becomes_a_valid_kernel_name(names: list[str]) -> None:
    for name in names:
        graph = body_of_one_name(name)
        source = kernel_source(name, graph, ONE)
        entry, parameters = names_in(source)
        reserved = {*FUNCTIONS, *keyword.kwlist, *keyword.softkwlist, "tl", "triton", *dir(builtins)}
        assert entry.isidentifier() and entry.isascii() and entry not in reserved
        assert len(set(parameters)) == len(parameters) == 3 and not reserved & set(parameters)
    (result,) = launch(source, graph, [np.arange(5, dtype=np.int32)])
    np.testing.assert_array_equal(result, 2 * np.arange(5))


def test_valid_kernel_names_are_kept() -> None:
    assert [entry_name(name) for name in ("softmax", "dot_2", "Add")] == ["softmax", "dot_2", "Add"]
    assert [entry_name(name) for name in ("and", "power", "tl", "3d")] == [
        "and_kernel",
        "power_kernel",
        "tl_kernel",
        "k3d",
    ]


def test_parameters_of_equal_names_are_made_unique() -> None:
    b = Body("i32[5]", "i32[5]", "i32[5]")
    for value in b.inputs:
        value.name = "not"
    source = kernel_source("or", b.done(b.op("add", b.op("add", *b.inputs[:2]), b.inputs[2])), ONE)
    assert len(set(names_in(source)[1])) == 5
    results = launch(source, b.graph, [np.full(5, n, np.int32) for n in (1, 10, 100)])
    np.testing.assert_array_equal(results[0], np.full(5, 111))


def test_kernel_named_after_a_python_keyword_builds(tmp_path: Path) -> None:
    b = Body("i32[8]", "i32[8]")
    module = fuse(Module(ONE, b.done(b.op("and", *b.inputs)), "partition"))
    ((name, body),) = module.kernels.items()
    built = build_kernels([request_of(name, kernel_source(name, body, ONE), body)], ["sm_90"], tmp_path, 1)
    assert name == "and" and len(built) == 1
