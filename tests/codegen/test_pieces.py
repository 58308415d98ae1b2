"""Tests of concatenations whose parts are computed separately by one kernel: which ones qualify, and the emitted
accesses.

Masks are needed only at the edges of parts, and a part may itself be computed from several operands.
"""

from __future__ import annotations

import re

import pytest
from bodies import ONE, Body, check

from meshgen.codegen.emit.concat_ranges import pieces_of
from meshgen.codegen.memory_efficiency import efficiency, kernel_traffic
from meshgen.codegen.triton_source import KernelSource, kernel_source
from meshgen.ir.graph import Graph
from tests.emulator.ptx_builds import ptx_of


def bucket(*columns: int) -> Graph:
    """Return the scaled concatenation of gradients along columns, as they are sent in one message."""
    b = Body(*(f"f32[8,{n}]" for n in columns), f"f32[8,{sum(columns)}]")
    *parts, scale = b.inputs
    parts[1] = b.op("negate", parts[1])
    return b.done(b.op("multiply", b.op("concatenate", *parts, dim=1), scale))


def rotated(dtype: str = "bf16", width: int = 64) -> Graph:
    """Return a concatenation of halves that each depend on both operands."""
    b = Body(*[f"{dtype}[2,24,{width}]"] * 2)
    x, y = b.inputs
    return b.done(b.op("concatenate", b.op("subtract", x, y), b.op("add", x, y), dim=2))


def vector_accesses(source: KernelSource, body: Graph) -> tuple[int, int]:
    """Return two numbers: the 16-byte loads and stores in the PTX, and the narrower ones."""
    accesses = re.findall(r"(?:ld|st)\.global[.\w]*", ptx_of(source, body, "sm_90").ptx.decode())
    wide = [access for access in accesses if ".v4.b32" in access]
    return len(wide), len(accesses) - len(wide)


@pytest.mark.parametrize("graph", [bucket(64, 192, 8), bucket(512, 4, 128, 60), rotated(), rotated("f32", 100)])
def test_concatenation_in_pieces_matches_reference(graph: Graph) -> None:
    assert pieces_of(graph) is not None
    check(graph)


def test_piece_loads_only_its_operand_in_vectors() -> None:
    graph = bucket(1024, 512)
    source = kernel_source("bucket", graph, ONE)
    assert source.text.count("tl.load") == 4
    assert "mask" not in source.text
    assert vector_accesses(source, graph)[1] == 0


def test_equal_pieces_alternate_over_programs() -> None:
    source = kernel_source("rotated", rotated(), ONE)
    assert "turn = tl.program_id(0) % 2" in source.text


def test_unequal_pieces_of_one_operand_are_not_split() -> None:
    b = Body("f32[64,96]")
    (x,) = b.inputs
    part = b.op("slice", x, start=(0, 0), limit=(64, 32), stride=(1, 1))
    graph = b.done(b.op("concatenate", b.op("tanh", x), b.op("negate", part), dim=1))
    assert pieces_of(graph) is None
    check(graph)


def test_unaligned_concatenate_operands_are_not_split() -> None:
    assert pieces_of(bucket(63, 65)) is None
    check(bucket(63, 65))


def test_concatenations_along_several_dims_are_not_split() -> None:
    b = Body("f32[8,64]", "f32[8,64]", "f32[4,128]")
    x, y, z = b.inputs
    wide, tall = b.op("concatenate", x, y, dim=1), b.op("concatenate", z, b.op("negate", z), dim=0)
    graph = b.done(b.op("add", wide, tall))
    assert pieces_of(graph) is None
    check(graph)


def stacked(dtype: str, *sizes: tuple[int, ...]) -> Graph:
    """Return the concatenation of several weights along rows. The last weight is stored transposed."""
    b = Body(*(f"{dtype}[{','.join(map(str, size))}]" for size in sizes))
    *parts, last = b.inputs
    transposed = b.op("transpose", last, perm=(*range(last.type.rank - 2), last.type.rank - 1, last.type.rank - 2))
    return b.done(b.op("concatenate", *parts, transposed, dim=0))


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(stacked("bf16", (64, 96), (96, 64)), id="equal"),
        pytest.param(stacked("f32", (8, 128), (128, 40)), id="unequal, with an edge"),
        pytest.param(stacked("bf16", (2, 64, 96), (1, 64, 96), (2, 96, 64)), id="of batches"),
    ],
)
def test_transposed_piece_uses_square_tiles(graph: Graph) -> None:
    source = check(graph)
    assert {"SIDE", "BLOCK"} <= source.constants.keys()
    assert efficiency(kernel_traffic(source, graph)) == 1.0


def test_square_tiles_use_vector_accesses() -> None:
    graph = stacked("bf16", (256, 1024), (1024, 256))
    assert vector_accesses(kernel_source("stacked", graph, ONE), graph)[1] == 0
