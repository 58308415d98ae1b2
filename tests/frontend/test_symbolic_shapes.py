"""JAX functions that are exported with symbolic shapes. At any sizes their results match JAX's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import ProgramError
from meshgen.ir.graph import Module
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.sharding.propagate import propagate
from meshgen.sizes.program import SIZE_QUERIES, with_shapes
from meshgen.testing.oracle import check

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
from jax import export, lax  # noqa: E402

Function = Callable[..., Any]


def softmax(x: Any, w: Any) -> Any:
    s = jax.nn.softmax(jnp.tanh(x @ w), axis=-1)
    return s.reshape(-1, 2, s.shape[-1] // 2) + jnp.mean(x)


def attention(x: Any, w: Any) -> Any:
    s = x @ w
    mask = jnp.tril(jnp.ones((s.shape[0], s.shape[0])))
    return jax.nn.softmax(jnp.where(mask > 0, s @ s.T, -1e9)) @ s


def padded(x: Any, w: Any) -> Any:
    y = jnp.pad(x, ((1, 2), (0, 0)))
    return jnp.concatenate([y[1:-2], x[::-1]], 0) + jnp.arange(2 * x.shape[0])[:, None]


def halves(x: Any, w: Any) -> Any:
    half = x.shape[0] // 2
    return x[half:] + x[:half] + lax.slice(x, (0, 0), (x.shape[0], 16), (2, 1))


def gathered(x: Any, w: Any) -> Any:
    rows = (jnp.arange(x.shape[0]) * 3) % x.shape[0]
    return jnp.take(x, rows, axis=0), x[rows, :], x[:, jnp.array([1, 2])], x[:, 1]


def loop(x: Any, w: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, c: jnp.sin(c) + jnp.arange(x.shape[0])[:, None], x)


def rows(x: Any, w: Any) -> Any:
    return lax.scan(lambda c, row: (c + row @ w, c), jnp.zeros((8,)), x)


def gradients(x: Any, w: Any) -> Any:
    return jax.grad(lambda x, w: jnp.sum(jnp.sin(softmax(x, w))), argnums=(0, 1))(x, w)


def ordered(x: Any, w: Any) -> Any:
    return jnp.sort(x, axis=0), jnp.argmax(x, axis=0), jnp.median(x @ w, axis=0)


def running(x: Any, w: Any) -> Any:
    return jnp.cumsum(x, axis=0), lax.cummax(x @ w, axis=1)


def factored(x: Any, w: Any) -> Any:
    matrices = x.reshape(-1, 4, 4)
    positive = matrices @ matrices.swapaxes(1, 2) + jnp.eye(4)
    return jnp.linalg.cholesky(positive), jnp.linalg.solve(positive, matrices), jnp.linalg.qr(matrices)[1]


FUNCTIONS = (softmax, attention, padded, halves, gathered, loop, rows, gradients, ordered, running, factored)


@cache
def exported(function: Function) -> str:
    """Return the text of a function whose argument has `2*b` rows."""
    (b,) = export.symbolic_shape("b")
    kinds = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2 * b, 16), (16, 8))]
    return str(export.export(jax.jit(function))(*kinds).mlir_module())


@cache
def imported(function: Function) -> Module:
    """Return the imported program. Tests share it and must not change it."""
    return parse_text(exported(function))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_program_with_symbolic_shape_matches_jax_at_any_size(function: Function) -> None:
    assert any(node.op in SIZE_QUERIES for node in imported(function).graph.nodes)
    printed = print_text(imported(function))
    reparsed = parse_text(printed)
    assert print_text(reparsed) == printed
    for count in (6, 10):
        module = with_shapes(reparsed, {"arg0": (count, 16)})
        assert not any(node.op in SIZE_QUERIES for node in module.graph.nodes)
        random = np.random.default_rng(count)
        args = [random.standard_normal(shape).astype(np.float32) for shape in ((count, 16), (16, 8))]
        bounds = error_bound(module.graph, args)
        expected = jax.tree.leaves(jax.jit(function)(*args))
        for actual, reference, bound in zip(evaluate(module.graph, args), expected, bounds, strict=True):
            assert actual.shape == reference.shape
            assert (np.abs(np.float64(actual) - np.float64(reference)) <= bound).all()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_symbolic_rows_are_sharded_evenly_or_unevenly(function: Function) -> None:
    for count, parts in ((8, 2), (6, 4)):  # 6 rows on 4 devices give shards of 2, 2, 2 and 0 rows
        program = mg.lower(
            exported(function), {"d": parts}, stage="propagate", args=[(count, 16), None], in_specs={"arg0": mg.P("d")}
        )
        annotation = program.in_annotations[0]
        assert annotation is not None and annotation.sharding.dims[0] == ("d",)
        source = with_shapes(imported(function), {"arg0": (count, 16)})
        source = replace(source, mesh=make_mesh({"d": parts}), in_annotations=program.in_annotations)
        result = check(source, pipeline=lambda _, lowered=program: mg.lower(lowered, stage="partition"))
        assert result.ok, result.faults


def test_shape_assertion_is_checked_at_given_sizes() -> None:
    module = imported(softmax)
    with pytest.raises(ProgramError) as caught:
        with_shapes(module, {"arg0": (7, 16)})
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0104" and fault.loc is not None
    assert "Division had remainder 1 when computing the value of 'b'" in fault.message
    with pytest.raises(ProgramError, match=r"Expected value >= 1 for dimension variable 'b'.* 'b' = 0 from"):
        with_shapes(module, {"arg0": (0, 16)})


def test_shape_option_fixes_open_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(exported(softmax))
    assert main(["check", str(file), "--shape", "arg0=6x16", "--mesh", "d=4", "--spec", "arg0=d,_"]) == 0
    capsys.readouterr()
    assert main(["check", str(file)]) == 0  # the command chooses the sizes
    assert "tried" in capsys.readouterr().err
    assert main(["explain", str(file)]) == 1
    error = capsys.readouterr().err
    assert "MG0208" in error and "--shape x=8x16" in error


F = "tensor<4xf32>"
LISTS = "%n = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xi32>\n%m = stablehlo.slice %n [0:1] : (tensor<4xi32>) -> tensor<1xi32>"


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            f"{LISTS}\n%0 = stablehlo.real_dynamic_slice %x, %m, %m, %m : ({F}, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> {F}",
            "MG0103",
            "known at run time only",
        ),
        (
            f"{LISTS}\n%1 = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n%0 = stablehlo.negate %x : {F}",
            "MG0103",
            "known at run time only",
        ),
        (
            f"%q = stablehlo.constant dense<3> : tensor<1xi32>\n%m = stablehlo.negate %q : tensor<1xi32>\n%1 = stablehlo.dynamic_iota %m, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>\n%0 = stablehlo.negate %x : {F}",
            "MG0104",
            r"has sizes \[-3\]",
        ),
        (
            f"%m = stablehlo.constant dense<3> : tensor<1xi32>\n%1 = stablehlo.dynamic_reshape %x, %m : ({F}, tensor<1xi32>) -> tensor<?xf32>\n%0 = stablehlo.negate %x : {F}",
            "MG0104",
            "4 elements into f32.3. with 3",
        ),
        (
            f"%m = stablehlo.constant dense<[3, 1]> : tensor<2xi32>\n%1 = stablehlo.dynamic_reshape %x, %m : ({F}, tensor<2xi32>) -> tensor<?xf32>\n%0 = stablehlo.negate %x : {F}",
            "MG0104",
            "has 2 sizes for 1 dims",
        ),
    ],
)
def test_runtime_or_invalid_size_is_rejected(body: str, code: str, message: str) -> None:
    text = f"func.func @main(%x: {F}) -> {F} {{\n{body}\nreturn %0 : {F}\n}}"
    with pytest.raises(ProgramError, match=message) as caught:
        mg.lower(text, stage="propagate")
    assert [d.code for d in caught.value.diagnostics] == [code] and caught.value.diagnostics[0].loc is not None


def test_propagation_of_program_with_open_sizes_is_rejected() -> None:
    text = f"""func.func @main(%x: {F}) -> {F} {{
  %t = stablehlo.constant dense<true> : tensor<i1>
  stablehlo.custom_call @shape_assertion(%t) {{error_message = "never", has_side_effect = true}} : (tensor<i1>) -> ()
  return %x : {F}
}}"""
    with pytest.raises(ProgramError, match="MG0208"):
        propagate(parse_text(text))
    assert [node.op for node in mg.lower(text, stage="propagate").graph.nodes] == ["constant"]
