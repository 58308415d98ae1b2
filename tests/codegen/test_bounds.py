"""Tests of the proofs that kernels access their operands in bounds: valid accesses are proven, invalid ones are not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bodies import ONE, Body, check, launch
from code_of_text import code_of, launch_facts_of, proven, questions
from layouts import arguments, random_elementwise_graph

from meshgen import api
from meshgen.codegen import triton_source
from meshgen.codegen.bounds.accesses import Access, Given, accesses, unproven
from meshgen.codegen.bounds.ranges import Ranges
from meshgen.codegen.bounds.values import FAR, Fact
from meshgen.codegen.emit.templates import TEMPLATES
from meshgen.codegen.expr import Expr, constant, variable
from meshgen.codegen.index_code import Statement
from meshgen.codegen.triton_source import KernelSource, kernel_source, kernel_sources
from meshgen.errors import CodegenError, RuntimeFailure
from meshgen.ir.graph import Graph
from meshgen.kernels.functions import FUNCTIONS

PASSES = Path(__file__).parents[1] / "passes"
FLAT = "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
TILES = """tile = tl.program_id(0)
first = tile // 12 * 4
height = tl.minimum(10 - first, 4)
tile_m = first + tile % 12 % height
tile_n = tile % 12 // height
m = (tile_m * 16 + tl.arange(0, 16))[:, None]
n = (tile_n * 16 + tl.arange(0, 16))[None, :]
"""
LOOP = "a = x_ptr + i * 100 + tl.arange(0, 32)[None, :]\nfor start in range(0, 100, 32):\n    k = start + tl.arange(0, 32)\n    k_col = k[None, :]\n    y = tl.load(a{mask})\n    a += 32\n"  # fmt: skip
BLOCKS = """first = tl.program_id(0) * 64
end = tl.minimum(tl.maximum(first + 128, 0) // 32, 5)
for block in range(tl.minimum(first // 32, 4), end):
    tl.load(x_ptr + block * 32 + tl.arange(0, 32))
"""


def proven_of(lines: str, size: int, programs: int = 1, **counts: int) -> list[bool]:
    """Return whether each access of a kernel is proven. `x_ptr` has `size` elements, and BLOCK is 1024."""
    names = ["x_ptr", *counts, "BLOCK"]
    text = f"def kernel({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    return proven(code_of(text), Given({"x_ptr": size}, counts, programs, {"BLOCK": 1024}))


LISTS = (
    FLAT + "begin, end = first(tl.load(x_ptr), 3)\nfor k in range(0, end - begin):\n    {at}\n    tl.load(x_ptr + at)\n"
)  # the list can have any length


INSIDE = [
    (LISTS.format(at="at = tl.minimum(tl.maximum((begin + k).to(tl.int32), 0), 6)"), 7, 1),
    (FLAT + "tl.load(x_ptr + i)", 2048, 2),
    (FLAT + "tl.load(x_ptr + i, mask=i < 15, other=0)", 15, 1),
    (FLAT + "tl.load(x_ptr + (-i + 14) % 3 * 5 + (-i + 14) // 3, mask=i < 15, other=0)", 15, 1),
    (FLAT + "tl.load(x_ptr + i % 7 * 3, mask=i % 7 < 5, other=0)", 13, 4),
    (FLAT + "tl.load(x_ptr + i // 4 - 2, mask=(i // 4 - 2 >= 0) & (i // 4 - 2 < 9), other=0)", 9, 1),
    (FLAT + "at = tl.minimum(tl.maximum(tl.load(x_ptr).to(tl.int32), 0), 6)\ntl.load(x_ptr + at * 2 + 1)", 14, 1),
    (FLAT + "tl.store(x_ptr + i * 3 % 7, 1)", 7, 1),  # not provable by intervals, so all points are enumerated
    (TILES + "tl.load(x_ptr + m * 48 + n)", 160 * 48, 30),
    (BLOCKS, 160, 4),
    (FLAT + "tl.load(x_ptr + i.to(tl.int64) * 4194304, mask=i < 1024, other=0)", 2**32, 1),
    (LOOP.format(mask=", mask=k_col < 100, other=0").replace("i *", "0 *"), 100, 1),
    (FLAT + "tl.load(x_ptr + i + 64, mask=i % 128 < 64, other=0)", 2**20, 1024),
    (FLAT + "tl.load(x_ptr + i - 64, mask=(i // 64) % 2 > 0, other=0)", 2**20, 1024),
    (FLAT + "tl.load(x_ptr + 1048575 - i + 3, mask=(-i + 1048575) % 4 < 1, other=0)", 2**20, 1024),
    (FLAT + "at = tl.minimum(tl.maximum(tl.load(x_ptr).to(tl.int32), 0), 70)\ninside = (-at + i // 16 >= 0) & (-at + i // 16 < 9)\n"
     "tl.load(x_ptr + -at * 16 + i, mask=inside, other=0)", 144, 2),
]  # fmt: skip
OUTSIDE = [
    (BLOCKS, 159, 4),
    (BLOCKS.replace("tl.minimum(first // 32, 4)", "first // 32 - 1"), 160, 4),
    (BLOCKS.replace(", 5)", ", 6)"), 160, 4),
    (LISTS.format(at="at = begin + k"), 7, 1),
    (LISTS.format(at="at = tl.minimum((begin + k).to(tl.int32), 6)"), 7, 1),
    (FLAT + "tl.load(x_ptr + i + 65, mask=i % 128 < 64, other=0)", 2**20, 1024),
    (FLAT + "tl.load(x_ptr + i + 64, mask=i % 128 <= 64, other=0)", 2**20, 1024),
    (FLAT + "tl.load(x_ptr + i - 64, mask=i % 128 < 64, other=0)", 2**20, 1024),
    (FLAT + "tl.load(x_ptr + i)", 2047, 2),
    (FLAT + "tl.load(x_ptr + i, mask=i <= 15, other=0)", 15, 1),
    (FLAT + "tl.load(x_ptr + (-i + 2) // 3 + 4, mask=i < 15, other=0)", 5, 1),  # on a GPU, -4 // 3 is -1
    (FLAT + "tl.load(x_ptr + (-i + 2) % 3, mask=i < 15, other=0)", 3, 1),
    (FLAT + "tl.load(x_ptr + i // 4 - 2, mask=i // 4 - 2 < 9, other=0)", 9, 1),
    (FLAT + "at = tl.minimum(tl.load(x_ptr).to(tl.int32), 6)\ntl.load(x_ptr + at * 2 + 1)", 14, 1),
    (FLAT + "at = tl.maximum(tl.load(x_ptr).to(tl.int32), 0)\ntl.load(x_ptr + at)", 14, 1),
    (FLAT + "tl.store(x_ptr + i * 3 % 8, 1)", 7, 1),
    (TILES + "tl.load(x_ptr + m * 48 + n)", 160 * 48 - 1, 30),
    (TILES.replace("% height", "% 4") + "tl.load(x_ptr + m * 48 + n)", 160 * 48, 30),
    (FLAT + "tl.load(x_ptr + i * 4194304, mask=i < 1024, other=0)", 2**32, 1),  # the offset overflows 32 bits
    (FLAT + "tl.load(x_ptr + i * 4194304 // 4194304, mask=i < 1024, other=0)", 1024, 1),
    (FLAT + "tl.load(x_ptr + i, mask=(i < 9) | (i > 20), other=0)", 9, 1),
    (LOOP.format(mask="").replace("i *", "0 *"), 100, 1),
    (LOOP.format(mask=", mask=k_col < 101, other=0").replace("i *", "0 *"), 100, 1),
    (FLAT + "tl.load(y + i, mask=i < 0, other=0)", 1, 1),  # `y` is not a pointer
]  # fmt: skip


@pytest.mark.parametrize(("lines", "size", "programs"), INSIDE)
def test_accesses_in_bounds_are_proven(lines: str, size: int, programs: int) -> None:
    assert proven_of(lines, size, programs)[-1]


@pytest.mark.parametrize(("lines", "size", "programs"), OUTSIDE)
def test_accesses_out_of_bounds_are_not_proven(lines: str, size: int, programs: int) -> None:
    assert not proven_of(lines, size, programs)[-1]


def test_row_and_column_lanes_are_distinct_variables() -> None:
    lanes = "k = tl.arange(0, 32)\nrow = k[:, None]\ncol = k[None, :]\n"
    assert proven_of(lanes + "tl.load(x_ptr + row - col + 31)", 63)[-1]
    assert not proven_of(lanes + "tl.load(x_ptr + row - col)", 1)[-1]


def test_device_coordinates_are_bounded_by_their_group_size() -> None:
    lines = FLAT + "tl.load(x_ptr + index * 3 + i % 3, mask=index * 3 + i % 3 < {}, other=0)"
    assert proven_of(lines.format(10), 10, index=4)[-1] and not proven_of(lines.format(11), 10, index=4)[-1]


def test_known_bound_of_a_sum_limits_sums_of_its_multiples() -> None:
    x, y, z = variable("x", 5), variable("y", 4), variable("z", 3)
    ranges = Ranges([Fact(x * 4 + y - 10, -FAR, -1)])
    assert ranges.bounds(x * 12 + y * 3 + z) == (0, 29)
    assert ranges.bounds(x) == (0, 2)
    assert Ranges([Fact(x, 7, 9)]).is_empty


def everywhere(expr: Expr, sizes: dict[str, int]) -> Iterator[dict[str, int]]:
    for coordinates in np.ndindex(*sizes.values()):
        yield dict(zip(sizes, map(int, coordinates), strict=True))


def test_ranges_contain_every_value() -> None:
    from test_expr import SIZES, random_expr

    from meshgen.codegen.expr import evaluate

    rng = np.random.default_rng(3)
    for _ in range(150):
        facts = [Fact(random_expr(rng, 2), *sorted(map(int, rng.integers(-6, 25, 2)))) for _ in range(3)]
        ranges, expr = Ranges(facts), random_expr(rng, 3)
        low, high = ranges.bounds(expr)
        for at in everywhere(expr, SIZES):
            if all(fact.low <= evaluate(fact.expr, at) <= fact.high for fact in facts):
                assert not ranges.is_empty and low <= evaluate(expr, at) <= high
    assert Ranges().bounds(constant(3)) == (3, 3)


def given(source: KernelSource, graph: Graph) -> Given:
    return launch_facts_of(source, graph, ONE)


def damaged(text: str, rng: np.random.Generator) -> str:
    """Return the source with one constant changed, or with a mask or a clamp removed."""
    start = text.index('"""\n', text.index("@triton.jit\ndef layouts")) + 4
    head, tail = text[:start], re.sub(r"  #.*", "", text[start:])
    numbers = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", tail))
    match int(rng.integers(5)):
        case 0 if "mask" in tail:
            return head + re.sub(r", mask=.*, other=0\)", ")", tail, count=1)
        case 1 if "tl.maximum" in tail:
            return head + tail.replace("tl.maximum(", "tl.minimum(", 1)
        case _ if numbers:
            number = numbers[int(rng.integers(len(numbers)))]
            replacement = int(number[0]) * int(rng.choice([0, 1, 1, 2])) + int(rng.choice([1, 1, 2]))
            return head + tail[: number.start()] + str(replacement) + tail[number.end() :]
        case _:
            return text


def test_mutated_kernel_is_proven_only_if_in_bounds() -> None:
    """Compare proofs with the interpreter, which checks each address: it must not reject a proven access."""
    refused = 0
    for seed in range(70):
        graph = random_elementwise_graph(seed)
        source = kernel_source("layouts", graph, ONE)
        text = damaged(source.text, np.random.default_rng(seed))
        try:
            for start in (-2000000000, 2000000000):
                launch(replace(source, text=text), graph, arguments(graph, seed, start))
        except RuntimeFailure as error:
            refused += "outside of" in str(error)
            is_proven = all(proven(code_of(text, "layouts"), given(source, graph)))
            assert "outside of" not in str(error) or not is_proven, text
        assert not unproven(source.code, given(source, graph))
    assert refused >= 10


def lookup() -> Graph:
    b = Body("f32[6,4]", "i32[3]")
    b.inputs[0].name, b.inputs[1].name = "table", "places"
    indices = b.op("reshape", b.inputs[1], to="i32[3,1]")
    rows = b.op("gather", b.inputs[0], indices, to="f32[3,4]", offset_dims=(1,), collapsed_slice_dims=(0,),
                operand_batching_dims=(), start_indices_batching_dims=(), start_index_map=(0,), index_vector_dim=1,
                slice_sizes=(1, 4))  # fmt: skip
    return b.done(b.op("add", rows, rows))


PROGRAMS = ("gains/copy-operands", "gains/masked-dot-to-ragged", "gains/scatter-to-rows", "form-attention.gradient", "loop-to-recurrence",
            "gains/all-gather-sink", "gains/row-sums-to-runs", "gains/split-reduction.scan", "split-reduction.top-k")  # fmt: skip


def test_kernel_text_matches_its_index_code() -> None:
    """Compare both forms of a kernel, since proofs use the index code and compilers use the text."""
    templates = set[str]()
    for program in PROGRAMS:
        executable = api.plan(PASSES / f"{program}.mlir", target="cuda:sm_90")
        for name, body in executable.plan.kernels.items():
            for source in itertools.islice(kernel_sources(name, body, executable.mesh), 3):
                facts = launch_facts_of(source, body, executable.mesh)
                assert questions(code_of(source.text, source.entry), facts) == questions(source.code, facts), (
                    source.text
                )
                templates.add(source.template)
    assert templates == TEMPLATES.keys() - {"empty", "select_and_scatter"}


@pytest.mark.parametrize("left_out", ["tl.maximum", "tl.minimum"])
def test_loaded_indices_are_proven_by_their_clamp(left_out: str) -> None:
    graph = lookup()
    source = kernel_source("layouts", graph, ONE)
    assert not unproven(source.code, given(source, graph))
    opposite = "tl.minimum" if left_out == "tl.maximum" else "tl.maximum"
    text = source.text.replace(f"{left_out}(", f"{opposite}(")
    assert not all(proven(code_of(text, "layouts"), given(source, graph)))


@pytest.mark.parametrize("kind", ["map", "dot"])
def test_unproven_access_is_masked(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that unproven loads get bounds masks in a second attempt, which is then proven."""
    attempts = list[int]()

    def unproven_at_first(code: Sequence[Statement], given: Given) -> list[Access]:
        attempts.append(1)
        assert not unproven(code, given)
        return accesses(code, given)[0] if len(attempts) == 1 else []

    monkeypatch.setattr(triton_source, "unproven", unproven_at_first)
    b = Body("f32[40,70]", "f32[70,50]")
    graph = b.done(b.dot(*b.inputs, ((1,), (0,)))) if kind == "dot" else lookup()
    source = check(graph, length=70)
    assert source.text.count("place") > 5 and len(attempts) == 2


def test_unprovable_kernel_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(code: Sequence[Statement], given: Given) -> list[Access]:
        return accesses(code, given)[0]

    monkeypatch.setattr(triton_source, "unproven", never)
    with pytest.raises(CodegenError, match=r"MG0301.*no proof that it stays inside.*table_ptr"):
        kernel_source("k", lookup(), ONE)


@pytest.mark.parametrize(
    ("dtype", "extreme"), [("ui64", 2**64 - 1), ("i64", -(2**63)), ("i32", -(2**31)), ("ui32", 2**32 - 1)]
)
def test_start_indices_of_every_integer_width_are_proven(dtype: str, extreme: int) -> None:
    """Check integer arithmetic that exceeds 64 bits in Python, and start indices computed from it."""
    b = Body(f"{dtype}[5]", f"{dtype}[]")
    x, at = b.inputs
    moved = b.op("subtract", b.op("multiply", x, b.splat(extreme, x)), b.splat(extreme, x))
    start = b.op("add", at, b.constant(extreme, dtype))
    window = b.op("dynamic_slice", moved, start, to=f"{dtype}[3]", slice_sizes=(3,))
    check(b.done(b.op("add", window, window)))


def test_device_functions_access_no_memory() -> None:
    assert [name for name, text in FUNCTIONS.items() if "tl.load" in text or "tl.store" in text] == []
