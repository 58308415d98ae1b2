"""A saved module is called as the JAX function: its structures, unused arguments, keys and numbers; also where JAX is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ArgumentError, ModuleError
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file import container
from tests.runtime.mutations import Original, sealed

jax = pytest.importorskip("jax")
X, Y, Z = (np.arange(1, 5, dtype=np.float32) * k for k in (1, 10, 100))


class Moments(NamedTuple):
    m: Any
    v: Any


class Nothing(NamedTuple):
    """As optax's `EmptyState`."""


@dataclass
class Layer:
    w: Any
    b: Any
    power: int = 2


@dataclass
class State:
    params: Any
    apply: Callable[..., Any]


jax.tree_util.register_dataclass(Layer, data_fields=["w", "b"], meta_fields=["power"])
jax.tree_util.register_dataclass(State, data_fields=["params"], meta_fields=["apply"])


def saved(path: Path, function: Any, *args: Any, weights: Any = None, **kwargs: Any) -> LoadedModule:
    executable = mg.compile(jax.jit(function).lower(*args, **kwargs), {"d": 2}, target="cpu")
    executable.save(path / "m.mgx", weights)
    return mg.load(path / "m.mgx")


def refused(call: Any, *texts: str) -> None:
    with pytest.raises(ArgumentError, match=re.compile(".*".join(map(re.escape, texts)), re.DOTALL)) as caught:
        call()
    assert {each.code for each in caught.value.diagnostics} == {"MG0601"}


def update(params: Any, moments: Moments, layer: Layer, x: Any, unused: Any, *, rate: Any) -> Any:
    moved = {name: w - rate * x for name, w in params.items()}
    return {"params": moved, "moments": Moments(moments.m + x, moments.v)}, Layer(layer.w**layer.power, x), [None, (x,)]


ARGS = ({"w": X, "b": Y}, Moments(X, Z), Layer(Y, Z), Z, {"none": X})


def test_arguments_and_results_have_the_structures_of_the_function(tmp_path: Path) -> None:
    module = saved(tmp_path, update, *ARGS, rate=0.5)
    reordered = {"b": Y, "w": X}
    for got in (
        module(*ARGS, rate=0.5),
        module(reordered, *ARGS[1:], rate=np.float32(0.5)),
        module(*ARGS[:3], x=Z, rate=0.5),
    ):
        want = jax.jit(update)(*ARGS, rate=0.5)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        jax.tree.map(np.testing.assert_array_equal, got, want)


def test_what_does_not_fit_is_named_by_its_path(tmp_path: Path) -> None:
    module = saved(tmp_path, update, *ARGS, rate=0.5)
    params, moments, layer, x, unused = ARGS
    refused(lambda: module({"w": X}, *ARGS[1:], rate=0.5), "'params.b' is missing")
    refused(lambda: module({"w": X, "b": Y, "c": Y}, *ARGS[1:], rate=0.5), "unknown argument 'params.c'")
    refused(lambda: module({"w": X[:2], "b": Y}, *ARGS[1:], rate=0.5), "'params.w' has type f32[2]", "f32[4]")
    refused(lambda: module({"w": X, "b": Y.astype(np.int32)}, *ARGS[1:], rate=0.5), "'params.b' has type i32[4]")
    refused(
        lambda: module(params, moments, Layer(Y, Z, 3), x, unused, rate=0.5), "'layer' is a Layer", "(3,), not (2,)"
    )
    refused(lambda: module(params, moments, State(Y, max), x, unused, rate=0.5), "'layer.w' is missing")
    refused(lambda: module(params, moments, layer, rate=0.5), "'x' is missing")
    refused(lambda: module(*ARGS), "'rate' is missing")
    refused(lambda: module(*ARGS, rate="0.5"), "'rate' is a str with elements")


def test_static_fields_that_are_functions_are_known_by_name(tmp_path: Path) -> None:
    def step(state: State) -> State:
        return State(state.apply(state.params), state.apply)

    module = saved(tmp_path, step, State(X, abs))
    got = module(State(-X, abs))
    assert isinstance(got, State) and got.apply is abs
    np.testing.assert_array_equal(got.params, X)
    refused(lambda: module(State(X, max)), "'state' is a State", "function max", "function abs")


def test_classes_without_fields_are_those_of_the_arguments(tmp_path: Path) -> None:
    given = (Moments(X, Y), Nothing(), (Nothing(),))
    module = saved(tmp_path, lambda state: (Moments(state[0].m + 1, state[0].v), Nothing(), (Nothing(),)), given)
    assert jax.tree.structure(module(given)) == jax.tree.structure(given)


def test_state_with_parts_that_have_no_arrays_is_left_out_of_what_a_step_returns(tmp_path: Path) -> None:
    def step(state: Any, x: Any) -> Any:
        return (Moments(state[0].m + x, state[0].v), Nothing(), {"none": None}), {"loss": x.sum()}

    given = (Moments(X, Y), Nothing(), {"none": None})
    mg.compile(jax.jit(step, donate_argnums=0), {"d": 2}, args=(given, X), target="cpu").save(tmp_path / "m.mgx")
    with mg.load(tmp_path / "m.mgx").session() as session:
        session["state"] = given
        got = session(Z)
        assert [*got] == ["loss"] and np.asarray(got["loss"]) == Z.sum()
        assert jax.tree.structure(session["state"]) == jax.tree.structure(given)
        np.testing.assert_array_equal(session["state"][0].m, X + Z)


def test_keys_of_dicts_are_what_they_were(tmp_path: Path) -> None:
    def f(layers: Any) -> Any:
        return {7: layers[3] + layers[10], 20: {"a.b": layers[3]}, 1: OrderedDict(z=layers[3], a=layers[10])}

    got = saved(tmp_path, f, {10: X, 3: Y})({3: Y, 10: X})
    assert [*got] == [1, 7, 20] and [*got[20]] == ["a.b"] and [*got[1]] == ["z", "a"]
    np.testing.assert_array_equal(got[7], X + Y)


def test_numbers_of_python_take_the_type_of_the_argument(tmp_path: Path) -> None:
    module = saved(tmp_path, lambda x, scale, n, is_on: (x * scale, n + 1, is_on), X, 2.0, 3, True)
    for scale in (2.0, 2, np.float32(2), np.float64(2)):
        np.testing.assert_array_equal(module(X, scale, 4, False)[0], 2 * X)
    refused(lambda: module(X, 2.0, 4.5, True), "'n' is the float 4.5, but the program takes i32[]")
    refused(lambda: module(X, 2j, 4, True), "'scale' is the complex 2j")
    refused(lambda: module(X, 2.0, 1 << 40, True), "'n' is 1099511627776, which i32[] cannot hold")
    refused(lambda: module(X, 2.0, np.int64(1 << 40), True), "'n' is int64 with numbers that i32[] cannot hold")
    refused(lambda: module(X, 2.0, 4, 1), "'is_on' is the int 1")


def test_arrays_of_64_bits_become_those_of_32_as_in_jax(tmp_path: Path) -> None:
    module = saved(tmp_path, lambda x, rows: x[rows], X, np.array([2, 0], np.int32))
    np.testing.assert_array_equal(module(X.astype(np.float64), np.array([2, 0])), X[[2, 0]])
    traced = mg.compile(lambda x: x + 1.0, {"d": 2}, args=["f32[4]"], target="cpu")
    refused(lambda: traced(X.astype(np.float64)), "float64")


def test_typed_keys_go_in_and_out(tmp_path: Path) -> None:
    def f(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        return second, x + jax.random.uniform(first, x.shape)

    key = jax.random.key(3)
    executable = mg.compile(jax.jit(f).lower(key, X), {"d": 2}, target="cpu")
    executable.save(tmp_path / "m.mgx")
    want = jax.jit(f)(key, X)
    for call in (executable, mg.load(tmp_path / "m.mgx")):
        for given in (key, jax.random.key_data(key)):
            second, got = call(given, X)
            np.testing.assert_allclose(got, want[1], rtol=1e-6)
            assert second.dtype == key.dtype and (jax.random.key_data(second) == jax.random.key_data(want[0])).all()
    refused(lambda: executable(jax.random.key(3, impl="rbg"), X), "'key' is a PRNG key of kind rbg", "threefry2x32")
    refused(lambda: executable(key, jax.random.split(key, 4)), "'x' is a PRNG key of kind threefry2x32")


def test_weights_in_the_module_are_not_passed(tmp_path: Path) -> None:
    def f(params: Any, unused: Any, x: Any) -> Any:
        return {"y": x * params["w"] + params["b"]}

    args = ({"w": X, "b": Y, "no": Z}, Z, X)
    for weights in ({"params": {"w": Y, "b": X}}, {"params['w']": Y, "params.b": X}):
        module = saved(tmp_path, f, *args, weights=weights)
        np.testing.assert_array_equal(module(Z, X)["y"], X * Y + X)
    module = saved(tmp_path, f, *args, weights={"params": {"w": Y}})
    np.testing.assert_array_equal(module({"b": Z}, None, X)["y"], X * Y + Z)


def test_open_sizes_and_several_meshes_are_called_alike(tmp_path: Path) -> None:
    (n,) = jax.export.symbolic_shape("n")
    shapes = ({"w": jax.ShapeDtypeStruct((4,), "float32")}, jax.ShapeDtypeStruct((n, 4), "float32"))
    exported = jax.export.export(jax.jit(lambda p, x: {"y": x * p["w"]}))(*shapes)
    mg.compile(exported, {"d": 2}, target="cpu").save(tmp_path / "m.mgx")
    got = mg.load(tmp_path / "m.mgx")({"w": X}, np.ones((6, 4), np.float32))
    np.testing.assert_array_equal(got["y"], np.tile(X, (6, 1)))

    def stages(p: Any) -> Any:
        return {"y": mg.annotate(mg.tanh(p["x"]), mg.P("b", mesh="second")) * p["w"]}

    specs = {"p.x": mg.P("a", mesh="first"), "p.w": mg.P("b", mesh="second")}
    meshes = {"first": {"a": 2}, "second": {"b": 2}}
    mg.compile(stages, meshes, args=[{"x": "f32[4]", "w": "f32[4]"}], in_specs=specs, target="cpu").save(
        tmp_path / "s.mgx"
    )
    np.testing.assert_allclose(mg.load(tmp_path / "s.mgx")({"w": Y, "x": X})["y"], np.tanh(X) * Y, rtol=1e-6)


WITHOUT_JAX = """
import sys
sys.modules["jax"] = None
import collections, dataclasses
import numpy as np
import meshgen as mg

@dataclasses.dataclass
class Layer:
    w: object
    b: object
    power: int = 2

X, Y, Z = (np.arange(1, 5, dtype=np.float32) * k for k in (1, 10, 100))
Moments = collections.namedtuple("Moments", "m v")
module = mg.load("m.mgx")
for layer in (Layer(Y, Z), {"w": Y, "b": Z}):
    state, made, rest = module({"w": X, "b": Y}, Moments(X, Z), layer, Z, None, rate=0.5)
    np.testing.assert_array_equal(state["params"]["b"], Y - Z / 2)
    np.testing.assert_array_equal(state["moments"].m, X + Z)
    np.testing.assert_array_equal(made.w, Y * Y)
    assert type(state["moments"]).__name__ == "Moments" and type(made).__name__ == "Layer" and rest[0] is None
    assert (type(made) is Layer) == isinstance(layer, Layer)
assert sys.modules["jax"] is None
"""


def test_it_runs_where_jax_is_missing(tmp_path: Path) -> None:
    saved(tmp_path, update, *ARGS, rate=0.5)
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n{WITHOUT_JAX}"]
    subprocess.run(command, cwd=tmp_path, check=True)


FORGED: dict[str, Callable[[Any], None]] = {
    "an input twice": lambda call: slot(call).update(number=1),
    "another input": lambda call: slot(call).update(name="x"),
    "a result that is not there": lambda call: call["result"]["children"][2][1]["children"][1][1]["children"][0][1].update(number=9),
    "a kind that there is not": lambda call: call["result"].update(kind="os.system"),
    "a parameter twice": lambda call: call["parameters"].append(call["parameters"][0]),
    "a position of nothing": lambda call: call["positional"].append("nope"),
    "a name with control characters": lambda call: call["result"].update(title="\x1b[2J"),
    "a number for a name": lambda call: call["result"].update(title=3),
    "keys of another dict": lambda call: call["parameters"][0][1].update(keys=[1, 2]),
    "children in None": lambda call: call["result"].update(kind="none"),
    "no children": lambda call: call["result"].update(children=None),
    "too deep": lambda call: call.update(result=nested(call["result"], 100)),
}  # fmt: skip


def slot(call: Any) -> Any:
    return call["parameters"][0][1]["children"][0][1]


def nested(node: Any, depth: int) -> Any:
    return node if not depth else nested({"kind": "list", "children": [["0", node]]}, depth - 1)


def forged(path: Path, forge: Callable[[Any], None]) -> Path:
    """The module with another call in its manifest, and digests that are right."""
    members = dict(Original.of("", path).members)
    manifest = json.loads(members["manifest.json"])
    forge(manifest["call"])
    container.write(path, sealed(members | {"manifest.json": json.dumps(manifest).encode()}))
    return path


@pytest.mark.parametrize("name", FORGED)
def test_forged_structures_are_refused(name: str, tmp_path: Path) -> None:
    saved(tmp_path, update, *ARGS, rate=0.5)
    with pytest.raises(ModuleError, match="MG0502"):
        mg.load(forged(tmp_path / "m.mgx", FORGED[name]))


def test_a_class_that_a_file_names_is_not_looked_up(tmp_path: Path) -> None:
    """Its objects are records with its fields; names that are no fields make a dict."""
    saved(tmp_path, lambda x: Layer(x, x), X)
    for title, kind in (("Popen", "Popen"), ("os.system", "dict"), ("class", "dict")):
        path = forged(tmp_path / "m.mgx", lambda call, title=title: call["result"].update(title=title))
        got = mg.load(path)(X)
        assert type(got).__name__ == kind and (isinstance(got, dict) or type(got).__module__ != "subprocess")


def test_modules_of_a_text_have_its_order_and_names(tmp_path: Path) -> None:
    text = jax.jit(lambda p, x: p["a"] - x).lower({"a": X}, Y).as_text(debug_info=True)
    mg.compile(text, {"d": 2}, target="cpu").save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    assert "call" not in json.loads(bytes(module.members["manifest.json"]))
    for got in (module(X, Y), module({"a": X}, Y), module(x=Y, p={"a": X})):
        np.testing.assert_array_equal(got, X - Y)
