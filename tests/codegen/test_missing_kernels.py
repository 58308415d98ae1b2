"""Tests of the diagnostics for ops without kernels: all are reported together, each with its executions per step."""

from __future__ import annotations

import pytest

from meshgen import api
from meshgen.codegen.missing_kernels import missing_kernel_faults, require_kernels
from meshgen.errors import CodegenError, Location
from meshgen.ir.graph import Graph
from tests.codegen.bodies import Body


def sorting(line: int, *, and_random: bool = False) -> Graph:
    b = Body("f32[4]")
    result = b.op("lapack", b.inputs[0], to="f32[4]", routine="")
    result = b.op("rng", result, to="f32[4]") if and_random else result
    graph = b.done(result)
    for node in graph.nodes:
        node.loc = Location("model.py", line)
    return graph


def test_missing_ops_are_counted_and_sorted_by_frequency() -> None:
    first, second = missing_kernel_faults([(sorting(7, and_random=True), 2), (sorting(9), 12)])
    assert first.message == "no kernel can be generated for 'lapack' of f32[4]: 14 times a step, in 2 kernels"
    assert first.loc == Location("model.py", 7) and first.notes == (("also here", Location("model.py", 9)),)
    assert second.message == "no kernel can be generated for 'rng' of f32[4]: 2 times a step, in 1 kernel"


def test_long_lists_of_types_and_locations_are_truncated() -> None:
    bodies: list[tuple[Graph, int]] = []
    for size in range(1, 9):
        b = Body(f"f32[{size}]")
        graph = b.done(b.op("lapack", b.inputs[0], to=f"f32[{size}]", routine=""))
        graph.nodes[0].loc = Location("model.py", size)
        bodies.append((graph, 1))
    (fault,) = missing_kernel_faults(bodies)
    assert "f32[1]; f32[2]; f32[3] and 5 other types: 8 times a step, in 8 kernels" in fault.message
    assert fault.notes[-1] == ("and at 3 more places", None)


def test_missing_kernels_are_reported_before_source_generation() -> None:
    text = """func.func @f(%x: tensor<8x2053xf32>, %y: tensor<8x6xf32>) -> (tensor<8x1027xcomplex<f32>>, tensor<8x6xcomplex<f32>>) {
  %a = stablehlo.fft %x, type = RFFT, length = [2053] : (tensor<8x2053xf32>) -> tensor<8x1027xcomplex<f32>>
  %b = stablehlo.complex %y, %y : tensor<8x6xcomplex<f32>>
  return %a, %b : tensor<8x1027xcomplex<f32>>, tensor<8x6xcomplex<f32>>
}"""
    executable = api.plan(text, {"x": 2}, target="cuda:sm_90")
    with pytest.raises(CodegenError) as caught:
        executable.build()
    messages = " ".join(fault.message for fault in caught.value.diagnostics)
    assert "'fft'" in messages and "elements of type c64" in messages
    assert "source" not in executable.seconds
    require_kernels([api.plan("func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}", {"x": 2}).plan])  # fmt: skip


def test_remaining_complex_values_are_reported_with_a_hint() -> None:
    b = Body("c64[4]")
    (fault,) = missing_kernel_faults([(b.done(b.op("negate", b.inputs[0])), 1)])
    assert fault.message.startswith("kernels cannot hold elements of type c64")
    assert fault.hint and fault.hint.startswith("an operation has no form for real and imaginary parts")
