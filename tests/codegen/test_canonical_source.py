"""Tests of canonical sources: kernels that differ only in names are built once."""

from __future__ import annotations

import ast
from pathlib import Path

from bodies import ONE, Body

from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.canonical_source import canonical_source
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph

TEXT = '''
@triton.jit
def helper(x):
    return x


@triton.jit
def f(x_ptr, mask_ptr, BLOCK: tl.constexpr):
    """x f32[8]
    -> y"""
    i = tl.arange(0, BLOCK)
    mask = tl.load(mask_ptr + i, mask=i < 8)
    tl.store(x_ptr + i, helper(mask), mask=mask)
'''


def named(*names: str) -> Graph:
    b = Body("f32[64,64]", "f32[64]", name="sum")
    for value, name in zip(b.inputs, names, strict=True):
        value.name = name
    x, y = b.inputs
    return b.done(b.op("add", x, b.wide(y, x, (1,))))


def test_canonical_source_renames_values_and_keeps_lines() -> None:
    text, names = canonical_source(TEXT, "f", ["BLOCK"])
    assert names == {"x_ptr": "v_0", "mask_ptr": "v_1", "i": "v_2", "mask": "v_3"}
    assert "v_3 = tl.load(v_1 + v_2, mask=v_2 < 8)" in text and "tl.store(v_0 + v_2, helper(v_3), mask=v_3)" in text
    assert "def helper(x):\n    return x" in text and "BLOCK: tl.constexpr" in text and "f32[8]" not in text
    before, after = (
        [n.lineno for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)] for source in (TEXT, text)
    )
    assert before == after


def test_renamed_arguments_do_not_cause_rebuilds(tmp_path: Path) -> None:
    long = "a_name_that_is_so_long_that_no_other_parameter_could_stand_beside_it_in_a_line_of_a_hundred_columns"
    built = []
    for body in (named("x", "y"), named(long, "x"), named("x0", long)):
        source = kernel_source("sum", body, ONE)
        assert all(f"{value.name}_ptr" in source.text for value in body.inputs)
        built += build_kernels([request_of("sum", source, body)], ["sm_90"], tmp_path, workers=1).values()
    assert [kernel.cached for kernel in built] == [False, True, True]
    assert len({kernel.cubin for kernel in built}) == len({kernel.ptx for kernel in built}) == 1
