"""Attributes of the module operation: fields of `Module` that texts of stages keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from meshgen.errors import ProgramError
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.mlir.text import parse_text, print_text

TEXT = """builtin.module attributes {meshgen.stage = "import"} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    func.return %x : tensor<8xf32>
  }
}
"""
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
    again = parse_text(print_text(module))
    assert {name: getattr(again, name) for name in FIELDS} == FIELDS
    assert not any(f"meshgen.{name}" in print_text(parse_text(TEXT)) for name in FIELDS)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("in_numbers", "[0, true]"),
        ("out_numbers", "[-1]"),
        ("reordered", "[[0, 1]]"),
        ("reordered", "{\\22m\\22: 1}"),
        ("nominal_sizes", "{\\22x\\22: 1.5}"),
        ("chunks", "{}"),
        ("chunks", "[{\\22what\\22: \\22all_gather\\22}]"),
        ("memory_cap", "[]"),
        ("memory_cap", "1 +"),
    ],
)
def test_malformed_fields_are_refused(name: str, text: str) -> None:
    with pytest.raises(ProgramError, match=f"MG0104: meshgen.{name} is not "):
        parse_text(TEXT.replace("attributes {", f'attributes {{meshgen.{name} = "{text}", '))
