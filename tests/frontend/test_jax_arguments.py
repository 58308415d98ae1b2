"""Arguments of JAX programs: trees, names and unused arguments follow JAX, both in calls and in specs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.compiled.executable import Executable
from meshgen.errors import ArgumentError

jax = pytest.importorskip("jax")
from jax import export  # noqa: E402

X, Y, Z = (np.arange(1, 5, dtype=np.float32) * k for k in (1, 10, 100))


class State(NamedTuple):
    m: Any
    v: Any


@dataclass
class Layer:
    w: Any
    b: Any
    power: int = 2


jax.tree_util.register_dataclass(Layer, data_fields=["w", "b"], meta_fields=["power"])


@jax.tree_util.register_pytree_node_class
class Plain:
    """A pytree class that is registered without names for its children."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def tree_flatten(self) -> tuple[Any, None]:
        return (self.first, self.second), None

    @classmethod
    def tree_unflatten(cls, _: None, children: Any) -> Plain:
        return cls(*children)


def compiled(function: Any, *args: Any, **kwargs: Any) -> Executable:
    return mg.compile(jax.jit(function).lower(*args, **kwargs), {"d": 2}, target="cpu")


def names(executable: Executable) -> list[str]:
    return [value.name for value in executable.fused.graph.inputs]


def assert_rejected(call: Any, *texts: str) -> None:
    with pytest.raises(ArgumentError, match=re.compile(".*".join(map(re.escape, texts)), re.DOTALL)):
        call()


def test_dict_leaves_are_in_sorted_order_of_jax() -> None:
    def f(p: Any, x: Any) -> Any:
        return x * p["scale"] + p["bias"]

    p = {"scale": Y, "bias": Z}
    executable = compiled(f, p, X)
    for params in (p, dict(reversed(p.items()))):
        np.testing.assert_array_equal(executable(params, X), f(p, X))
    assert names(executable) == ["p.bias", "p.scale", "x"]
    assert_rejected(
        lambda: executable({"scale": Y, "bais": Z}, X), "'p.bias' is missing", "'p.bais'; did you mean 'p.bias'?"
    )
    assert_rejected(lambda: executable(Z, Y, X), "3 arguments were given by position")


def test_named_tuples_dataclasses_and_pytree_classes_are_structures() -> None:
    def f(state: State, layer: Layer, plain: Plain) -> Any:
        return (state.m - state.v) * layer.w - layer.b**layer.power + plain.first / plain.second

    args = (State(X, Y), Layer(Y, Z), Plain(Z, X))
    executable = compiled(f, *args)
    np.testing.assert_allclose(executable(*args), f(*args), rtol=1e-6)
    assert names(executable) == ["state.m", "state.v", "layer.w", "layer.b", "plain.0", "plain.1"]
    assert_rejected(lambda: executable(args[0], Layer(Y, Z, 3), args[2]), "'layer' is a Layer", "static fields")
    assert_rejected(lambda: executable(State(X, None), *args[1:]), "'state.v' is None")
    assert_rejected(lambda: executable(args[0], args[1], Z), "'plain' is an array")


def test_results_keep_structure_of_jax_function() -> None:
    executable = compiled(lambda s, x: (State(s.m + x, s.v), {"loss": x, "aux": [s.m]}, Layer(x, x)), State(X, Y), Z)
    state, loss, layer = executable(State(X, Y), Z)
    assert isinstance(state, State) and isinstance(layer, Layer)
    np.testing.assert_array_equal(state.m, X + Z)
    np.testing.assert_array_equal(loss["aux"][0], X)


def test_unused_argument_is_still_passed() -> None:
    jitted = jax.jit(lambda a, b, c: b * 2 + c)
    for program in (jitted.lower(X, Y, Z), jitted.trace(X, Y, Z), export.export(jitted)(X, Y, Z)):
        executable = mg.compile(program, {"d": 2}, target="cpu", in_specs={"arg1": mg.P("d")})
        assert "b" in executable.explain("b") and names(executable) == ["b", "c"]
        annotations = executable.stages["import"].in_annotations
        assert [annotation and annotation.sharding.dims for annotation in annotations] == [(("d",),), None]
        np.testing.assert_array_equal(executable(X, Y, Z), Y * 2 + Z)
        np.testing.assert_array_equal(executable(c=Z, b=Y), Y * 2 + Z)
        assert_rejected(lambda: executable(X, Y), "'c' is missing")  # noqa: B023


def test_empty_parameter_keeps_its_position() -> None:
    executable = compiled(lambda none, x, empty, y, **rest: x - y, None, X, {}, Y, k=())
    np.testing.assert_array_equal(executable(None, X, {}, Y, k=()), X - Y)
    np.testing.assert_array_equal(executable(None, X, {"a": []}, y=Y), X - Y)
    assert executable.signature.positional == ("arg0", "x", "arg2", "y")


def test_unused_leaves_may_be_omitted_and_keywords_are_required() -> None:
    def f(p: Any, s: State, unused: Any, *, k: Any) -> Any:
        return p["scale"] + p["bias"][0] + s.m - k

    p = {"scale": X, "bias": [Y, Y]}
    executable = compiled(f, p, State(Z, Z), {"x": X}, k=Y)
    expected = f(p, State(Z, Z), None, k=Y)
    np.testing.assert_array_equal(executable(p, State(Z, Z), {"x": X}, k=Y), expected)
    np.testing.assert_array_equal(executable({"bias": (Y,), "scale": X}, s={"m": Z}, k=Y), expected)
    assert_rejected(
        lambda: executable(p, State(Z, Z), {"x": X}, Y), "4 arguments were given by position", "'k' is missing"
    )


@pytest.mark.parametrize(
    "specs",
    [
        {"p['scale']": "d", "x": "d"},
        {"p.scale": "d", "arg2": "d"},
        {"arg0": {"scale": "d"}, "x": "d"},
        {"p": {"scale": "d", "bias": None}, "u": "d", "x": "d"},
        [{"scale": "d"}, "d", "d"],
        [None, "d", "d", "d"],
    ],
    ids=str,
)
def test_specs_are_named_by_path_or_structured_like_arguments(specs: Any) -> None:
    lowered = jax.jit(lambda p, u, x: x * p["scale"] + p["bias"]).lower({"scale": X, "bias": Y}, X, Z)
    if isinstance(specs, dict) and "u" in specs:
        # the text lacks the name of the unused argument, so its spec is named arg1
        specs = {"arg1" if name == "u" else name: spec for name, spec in specs.items()}
    module, _ = read(lowered, {"d": 2}, in_specs=specs)
    assert [value.name for value in module.graph.inputs] == ["p.bias", "p.scale", "x"]
    assert [annotation and annotation.sharding.dims for annotation in module.in_annotations] == [
        None,
        (("d",),),
        (("d",),),
    ]


def test_spec_of_unused_argument_is_checked() -> None:
    lowered = jax.jit(lambda a, b: b).lower(X, Y)
    for spec, code in (("q", "MG0202"), ("_,d", "MG0204")):
        with pytest.raises(mg.MeshgenError, match=code):
            read(lowered, {"d": 2}, in_specs={"arg0": spec})


def test_spec_count_includes_unused_arguments() -> None:
    with pytest.raises(mg.MeshgenError, match="2 input specs were given, but there are 3"):
        read(jax.jit(lambda a, b, c: b + c).lower(X, Y, Z), {"d": 2}, in_specs=["d", None])


def test_output_specs_are_structured_like_result() -> None:
    lowered = jax.jit(lambda x: {"a": x, "b": (x * 2, x + 1)}).lower(X)
    for specs in ({"b": {"1": "d"}}, {"result.b[1]": "d"}, {"result.2": "d"}, [None, (None, "d")], [None, None, "d"]):
        module, _ = read(lowered, {"d": 2}, out_specs=specs)
        assert [annotation is not None for annotation in module.out_annotations] == [False, False, True], specs


def test_text_with_debug_info_is_called_by_jax_names() -> None:
    lowered = jax.jit(lambda params, u, x: x * params["w"] - params["l"][1]).lower({"w": X, "l": [X, Y]}, X, Z)
    text = lowered.as_text(debug_info=True)
    executable = mg.compile(text, {"d": 2}, target="cpu", in_specs={"params['w']": mg.P("d")})
    assert names(executable) == ["params.l.1", "params.w", "x"]
    np.testing.assert_array_equal(executable(x=Z, params={"w": X, "l": {1: Y}}), Z * X - Y)
    np.testing.assert_array_equal(executable(Y, X, Z), Z * X - Y)


def test_variadic_function_is_called_like_in_jax() -> None:
    executable = compiled(lambda *xs, **kw: xs[1]["w"] - xs[2] + kw["k"]["z"], X, {"w": Y}, Z, k={"z": X})
    np.testing.assert_array_equal(executable(X, {"w": Y}, Z, k={"z": X}), Y - Z + X)
    assert names(executable) == ["xs.1.w", "xs.2", "k.z"]


def test_exported_program_with_symbolic_sizes_is_called_alike() -> None:
    (n,) = export.symbolic_shape("n")
    shapes = ({"w": (4, 3), "b": (3,)}, (7,), (n, 4))
    types = jax.tree.map(
        lambda s: jax.ShapeDtypeStruct(s, np.float32),
        shapes,
        is_leaf=lambda s: isinstance(s, tuple) and s is not shapes,
    )
    exported = export.export(jax.jit(lambda p, u, x: x @ p["w"] + p["b"]))(*types)
    executable = mg.compile(exported, {"d": 2}, target="cpu", in_specs={"x": mg.P("d")})
    p = {"w": np.ones((4, 3), np.float32), "b": np.arange(3, dtype=np.float32)}
    x = np.ones((5, 4), np.float32)
    np.testing.assert_array_equal(executable(p, np.ones(7, np.float32), x), x @ p["w"] + p["b"])
    for args in ({"x": (6, 4)}, {"arg2": (6, 4)}):
        assert executable.at(args=args).fused.in_types[-1].sizes == (6, 4)
    for partial_args in ([{"w": "f32[4,3]"}, None, (6, 4)], [None, None, "f32[6,4]"], [None, None, None, "f32[6,4]"]):
        assert mg.lower(exported, {"d": 2}, stage="import", args=partial_args).graph.inputs[-1].type.sizes == (6, 4)


def test_argument_dropped_by_jax_keeps_its_name() -> None:
    def gradient(rhs: Any, lhs: Any) -> Any:  # uses only the shape of rhs
        return jax.grad(lambda rhs: (lhs * rhs).sum())(rhs)

    for program in (jax.jit(gradient), jax.jit(gradient).lower(X, Y)):
        executable = mg.compile(program, {"d": 2}, args=(X, Y), target="cpu",
                                in_specs={"rhs": mg.P("d")})  # fmt: skip
        assert executable.signature.positional == ("rhs", "lhs")
        np.testing.assert_array_equal(executable(lhs=Y, rhs=X), Y)


def test_star_arguments_have_same_names_used_or_unused() -> None:
    executable = compiled(lambda *args: args[1] + 1, X, Y, {"w": Z})
    assert executable.signature.positional == ("args.0", "args.1", "args.2")
    for name in ("args[0]", "args.0", "args[1]", "args[2]['w']", "arg0"):
        mg.compile(
            jax.jit(lambda *args: args[1] + 1), {"d": 2}, args=(X, Y, {"w": Z}), in_specs={name: "d"}, target="cpu"
        )
