"""What a call binds: dicts by key, structures by their paths; and what cannot be meant is refused."""

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


def refused(call: Any, *texts: str) -> None:
    with pytest.raises(ArgumentError, match=re.compile(".*".join(map(re.escape, texts)), re.DOTALL)) as caught:
        call()
    assert {each.code for each in caught.value.diagnostics} == {"MG0601"}


def test_a_dict_is_bound_by_key(difference: Executable) -> None:
    for p in ({"a": A, "b": B}, {"b": B, "a": A}, OrderedDict(b=B, a=A)):
        for got in (difference(p, B), difference(x=B, p=p), difference(p, x=B)):
            np.testing.assert_array_equal(got, A - B)


def test_keys_that_there_are_not_and_those_that_are_missing_are_named(difference: Executable) -> None:
    refused(
        lambda: difference({"c": A, "d": B}, B),
        "'p.a' is missing",
        "'p.b' is missing",
        "unknown argument 'p.c'",
        "'p.d'",
    )
    refused(lambda: difference({"a": A}, B), "'p.b' is missing", "(p: {a, b}, x)")
    refused(lambda: difference({"a": A, "b": B, "bb": B}, B), "unknown argument 'p.bb'; did you mean 'p.b'?")
    refused(lambda: difference({"a": A, "b": None}, B), "'p.b' is None")
    refused(lambda: difference({"a": A, "b": {"c": B}}, B), "'p.b' is a dict with c", "takes an array")


def test_what_is_no_dict_is_not_taken_for_one(difference: Executable) -> None:
    refused(lambda: difference(A, B, B), "3 arguments were given by position", "takes 2: p, x")
    refused(lambda: difference([A, B], B), "'p.a' is missing")
    refused(lambda: difference(A, B), "'p' is an array", "structure with a, b")
    refused(lambda: compiled(lambda x, w: x - w, [F, F])({"w": B, "x": A}), "'x' is a dict", "'w' is missing")
    refused(lambda: difference(), "'p' is missing", "'x' is missing")


def test_what_is_told_apart_by_number_may_be_given_flat() -> None:
    listed = compiled(lambda x, ws: x - ws[0] * ws[1][0], [F, [F, (F,)]])
    for got in (listed(A, [B, [A]]), listed(A, (B, (A,))), listed(A, B, A)):
        np.testing.assert_array_equal(got, A - B * A)


def test_named_tuples_are_bound_by_field() -> None:
    executable = compiled(lambda s: s.m - s.v, [Pair(F, F)])
    for state in (Pair(A, B), Other(m=A, v=B), {"v": B, "m": A}):
        np.testing.assert_array_equal(executable(state), A - B)
    refused(lambda: executable((A, B)), "'s.m' is missing", "unknown argument 's.0'")
    assert [v.name for v in executable.fused.graph.inputs] == ["s.m", "s.v"]


def test_none_and_empty_structures_hold_nothing() -> None:
    executable = compiled(lambda x, state: x + (state["w"] if state["m"] is None else 0), [F, {"w": F, "m": None}])
    for state in ({"w": B, "m": None}, {"w": B}, {"m": {}, "w": B}):
        np.testing.assert_array_equal(executable(A, state), A + B)
    refused(lambda: executable(A, {"w": B, "m": B}), "unknown argument 'state.m'")


def test_the_order_of_a_dict_changes_no_module() -> None:
    def model(x: Any, p: dict[str, Any]) -> Any:
        return {name: x - weight for name, weight in p.items()}

    texts = [compiled(model, [F, p]).as_text("import") for p in ({"b": F, "a": F}, {"a": F, "b": F})]
    assert texts[0] == texts[1] and texts[0].index("%p.a") < texts[0].index("%p.b")


def test_further_arguments_are_those_of_the_function() -> None:
    executable = compiled(lambda x, *more, scale=None: x - more[0] * more[1], [F, F, F])
    np.testing.assert_array_equal(executable(A, B, A), A - B * A)
    by_name = compiled(
        lambda x, *, scale, **rest: x * scale + rest["b"] - rest["a"], {"x": F, "scale": F, "b": F, "a": F}
    )
    np.testing.assert_array_equal(by_name(A, b=A, a=B, scale=B), A * B + A - B)
    refused(lambda: by_name(A, B, b=A, a=B), "2 arguments were given by position", "'scale' is missing")
    refused(lambda: by_name(A, scale=B, b=A, c=B), "'rest.a' is missing", "unknown argument 'rest.c'")


def test_programs_as_text_take_structures_by_their_names() -> None:
    text = mg.compile(lambda p, x: p["a"] - p["b"] + 0 * x, {"d": 2}, args=[{"a": F, "b": F}, F], target="cpu").as_text(
        "import"
    )
    executable = mg.compile(text, target="cpu")
    for got in (executable({"b": B, "a": A}, B), executable(A, B, B)):  # the text has an order of its own
        np.testing.assert_array_equal(got, A - B)
    refused(lambda: executable({"b": B, "c": A}, B), "'p.a' is missing", "'p.c'")


def test_weights_are_named_in_any_spelling_or_nested(tmp_path: Any, difference: Executable) -> None:
    for weights in ({"p": {"b": B, "a": A}}, {"p.a": A, "p['b']": B}, {"arg0.b": B, "arg0": {"a": A}}):
        difference.save(tmp_path / "m.mgx", weights=weights)
        np.testing.assert_array_equal(mg.load(tmp_path / "m.mgx")(B), A - B)
    refused(lambda: difference.save(tmp_path / "m.mgx", weights={"p": {"c": B}}), "unknown argument 'p.c'")


def test_keys_with_dots_do_not_collide() -> None:
    executable = compiled(lambda p: p["a"]["b"] - p["a.b"], [{"a": {"b": F}, "a.b": F}])
    np.testing.assert_array_equal(executable({"a.b": B, "a": {"b": A}}), A - B)
    assert len({value.name for value in executable.fused.graph.inputs}) == 2


def test_two_keys_that_are_spelled_alike_are_refused() -> None:
    with pytest.raises(mg.MeshgenError, match="MG0001: two keys of a dict are spelled '1'"):
        compiled(lambda p: p[1] - p["1"], [{1: F, "1": F}])


def test_arguments_of_open_sizes_are_bound_alike() -> None:
    text = """func.func @main(%p.b: tensor<?xf32>, %p.a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.subtract %p.a, %p.b : tensor<?xf32>
  return %0 : tensor<?xf32>
}"""
    executable = mg.compile(text, {"d": 2}, target="cpu")
    np.testing.assert_array_equal(executable({"a": A, "b": B}), A - B)
    np.testing.assert_array_equal(executable(p={"a": A[:2], "b": B[:2]}), (A - B)[:2])
    refused(lambda: executable({"a": A}), "'p.b' is missing")


def test_the_order_and_the_numbers_of_a_text_are_those_of_its_inputs() -> None:
    types = "%p.a: tensor<4xf32>, %x: tensor<4xf32>, %p.b: tensor<4xf32>"
    text = f"func.func @main({types}) -> tensor<4xf32> {{\n  %0 = stablehlo.subtract %p.a, %x : tensor<4xf32>\n"
    text += "  %1 = stablehlo.divide %0, %p.b : tensor<4xf32>\n  return %1 : tensor<4xf32>\n}"
    executable = mg.compile(text, {"d": 2}, target="cpu", in_specs={"arg2": mg.P("d")})
    assert [wish is not None for wish in executable.stages["import"].in_annotations] == [False, False, True]
    for got in (
        executable(A, B, A * 2),
        executable(x=B, p={"b": A * 2, "a": A}),
        executable({"a": A, "b": A * 2}, arg1=B),
    ):
        np.testing.assert_array_equal(got, (A - B) / (A * 2))
