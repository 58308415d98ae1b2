"""What is printed by a pattern, or read as a line before was, is what it would be by itself."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from xdsl.printer import Printer

from meshgen.errors import ProgramError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.alike import Lines
from meshgen.mlir.lines import Pattern, Patterns, quoted
from meshgen.mlir.text import parse_text, print_text, print_texts
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.random_programs import program_of
from tests.trials import trials

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = [FOLDER / name for name in ("pipeline_stages.mlir", "transformer_block.mlir")]
F32 = TensorType((4,), "f32")


def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print and read everything by itself from now on."""
    monkeypatch.setattr(Patterns, "of", lambda *_: None)
    monkeypatch.setattr(Lines, "again", lambda *_: None)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_texts_of_stages_are_as_without_patterns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = run_stages(parse_text(path.read_text()), Options("cpu"), Timing())
    texts = print_texts(stages)
    one_by_one(monkeypatch)
    assert texts == {stage: print_text(module) for stage, module in stages.items()}
    read = {stage: print_text(parse_text(text)) for stage, text in texts.items()}
    monkeypatch.undo()
    assert read == {stage: print_text(parse_text(text)) for stage, text in texts.items()}


@pytest.mark.parametrize("seed", trials(20))
def test_random_programs_are_as_without_patterns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = print_text(program_of(seed))
    again = print_text(parse_text(text))
    one_by_one(monkeypatch)
    assert print_text(program_of(seed)) == text
    assert print_text(parse_text(text)) == again


def printed(graph: Graph) -> list[str]:
    return [line.strip() for line in print_text(Module(make_mesh({"x": 2}), graph)).splitlines() if " = " in line]


def test_equal_operands_are_no_pattern_for_others() -> None:
    a, b = Value(F32, "a"), Value(F32, "b")
    graph = Graph("main", [a, b])
    for operands in ([a, a], [a, b], [b, b]):
        graph.add("add", operands, [F32])
    lines = [line for line in printed(graph) if "add" in line]
    assert [line.partition(" : ")[0] for line in lines] == [
        "%0 = stablehlo.add %a, %a",
        "%1 = stablehlo.add %a, %b",
        "%2 = stablehlo.add %b, %b",
    ]


def test_attributes_that_are_equal_numbers_are_told_apart() -> None:
    graph = Graph("main")
    for value in (0.0, -0.0, np.nan, 1.0):
        graph.add("constant", [], [TensorType((), "f32")], {"value": np.array(value, np.float32)})
    texts = [line.partition("dense<")[2].partition(">")[0] for line in printed(graph) if "dense" in line]
    assert len({*texts}) == 4 and texts[1].startswith("-0")


def test_patterns_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same pattern is what differs in names only."""
    found: list[Pattern | None] = []
    of = Patterns.of
    monkeypatch.setattr(Patterns, "of", lambda *args: found.append(of(*args)) or found[-1])
    a = Value(F32, "a")
    graph = Graph("main", [a])
    last = graph.add("negate", [a], [F32]).result
    graph.add("negate", [last], [F32], name="again")
    print_text(Module(make_mesh({"x": 2}), graph))
    assert found[0] is not None and found[0] is found[1]


@pytest.mark.parametrize("content", [b"plain", b'a "b" \\ c', b"\x00\x1f\x7f\xff", "é %s".encode(), b""])
def test_strings_are_written_as_xdsl_writes_them(content: bytes) -> None:
    stream = StringIO()
    Printer(stream=stream).print_bytes_literal(content)
    assert quoted(content) == stream.getvalue()


def test_a_line_like_one_before_is_checked_on_its_own_values() -> None:
    text = """func.func @main(%a: tensor<4xf32>, %b: tensor<8xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  %1 = stablehlo.negate %b : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}
"""
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0101" and fault.loc is not None and fault.loc.line == 3


def test_a_line_like_one_before_keeps_its_own_place_and_name() -> None:
    text = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  %name = stablehlo.negate %0 : tensor<4xf32>
  func.return %name : tensor<4xf32>
}
"""
    first, second = parse_text(text).graph.nodes
    assert second.operands == first.results and second.result.name == "name"
    assert first.loc is not None and second.loc is not None and (first.loc.line, second.loc.line) == (2, 3)
