"""Tests of module attributes, by which the text of a stage keeps the fields of `Module`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshgen.errors import ProgramError
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.mlir.text import parse_text, print_text

TEXT = """builtin.module attributes {meshgen.stage = "import"} {
  shard.grid @g(shape = ?) {axis_names = ["x"]}
  func.func @main(%x: tensor<8xf32>, %y: tensor<8xf32>) {
    func.return
  }
}
"""
DECISION = "[{\\22what\\22: \\22all_gather\\22, \\22exposed_seconds\\22: 1e-6, \\22is_applied\\22: true, \\22text\\22: \\22\\22}]"
FIELDS = {
    "in_numbers": (2, 0),
    "out_numbers": (),
    "reordered": {"a b": (1, 0)},
    "nominal_sizes": {"x": 4},
    "chunks": (ChunkDecision('all_gather of "x"', 1e-6, True, "in 2 chunks"),),
    "memory_cap": 1 << 40,
}


def test_fields_of_modules_round_trip_through_text() -> None:
    module = replace(parse_text(TEXT), **FIELDS)
    reparsed = parse_text(print_text(module))
    assert {name: getattr(reparsed, name) for name in FIELDS} == FIELDS
    assert not any(f"meshgen.{name}" in print_text(parse_text(TEXT)) for name in FIELDS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in_numbers", "[0, true]"),
        ("out_numbers", "[-1]"),
        ("reordered", "[[0, 1]]"),
        ("reordered", "{\\22m\\22: 1}"),
        ("nominal_sizes", "{\\22x\\22: 1.5}"),
        ("nominal_sizes", "{\\22x\\22: 0}"),
        *(("chunks", DECISION.replace("1e-6", seconds)) for seconds in ("NaN", "Infinity", "-1e-6")),
        ("chunks", "{}"),
        ("chunks", "[{\\22what\\22: \\22all_gather\\22}]"),
        ("memory_cap", "[]"),
        ("memory_cap", "1 +"),
    ],
)
def test_malformed_fields_are_refused(name: str, text: str) -> None:
    with pytest.raises(ProgramError, match=f"MG0104: meshgen.{name} is not "):
        parse_text(TEXT.replace("attributes {", f'attributes {{meshgen.{name} = "{text}", '))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "1" * 5000])
def test_fields_that_json_cannot_read_are_refused(text: str) -> None:
    with pytest.raises(ProgramError, match=r"MG0104: meshgen\.memory_cap is not JSON"):
        parse_text(TEXT.replace("attributes {", f'attributes {{meshgen.memory_cap = "{text}", '))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("in_numbers", "[7, 8, 9]", "MG0104: meshgen.in_numbers is .7, 8, 9.; it must have 2 different numbers"),
        ("in_numbers", "[1, 1]", "MG0104: meshgen.in_numbers is"),
        ("out_numbers", "[0]", "MG0104: meshgen.out_numbers is .0.; it must have 0 different numbers"),
        ("nominal_sizes", "{\\22zz\\22: 4}", "MG0202: mesh axis 'zz' is not in"),
    ],
)
def test_fields_that_contradict_the_program_are_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        parse_text(TEXT.replace("attributes {", f'attributes {{meshgen.{name} = "{text}", '))


def test_chunk_decision_is_parsed() -> None:
    module = parse_text(TEXT.replace("attributes {", f'attributes {{meshgen.chunks = "{DECISION}", '))
    assert module.chunks == (ChunkDecision("all_gather", 1e-6, True, ""),)
