"""Programs of any length pass every stage. A program with too many nested regions is refused with a location."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import ProgramError
from meshgen.ir.canonical import canonical_order
from meshgen.ir.limits import MAX_NESTING
from meshgen.ir.regions import nodes_with_depth
from meshgen.mlir.text import parse_text

FRAMES = 500  # Python stack frames for tests of long chains: half of the default limit
LENGTH = 550
T, INDEX = "tensor<8x4xf32>", "tensor<i32>"
LINES = {
    "element-wise": (f"%N = stablehlo.tanh %P : {T}", ""),
    "index maps": (f"%N = stablehlo.reverse %P, dims = [0] : {T}", ""),
    "conditions": (
        "%tI = stablehlo.slice %P [0:7, 0:4] : (tensor<8x4xf32>) -> tensor<7x4xf32>\n"
        "%N = stablehlo.pad %tI, %z, low = [1, 0], high = [0, 0], interior = [0, 0] : (tensor<7x4xf32>, tensor<f32>) -> tensor<8x4xf32>",
        "%z = stablehlo.constant dense<0.0> : tensor<f32>",
    ),
    "look-ups": (
        f"%N = stablehlo.dynamic_slice %P, %k, %k, sizes = [8, 4] : ({T}, {INDEX}, {INDEX}) -> {T}",
        f"%k = stablehlo.constant dense<0> : {INDEX}",
    ),
    "annotations": (
        f'%aI = sdy.sharding_constraint %P <@mesh, [{{"x"}}, {{}}]> : {T}\n%tI = stablehlo.tanh %aI : {T}\n'
        f'%N = sdy.sharding_constraint %tI <@mesh, [{{}}, {{"y"}}]> : {T}',
        "",
    ),
    "collectives": (
        '%N = "stablehlo.collective_permute"(%P) <{source_target_pairs = dense<[[0,1],[1,2],[2,3],[3,0]]> : tensor<4x2xi64>, '
        f"channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}> : ({T}) -> {T}",
        "",
    ),
}  # fmt: skip


def chain(line: str, before: str, length: int) -> str:
    lines = [line.replace("%P", f"%v{n}").replace("%N", f"%v{n + 1}").replace("I ", f"{n} ").replace("I,", f"{n},") for n in range(length)]  # fmt: skip
    body = "\n".join([before, *lines])
    mesh = 'sdy.mesh @mesh = <["x"=2, "y"=2]>\n'
    return f"{mesh}func.func @main(%v0: {T}) -> {T} {{\n{body}\nreturn %v{length} : {T}\n}}\n"


@pytest.fixture
def small_stack() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(FRAMES)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("small_stack")
@pytest.mark.parametrize("kind", LINES)
def test_chain_longer_than_the_stack_compiles_and_loads(kind: str, tmp_path: Path) -> None:
    length = LENGTH // {"annotations": 3, "conditions": 2}.get(kind, 1)  # each link of these chains has 2 or 3 ops
    (tmp_path / "m.mlir").write_text(chain(*LINES[kind], length))
    module = str(tmp_path / "m.mgx")
    words = ["--target", "cpu", *(["--mesh", "x=4"] if kind == "collectives" else [])]
    text = (tmp_path / "m.mlir").read_text()
    if kind == "collectives":
        (tmp_path / "m.mlir").write_text(text.partition("\n")[2])
    assert main(["compile", str(tmp_path / "m.mlir"), "-o", module, *words]) == 0
    assert main(["run", module]) == 0


@pytest.mark.usefixtures("small_stack")
def test_long_chain_of_generated_values_is_stored_midway(tmp_path: Path) -> None:
    """A kernel recomputes an iota chain that it reads only up to a limited length. A longer chain is stored in memory
    in between.
    """
    lines = [f"%i{n + 1} = stablehlo.add %i{n}, %w : tensor<8xi32>" for n in range(LENGTH)]
    start = "%i0 = stablehlo.iota dim = 0 : tensor<8xi32>\n%w = stablehlo.iota dim = 0 : tensor<8xi32>\n"
    end = f"%r = stablehlo.add %x, %i{LENGTH} : tensor<8xi32>\nreturn %r : tensor<8xi32>\n"
    text = f"func.func @main(%x: tensor<8xi32>) -> tensor<8xi32> {{\n{start}" + "\n".join(lines) + f"\n{end}}}\n"
    executable = mg.compile(text, {"x": 1}, target="cpu")
    executable.save(tmp_path / "m.mgx")
    x = np.arange(8, dtype=np.int32)
    (result,) = mg.load(tmp_path / "m.mgx").run([x])
    assert np.array_equal(result, x * (LENGTH + 2))


@pytest.mark.usefixtures("small_stack")
@pytest.mark.parametrize(
    "command", [["check"], ["opt", "--passes", "propagate,materialize,optimize,partition,fuse,schedule"], ["explain"]]
)
def test_every_command_handles_a_long_chain(command: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(chain(*LINES["element-wise"], LENGTH))
    assert main([command[0], str(tmp_path / "m.mlir"), *command[1:]]) == 0


@pytest.mark.usefixtures("small_stack")
def test_long_traced_program_compiles() -> None:
    def model(x: Any) -> Any:
        for _ in range(LENGTH):
            x = mg.tanh(x)
        return x

    executable = mg.compile(model, {"x": 2}, args=["f32[8,4]"], target="cpu")
    assert len(executable.stages["import"].graph.nodes) == LENGTH


def nested(depth: int) -> str:
    """Return a program with branches nested `depth` levels deep."""
    head = '%r{} = "stablehlo.if"(%p) ({{\n'
    lines = [head.format(n) for n in range(depth)]
    lines.append(f"%t = stablehlo.tanh %x : {T}\nstablehlo.return %t : {T}\n")
    for n in reversed(range(depth)):
        end = "return" if n == 0 else "stablehlo.return"
        lines.append(f"}}, {{\nstablehlo.return %x : {T}\n}}) : (tensor<i1>) -> {T}\n{end} %r{n} : {T}\n")
    return f"func.func @main(%p: tensor<i1>, %x: {T}) -> {T} {{\n{''.join(lines)}}}\n"


def called(depth: int) -> str:
    """Return the same computation as `nested(depth)`, with each level in a function of its own."""
    functions = [
        f'func.func private @f{n}(%p: tensor<i1>, %x: {T}) -> {T} {{\n%r = "stablehlo.if"(%p) ({{\n'
        f"%c = func.call @f{n + 1}(%p, %x) : (tensor<i1>, {T}) -> {T}\nstablehlo.return %c : {T}\n}}, {{\n"
        f"stablehlo.return %x : {T}\n}}) : (tensor<i1>) -> {T}\nreturn %r : {T}\n}}\n"
        for n in range(depth)
    ]
    main_ = f"func.func @main(%p: tensor<i1>, %x: {T}) -> {T} {{\n%r = func.call @f0(%p, %x) : (tensor<i1>, {T}) -> {T}\nreturn %r : {T}\n}}\n"
    last = f"func.func private @f{depth}(%p: tensor<i1>, %x: {T}) -> {T} {{\n%r = stablehlo.tanh %x : {T}\nreturn %r : {T}\n}}\n"
    return "".join(["module {\n", main_, *functions, last, "}\n"])


def test_program_at_nesting_limit_compiles_and_loads(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_text(nested(MAX_NESTING))
    module = str(tmp_path / "m.mgx")
    assert main(["compile", str(tmp_path / "m.mlir"), "-o", module, "--mesh", "x=2", "--target", "cpu"]) == 0
    assert main(["run", module]) == 0
    assert main(["inspect", module, "--schedule"]) == 0
    assert main(["check", str(tmp_path / "m.mlir"), "--mesh", "x=2"]) == 0


def test_nested_calls_import_like_nested_branches() -> None:
    programs = [parse_text(write(MAX_NESTING)).graph for write in (nested, called)]
    nested_ops, called_ops = ([(depth, node.op) for node, depth in nodes_with_depth(graph)] for graph in programs)
    assert nested_ops == called_ops and max(nested_ops) == (MAX_NESTING, "tanh")


@pytest.mark.usefixtures("small_stack")
@pytest.mark.parametrize("depth", [MAX_NESTING + 1, LENGTH])
@pytest.mark.parametrize("write", [nested, called])
def test_program_beyond_nesting_limit_is_refused_with_location(write: Callable[[int], str], depth: int) -> None:
    with pytest.raises(ProgramError, match=r"MG0006|nested too deeply") as caught:
        parse_text(write(depth), "m.mlir")
    (fault, *_) = caught.value.diagnostics
    assert fault.loc is not None and fault.loc.line > 0


def test_canonical_order_handles_deeply_nested_regions() -> None:
    graph = parse_text(nested(60)).graph
    assert canonical_order(graph) == graph.nodes
