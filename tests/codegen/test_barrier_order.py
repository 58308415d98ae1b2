"""Tests of optimization barriers: kernels fuse across them, launches keep their order, nothing is copied."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meshgen.api import plan
from meshgen.codegen.fusion.ordering import without_barriers
from meshgen.codegen.passes.expand_complex import expand_complex
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.schedule import launches_of
from meshgen.compilation import Compilation
from meshgen.compiled.executable import Executable
from meshgen.ir.graph import Graph, TensorType
from meshgen.mlir.text import parse_text
from meshgen.runtime.loading import load
from meshgen.runtime.validation.checker import check

M = "tensor<512x512xf32>"
DOT = f"contracting_dims = [1] x [0] : ({M}, {M}) -> {M}"


def program(*lines: str, results: str, arguments: str = f"%x: {M}, %w: {M}, %g: {M}") -> str:
    body = "\n".join(f"  {line}" for line in lines)
    types = ", ".join([M] * len(results.split(", ")))
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\n  return {results} : {types}\n}}\n"


def barrier(results: str, operands: str) -> str:
    return f"{results} = stablehlo.optimization_barrier {operands} : {', '.join([M] * len(operands.split(', ')))}"


def planned(text: str) -> Executable:
    executable = plan(text, {"x": 1}, target="cuda:sm_90")
    check(executable.plan, executable.mesh)
    return executable


RECOMPUTED = program(
    f"%h = stablehlo.dot_general %x, %w, {DOT}",
    f"%s = stablehlo.sine %h : {M}",
    f"%c = stablehlo.dot_general %s, %g, {DOT}",
    barrier("%1:3", "%x, %w, %c"),
    f"%h2 = stablehlo.dot_general %1#0, %1#1, {DOT}",
    f"%r = stablehlo.dot_general %1#2, %h2, {DOT}",
    results="%r",
)


def test_recomputation_waits_for_the_gradient() -> None:
    """Check that the recomputed GEMM waits for the gradient, which only the barrier enforces."""
    executable = planned(RECOMPUTED)
    assert len(executable.plan.items) == 4
    fused = executable.stages["fuse"]
    (node,) = [node for node in fused.graph.nodes if node.op == "optimization_barrier"]
    program = launches_of(fused, default_costs("cuda:sm_90"))
    producers = [index for index, launch in enumerate(program.nodes) if node.operands[1] in launch.results]
    (reader,) = [index for index, launch in enumerate(program.nodes) if node.results[0] in launch.operands]
    assert {*producers} <= {*program.tasks[reader].needs}
    assert program.storages.root[node.results[0]] is fused.graph.inputs[0]  # the barrier's result is not copied


def test_kernels_are_fused_across_barriers() -> None:
    """Check an element-wise op in a GEMM's epilogue, and barriers that forward index maps and constants."""
    text = program(
        f"%h = stablehlo.dot_general %x, %w, {DOT}",
        f"%t = stablehlo.transpose %g, dims = [1, 0] : ({M}) -> {M}",
        f"%c = stablehlo.constant dense<2.0> : {M}",
        barrier("%1:3", "%h, %t, %c"),
        f"%s = stablehlo.sine %1#1 : {M}",
        f"%m = stablehlo.multiply %s, %1#2 : {M}",
        f"%r = stablehlo.multiply %m, %1#0 : {M}",
        results="%r",
    )
    executable = planned(text)
    assert len(executable.plan.items) == 1
    assert "optimization_barrier" not in executable.as_text("fuse")


def test_recomputed_dots_are_not_merged_with_the_originals() -> None:
    module = parse_text(RECOMPUTED)
    plain, order = without_barriers(module.graph)
    assert [node.op for node in plain.nodes].count("dot_general") == 4
    (recomputed, last) = [node for node in plain.nodes if node in order]
    gradient = plain.nodes[2].result
    assert order[recomputed] == (*plain.inputs[:2], gradient) == order[last] and recomputed.operands == plain.inputs[:2]
    assert without_barriers(plain) == (plain, {})


def test_value_used_only_by_a_barrier_is_erased() -> None:
    graph = Graph("f")
    graph.inputs = parse_text(RECOMPUTED).graph.inputs
    x, kind = graph.inputs[0], TensorType((512, 512), "f32")
    unused = graph.add("sine", [x], [kind]).result
    passed = graph.add("optimization_barrier", [x, unused], [kind, kind]).results[0]
    graph.outputs = [graph.add("cosine", [passed], [kind]).result]
    assert [node.op for node in without_barriers(graph)[0].nodes] == ["cosine"]


@pytest.mark.parametrize("is_behind", [False, True])
def test_donated_argument_is_not_overwritten_before_delayed_read(is_behind: bool, tmp_path: Path) -> None:
    """Check that %r may overwrite %x, unless a barrier delays a read of %x until users of %r finish."""
    text = program(
        f"%r = stablehlo.add %x, %g : {M}",
        f"%c = stablehlo.dot_general %r, %w, {DOT}",
        barrier("%1:2", "%x, %c" if is_behind else "%x, %w"),
        f"%d = stablehlo.dot_general %1#0, %g, {DOT}",
        results="%r, %c, %d",
        arguments=f"%x: {M} {{tf.aliasing_output = 0 : i32}}, %w: {M}, %g: {M}",
    ).replace("512", "64")
    executable = plan(text, {"x": 1}, target="cpu")
    check(executable.plan, executable.mesh)
    assert bool(executable.plan.overwritten_inputs) != is_behind
    executable.save(tmp_path / "step.mgx")
    rng = np.random.default_rng(0)
    x, w, g = (rng.integers(-3, 4, (64, 64)).astype(np.float32) for _ in range(3))
    results = load(tmp_path / "step.mgx").run([x, w, g])
    for result, expected in zip(results, [x + g, (x + g) @ w, x @ g], strict=True):
        np.testing.assert_array_equal(result, expected)


def test_barriers_of_complex_values_take_real_and_imaginary_parts() -> None:
    text = RECOMPUTED.replace("xf32", "xcomplex<f32>")
    module = replace(parse_text(text), stage="partition")
    after = expand_complex(module, Compilation())
    (node,) = [node for node in after.graph.nodes if node.op == "optimization_barrier"]
    assert [value.type.dtype for value in node.operands] == ["f32"] * 6
