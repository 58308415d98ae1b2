"""Tests of size limits: oversized programs are refused before memory or time is spent, and long messages are shortened."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from meshgen.budget import MAX_OPERATIONS
from meshgen.cli import main
from meshgen.codegen.scheduling.memory import Lifetime, place
from meshgen.errors import CodegenError, Diagnostic, ProgramError, listed, shortened
from meshgen.ir.encode_values import array_from_json, array_to_json
from meshgen.ir.splats import splat_element, stored_bytes, uniform_element
from meshgen.mlir.text import parse_text, print_text

T = "tensor<4xf32>"


def tanh(kind: str) -> str:
    return f"func.func @main(%a: {kind}) -> {kind} {{\n  %0 = stablehlo.tanh %a : {kind}\n  return %0 : {kind}\n}}\n"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("tensor<2147483648x2147483648xf32>", "bytes and more"),  # more than 2^63
        ("tensor<2147483648x1048576xf64>", "bytes and more"),
        (f"tensor<{'1x' * 33}f32>", "rank 33 is too large"),
        (f"tensor<{'1x' * 100}f32>", "rank 100 is too large"),
    ],
    ids=["2^64", "2^54", "rank 33", "rank 100"],
)
def test_oversized_tensor_type_is_refused_at_its_location(kind: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(tanh(kind), "m.mlir")
    assert [(fault.code, str(fault.loc)) for fault in caught.value.diagnostics] == [
        ("MG0108", "m.mlir:1"),
        ("MG0108", "m.mlir:2"),
    ]


def test_tensors_at_size_limits_are_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parse_text(tanh("tensor<2147483648x1048576xf32>"))
    file = tmp_path / "m.mlir"
    file.write_text(tanh(f"tensor<{'1x' * 31}4xf32>"))
    assert main(["check", str(file), "--mesh", "a=2"]) == 0


def test_oversized_constant_is_refused() -> None:
    text = "func.func @main() -> tensor<f32> {\n  %0 = stablehlo.constant dense<1.0> : tensor<9223372036854775807x4xf32>\n  %1 = stablehlo.constant dense<1.0> : tensor<f32>\n  return %1 : tensor<f32>\n}\n"
    with pytest.raises(ProgramError, match="bytes and more") as caught:
        parse_text(text, "m.mlir")
    assert str(caught.value.diagnostics[0].loc) == "m.mlir:2"


def test_buffers_beyond_the_address_space_are_refused() -> None:
    lifetimes = [Lifetime(1 << 60, (0, n), (0, n + 1), True) for n in range(9)]
    with pytest.raises(CodegenError, match=r"MG0303.*more than the address space"):
        place(lifetimes)


def calls(levels: int, twice: bool = False) -> str:
    """Return a program of `levels` functions, each of which calls the next one once, or `twice`."""
    text = f"func.func @main(%a: {T}) -> {T} {{\n  %0 = call @f0(%a) : ({T}) -> {T}\n  return %0 : {T}\n}}\n"
    for n in range(levels):
        call = f"call @f{n + 1}"
        more = f"  %1 = {call}(%0) : ({T}) -> {T}\n  return %1 : {T}\n" if twice else f"  return %0 : {T}\n"
        text += f"func.func private @f{n}(%a: {T}) -> {T} {{\n  %0 = {call}(%a) : ({T}) -> {T}\n{more}}}\n"
    return f"{text}func.func private @f{levels}(%a: {T}) -> {T} {{\n  %0 = stablehlo.tanh %a : {T}\n  return %0 : {T}\n}}\n"


def test_long_call_chain_is_inlined() -> None:
    assert [node.op for node in parse_text(calls(1500)).graph.nodes] == ["tanh"]


def test_exponential_inlining_is_refused_before_expansion() -> None:
    assert len(parse_text(calls(8, twice=True)).graph.nodes) == 256
    with pytest.raises(ProgramError, match=r"operations in each @f0.* has 2\^50 operations") as caught:
        parse_text(calls(50, twice=True), "m.mlir")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0108" and str(fault.loc) == "m.mlir:2" and f"{MAX_OPERATIONS:,}" in fault.hint


def test_recursion_is_refused_with_its_call_chain() -> None:
    text = calls(3).replace(f"  %0 = stablehlo.tanh %a : {T}", f"  %0 = call @f1(%a) : ({T}) -> {T}")
    with pytest.raises(ProgramError, match="@f1 -> @f2 -> @f3 -> @f1"):
        parse_text(text)


def test_long_names_in_messages_are_shortened_in_the_middle() -> None:
    name = "a" * 500_000 + "b" * 500_000
    fault = Diagnostic("MG0104", f"there is no {name} here", None, ((name, None),), f"call it {name}")
    assert len(str(fault)) < 1500
    assert fault.message.startswith("there is no aaa") and fault.message.endswith("bbb here")
    assert "[... 999,600 characters ...]" in fault.message
    assert shortened("word " * 50) == "word " * 50
    assert 8000 < len(shortened("word " * 10_000)) < 8100


def test_long_lists_in_messages_are_shortened() -> None:
    assert listed([]) == "none" and listed(["a", "b"]) == "a, b"
    assert listed([f"@f{n}" for n in range(10_000)]).endswith("@f9, and 9,990 more")
    functions = "".join(f"func.func @f{n}() {{ return }}\n" for n in range(400))
    with pytest.raises(ProgramError, match="and 390 more") as caught:
        parse_text(functions)
    assert len(str(caught.value)) < 1000


def test_splat_constants_are_never_materialized() -> None:
    huge = np.broadcast_to(np.float32(1.5), (1 << 20, 1 << 20))
    assert uniform_element(huge) == splat_element(huge) == np.float32(1.5)
    assert stored_bytes(huge) == np.float32(1.5).tobytes()
    decoded = array_from_json(array_to_json(huge))
    assert decoded.shape == huge.shape and not any(decoded.strides)
    negative_zero = uniform_element(np.broadcast_to(np.float32(-0.0), (1 << 20, 1 << 20)))
    assert negative_zero is not None and np.signbit(negative_zero)  # the splat is -0.0
    assert uniform_element(np.array([0.0, -0.0])) is None and uniform_element(np.array([-0.0, -0.0])) is not None
    assert splat_element(np.zeros((2, 3))) is None and splat_element(np.zeros(())) is None


def test_terabyte_splat_compiles_but_is_too_large_to_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    kind, file = "tensor<1000000x1000000xf32>", tmp_path / "m.mlir"
    text = f"func.func @main(%x: {T}) -> ({kind}, {T}) {{\n  %0 = stablehlo.constant dense<1.0> : {kind}\n  return %0, %x : {kind}, {T}\n}}\n"
    file.write_text(text)
    assert print_text(parse_text(text)).count("dense<1.000000e+00>") == 1
    assert main(["compile", str(file), "-o", str(tmp_path / "m.mgx"), "--mesh", "a=2", "--target", "cpu"]) == 0
    assert main(["check", str(file), "--mesh", "a=2"]) == 4
    assert "MG0606" in capsys.readouterr().err


def test_check_refuses_too_many_simulated_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    file = tmp_path / "m.mlir"
    file.write_text(tanh(T))
    assert main(["check", str(file), "--mesh", "a=1048576", "--memory", "4GB"]) == 4
    assert "1048576 simulated devices need at least" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [f"tensor<{'9' * 400}xf32>", f"tensor<{2**60}x{2**60}xi8>"])
def test_oversized_dims_are_refused_with_byte_count(kind: str) -> None:
    with pytest.raises(ProgramError, match=r"MG0108.*bytes and more"):
        parse_text(tanh(kind))
