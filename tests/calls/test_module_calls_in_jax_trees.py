"""Saved modules are called like the JAX function they were compiled from, with and without JAX installed.

The tests cover structures, unused arguments, PRNG keys and Python scalars.
"""

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
    """A state without fields, like optax's `EmptyState`."""


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


def save_and_load(path: Path, function: Any, *args: Any, weights: Any = None, **kwargs: Any) -> LoadedModule:
    executable = mg.compile(jax.jit(function).lower(*args, **kwargs), {"d": 2}, target="cpu")
    executable.save(path / "m.mgx", weights)
    return mg.load(path / "m.mgx")


def assert_argument_error(call: Any, *texts: str) -> None:
    with pytest.raises(ArgumentError, match=re.compile(".*".join(map(re.escape, texts)), re.DOTALL)) as caught:
        call()
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {"MG0601"}


def update(params: Any, moments: Moments, layer: Layer, x: Any, unused: Any, *, rate: Any) -> Any:
    moved = {name: w - rate * x for name, w in params.items()}
    return {"params": moved, "moments": Moments(moments.m + x, moments.v)}, Layer(layer.w**layer.power, x), [None, (x,)]


ARGS = ({"w": X, "b": Y}, Moments(X, Z), Layer(Y, Z), Z, {"none": X})


def test_module_call_keeps_structures_of_jax_function(tmp_path: Path) -> None:
    module = save_and_load(tmp_path, update, *ARGS, rate=0.5)
    reordered = {"b": Y, "w": X}
    for got in (
        module(*ARGS, rate=0.5),
        module(reordered, *ARGS[1:], rate=np.float32(0.5)),
        module(*ARGS[:3], x=Z, rate=0.5),
    ):
        expected_results = jax.jit(update)(*ARGS, rate=0.5)
        assert jax.tree.structure(got) == jax.tree.structure(expected_results)
        jax.tree.map(np.testing.assert_array_equal, got, expected_results)


def test_mismatched_leaf_is_reported_by_tree_path(tmp_path: Path) -> None:
    module = save_and_load(tmp_path, update, *ARGS, rate=0.5)
    params, moments, layer, x, unused = ARGS
    assert_argument_error(lambda: module({"w": X}, *ARGS[1:], rate=0.5), "'params.b' is missing")
    assert_argument_error(lambda: module({"w": X, "b": Y, "c": Y}, *ARGS[1:], rate=0.5), "unknown argument 'params.c'")
    assert_argument_error(
        lambda: module({"w": X[:2], "b": Y}, *ARGS[1:], rate=0.5), "'params.w' has type f32[2]", "f32[4]"
    )
    assert_argument_error(
        lambda: module({"w": X, "b": Y.astype(np.int32)}, *ARGS[1:], rate=0.5), "'params.b' has type i32[4]"
    )
    assert_argument_error(
        lambda: module(params, moments, Layer(Y, Z, 3), x, unused, rate=0.5), "'layer' is a Layer", "(3,), not (2,)"
    )
    assert_argument_error(lambda: module(params, moments, State(Y, max), x, unused, rate=0.5), "'layer.w' is missing")
    assert_argument_error(lambda: module(params, moments, layer, rate=0.5), "'x' is missing")
    assert_argument_error(lambda: module(*ARGS), "'rate' is missing")
    assert_argument_error(lambda: module(*ARGS, rate="0.5"), "'rate' is a str with elements")


def test_static_function_fields_are_compared_by_name(tmp_path: Path) -> None:
    def step(state: State) -> State:
        return State(state.apply(state.params), state.apply)

    module = save_and_load(tmp_path, step, State(X, abs))
    got = module(State(-X, abs))
    assert isinstance(got, State) and got.apply is abs
    np.testing.assert_array_equal(got.params, X)
    assert_argument_error(lambda: module(State(X, max)), "'state' is a State", "function max", "function abs")


def test_result_reuses_fieldless_classes_of_arguments(tmp_path: Path) -> None:
    state_argument = (Moments(X, Y), Nothing(), (Nothing(),))
    module = save_and_load(
        tmp_path, lambda state: (Moments(state[0].m + 1, state[0].v), Nothing(), (Nothing(),)), state_argument
    )
    assert jax.tree.structure(module(state_argument)) == jax.tree.structure(state_argument)


def test_session_keeps_donated_state_with_empty_parts(tmp_path: Path) -> None:
    def step(state: Any, x: Any) -> Any:
        return (Moments(state[0].m + x, state[0].v), Nothing(), {"none": None}), {"loss": x.sum()}

    initial_state = (Moments(X, Y), Nothing(), {"none": None})
    mg.compile(jax.jit(step, donate_argnums=0), {"d": 2}, args=(initial_state, X), target="cpu").save(
        tmp_path / "m.mgx"
    )
    with mg.load(tmp_path / "m.mgx").session() as session:
        session["state"] = initial_state
        got = session(Z)
        assert [*got] == ["loss"] and np.asarray(got["loss"]) == Z.sum()
        assert jax.tree.structure(session["state"]) == jax.tree.structure(initial_state)
        np.testing.assert_array_equal(session["state"][0].m, X + Z)


def test_result_dicts_keep_key_types_and_order(tmp_path: Path) -> None:
    def f(layers: Any) -> Any:
        return {7: layers[3] + layers[10], 20: {"a.b": layers[3]}, 1: OrderedDict(z=layers[3], a=layers[10])}

    got = save_and_load(tmp_path, f, {10: X, 3: Y})({3: Y, 10: X})
    assert [*got] == [1, 7, 20] and [*got[20]] == ["a.b"] and [*got[1]] == ["z", "a"]
    np.testing.assert_array_equal(got[7], X + Y)


def test_python_scalars_are_converted_to_argument_dtype(tmp_path: Path) -> None:
    module = save_and_load(tmp_path, lambda x, scale, n, is_on: (x * scale, n + 1, is_on), X, 2.0, 3, True)
    for scale in (2.0, 2, np.float32(2), np.float64(2)):
        np.testing.assert_array_equal(module(X, scale, 4, False)[0], 2 * X)
    assert_argument_error(lambda: module(X, 2.0, 4.5, True), "'n' is the float 4.5, but the program takes i32[]")
    assert_argument_error(lambda: module(X, 2j, 4, True), "'scale' is the complex 2j")
    assert_argument_error(lambda: module(X, 2.0, 1 << 40, True), "'n' is 1099511627776, which i32[] cannot hold")
    assert_argument_error(
        lambda: module(X, 2.0, np.int64(1 << 40), True), "'n' is int64 with numbers that i32[] cannot hold"
    )
    assert_argument_error(lambda: module(X, 2.0, 4, 1), "'is_on' is the int 1")


def test_64_bit_arrays_are_narrowed_as_in_jax(tmp_path: Path) -> None:
    module = save_and_load(tmp_path, lambda x, rows: x[rows], X, np.array([2, 0], np.int32))
    np.testing.assert_array_equal(module(X.astype(np.float64), np.array([2, 0])), X[[2, 0]])
    traced = mg.compile(lambda x: x + 1.0, {"d": 2}, args=["f32[4]"], target="cpu")
    assert_argument_error(lambda: traced(X.astype(np.float64)), "float64")


def test_typed_prng_keys_are_arguments_and_results(tmp_path: Path) -> None:
    def f(key: Any, x: Any) -> Any:
        first, second = jax.random.split(key)
        return second, x + jax.random.uniform(first, x.shape)

    key = jax.random.key(3)
    executable = mg.compile(jax.jit(f).lower(key, X), {"d": 2}, target="cpu")
    executable.save(tmp_path / "m.mgx")
    expected_results = jax.jit(f)(key, X)
    for call in (executable, mg.load(tmp_path / "m.mgx")):
        for key_argument in (key, jax.random.key_data(key)):
            second, got = call(key_argument, X)
            np.testing.assert_allclose(got, expected_results[1], rtol=1e-6)
            assert (
                second.dtype == key.dtype
                and (jax.random.key_data(second) == jax.random.key_data(expected_results[0])).all()
            )
    assert_argument_error(
        lambda: executable(jax.random.key(3, impl="rbg"), X), "'key' is a PRNG key of kind rbg", "threefry2x32"
    )
    assert_argument_error(lambda: executable(key, jax.random.split(key, 4)), "'x' is a PRNG key of kind threefry2x32")


def test_saved_weights_are_not_call_arguments(tmp_path: Path) -> None:
    def f(params: Any, unused: Any, x: Any) -> Any:
        return {"y": x * params["w"] + params["b"]}

    args = ({"w": X, "b": Y, "no": Z}, Z, X)
    for weights in ({"params": {"w": Y, "b": X}}, {"params['w']": Y, "params.b": X}):
        module = save_and_load(tmp_path, f, *args, weights=weights)
        np.testing.assert_array_equal(module(Z, X)["y"], X * Y + X)
    module = save_and_load(tmp_path, f, *args, weights={"params": {"w": Y}})
    np.testing.assert_array_equal(module({"b": Z}, None, X)["y"], X * Y + Z)


def test_structures_work_with_open_sizes_and_several_meshes(tmp_path: Path) -> None:
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


def test_module_call_works_without_jax(tmp_path: Path) -> None:
    save_and_load(tmp_path, update, *ARGS, rate=0.5)
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


def with_forged_call(path: Path, forge: Callable[[Any], None]) -> Path:
    """Change the call record in the manifest of the module at `path` with `forge`, and store matching digests."""
    members = dict(Original.of("", path).members)
    manifest = json.loads(members["manifest.json"])
    forge(manifest["call"])
    container.write(path, sealed(members | {"manifest.json": json.dumps(manifest).encode()}))
    return path


@pytest.mark.parametrize("name", FORGED)
def test_forged_call_structures_are_rejected(name: str, tmp_path: Path) -> None:
    save_and_load(tmp_path, update, *ARGS, rate=0.5)
    with pytest.raises(ModuleError, match="MG0502"):
        mg.load(with_forged_call(tmp_path / "m.mgx", FORGED[name]))


def test_class_named_in_module_file_is_never_imported(tmp_path: Path) -> None:
    save_and_load(tmp_path, lambda x: Layer(x, x), X)
    for title, kind in (("Popen", "Popen"), ("os.system", "dict"), ("class", "dict")):
        path = with_forged_call(tmp_path / "m.mgx", lambda call, title=title: call["result"].update(title=title))
        got = mg.load(path)(X)
        assert type(got).__name__ == kind and (isinstance(got, dict) or type(got).__module__ != "subprocess")


def test_module_from_text_has_argument_order_and_names_of_text(tmp_path: Path) -> None:
    text = jax.jit(lambda p, x: p["a"] - x).lower({"a": X}, Y).as_text(debug_info=True)
    mg.compile(text, {"d": 2}, target="cpu").save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    assert "call" not in json.loads(bytes(module.members["manifest.json"]))
    for got in (module(X, Y), module({"a": X}, Y), module(x=Y, p={"a": X})):
        np.testing.assert_array_equal(got, X - Y)
