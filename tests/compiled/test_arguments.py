"""Binding of call arguments: dicts by key and structures by path; ambiguous arguments are rejected."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import pytest

import meshgen as mg
from meshgen.compiled.executable import Executable
from meshgen.errors import ArgumentError

A, B = np.full(4, 10, np.float32), np.ones(4, np.float32)
F = "f32[4]"


class Pair(NamedTuple):
    m: Any
    v: Any


class Other(NamedTuple):
    v: Any
    m: Any


def compiled(function: Any, args: Any) -> Executable:
    return mg.compile(function, {"d": 2}, args=args, target="cpu")


@pytest.fixture(scope="module")
def difference() -> Executable:
    return compiled(lambda p, x: p["a"] - p["b"] + 0 * x, [{"a": F, "b": F}, F])


def assert_argument_error(call: Any, *texts: str) -> None:
    with pytest.raises(ArgumentError, match=re.compile(".*".join(map(re.escape, texts)), re.DOTALL)) as caught:
        call()
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {"MG0601"}


def test_dict_argument_is_bound_by_key(difference: Executable) -> None:
    for p in ({"a": A, "b": B}, {"b": B, "a": A}, OrderedDict(b=B, a=A)):
        for got in (difference(p, B), difference(x=B, p=p), difference(p, x=B)):
            np.testing.assert_array_equal(got, A - B)


def test_unknown_and_missing_dict_keys_are_reported(difference: Executable) -> None:
    assert_argument_error(
        lambda: difference({"c": A, "d": B}, B),
        "'p.a' is missing",
        "'p.b' is missing",
        "unknown argument 'p.c'",
        "'p.d'",
    )
    assert_argument_error(lambda: difference({"a": A}, B), "'p.b' is missing", "(p: {a, b}, x)")
    assert_argument_error(
        lambda: difference({"a": A, "b": B, "bb": B}, B), "unknown argument 'p.bb'; did you mean 'p.b'?"
    )
    assert_argument_error(lambda: difference({"a": A, "b": None}, B), "'p.b' is None")
    assert_argument_error(lambda: difference({"a": A, "b": {"c": B}}, B), "'p.b' is a dict with c", "takes an array")


def test_positional_values_are_not_bound_to_dict_keys(difference: Executable) -> None:
    assert_argument_error(lambda: difference(A, B, B), "3 arguments were given by position", "takes 2: p, x")
    assert_argument_error(lambda: difference([A, B], B), "'p.a' is missing")
    assert_argument_error(lambda: difference(A, B), "'p' is an array", "structure with a, b")
    assert_argument_error(
        lambda: compiled(lambda x, w: x - w, [F, F])({"w": B, "x": A}), "'x' is a dict", "'w' is missing"
    )
    assert_argument_error(lambda: difference(), "'p' is missing", "'x' is missing")


def test_list_arguments_can_be_passed_flat() -> None:
    listed = compiled(lambda x, ws: x - ws[0] * ws[1][0], [F, [F, (F,)]])
    for got in (listed(A, [B, [A]]), listed(A, (B, (A,))), listed(A, B, A)):
        np.testing.assert_array_equal(got, A - B * A)


def test_named_tuple_is_bound_by_field() -> None:
    executable = compiled(lambda s: s.m - s.v, [Pair(F, F)])
    for state in (Pair(A, B), Other(m=A, v=B), {"v": B, "m": A}):
        np.testing.assert_array_equal(executable(state), A - B)
    assert_argument_error(lambda: executable((A, B)), "'s.m' is missing", "unknown argument 's.0'")
    assert [v.name for v in executable.fused.graph.inputs] == ["s.m", "s.v"]


def test_none_and_empty_structures_have_no_leaves() -> None:
    executable = compiled(lambda x, state: x + (state["w"] if state["m"] is None else 0), [F, {"w": F, "m": None}])
    for state in ({"w": B, "m": None}, {"w": B}, {"m": {}, "w": B}):
        np.testing.assert_array_equal(executable(A, state), A + B)
    assert_argument_error(lambda: executable(A, {"w": B, "m": B}), "unknown argument 'state.m'")


def test_dict_order_does_not_change_compiled_text() -> None:
    def model(x: Any, p: dict[str, Any]) -> Any:
        return {name: x - weight for name, weight in p.items()}

    texts = [compiled(model, [F, p]).as_text("import") for p in ({"b": F, "a": F}, {"a": F, "b": F})]
    assert texts[0] == texts[1] and texts[0].index("%p.a") < texts[0].index("%p.b")


def test_variadic_and_keyword_arguments_follow_python_signature() -> None:
    executable = compiled(lambda x, *more, scale=None: x - more[0] * more[1], [F, F, F])
    np.testing.assert_array_equal(executable(A, B, A), A - B * A)
    by_name = compiled(
        lambda x, *, scale, **rest: x * scale + rest["b"] - rest["a"], {"x": F, "scale": F, "b": F, "a": F}
    )
    np.testing.assert_array_equal(by_name(A, b=A, a=B, scale=B), A * B + A - B)
    assert_argument_error(lambda: by_name(A, B, b=A, a=B), "2 arguments were given by position", "'scale' is missing")
    assert_argument_error(lambda: by_name(A, scale=B, b=A, c=B), "'rest.a' is missing", "unknown argument 'rest.c'")


def test_text_program_binds_nested_arguments_to_inputs_by_name() -> None:
    text = mg.compile(lambda p, x: p["a"] - p["b"] + 0 * x, {"d": 2}, args=[{"a": F, "b": F}, F], target="cpu").as_text(
        "import"
    )
    executable = mg.compile(text, target="cpu")
    # The text lists its arguments in another order than the function.
    for got in (executable({"b": B, "a": A}, B), executable(A, B, B)):
        np.testing.assert_array_equal(got, A - B)
    assert_argument_error(lambda: executable({"b": B, "c": A}, B), "'p.a' is missing", "'p.c'")


def test_weights_can_be_named_by_path_or_nested(tmp_path: Any, difference: Executable) -> None:
    for weights in ({"p": {"b": B, "a": A}}, {"p.a": A, "p['b']": B}, {"arg0.b": B, "arg0": {"a": A}}):
        difference.save(tmp_path / "m.mgx", weights=weights)
        np.testing.assert_array_equal(mg.load(tmp_path / "m.mgx")(B), A - B)
    assert_argument_error(
        lambda: difference.save(tmp_path / "m.mgx", weights={"p": {"c": B}}), "unknown argument 'p.c'"
    )


def test_dict_keys_with_dots_do_not_collide() -> None:
    executable = compiled(lambda p: p["a"]["b"] - p["a.b"], [{"a": {"b": F}, "a.b": F}])
    np.testing.assert_array_equal(executable({"a.b": B, "a": {"b": A}}), A - B)
    assert len({value.name for value in executable.fused.graph.inputs}) == 2


def test_dict_keys_with_equal_text_are_rejected() -> None:
    with pytest.raises(mg.MeshgenError, match="MG0001: two keys of a dict are spelled '1'"):
        compiled(lambda p: p[1] - p["1"], [{1: F, "1": F}])


def test_arguments_with_open_sizes_are_bound_by_key() -> None:
    text = """func.func @main(%p.b: tensor<?xf32>, %p.a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.subtract %p.a, %p.b : tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
    executable = mg.compile(text, {"d": 2}, target="cpu")
    np.testing.assert_array_equal(executable({"a": A, "b": B}), A - B)
    np.testing.assert_array_equal(executable(p={"a": A[:2], "b": B[:2]}), (A - B)[:2])
    assert_argument_error(lambda: executable({"a": A}), "'p.b' is missing")


def test_text_program_binds_arguments_by_position_or_name() -> None:
    types = "%p.a: tensor<4xf32>, %x: tensor<4xf32>, %p.b: tensor<4xf32>"
    text = f"func.func @main({types}) -> tensor<4xf32> {{\n  %0 = stablehlo.subtract %p.a, %x : tensor<4xf32>\n"
    text += "  %1 = stablehlo.divide %0, %p.b : tensor<4xf32>\n  return %1 : tensor<4xf32>\n}"
    executable = mg.compile(text, {"d": 2}, target="cpu", in_specs={"arg2": mg.P("d")})
    assert [annotation is not None for annotation in executable.stages["import"].in_annotations] == [False, False, True]
    for got in (
        executable(A, B, A * 2),
        executable(x=B, p={"b": A * 2, "a": A}),
        executable({"a": A, "b": A * 2}, arg1=B),
    ):
        np.testing.assert_array_equal(got, (A - B) / (A * 2))
