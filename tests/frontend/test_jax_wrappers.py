"""JAX functions without `jax.jit`, and functions wrapped by frameworks (flax.nnx, equinox): results, names, and updates
of modules.
"""

from __future__ import annotations

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.compiled.executable import Executable

jax = pytest.importorskip("jax")
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
Y = np.ones((8, 4), np.float32)


def compiled(function: Any, *args: Any, **options: Any) -> Executable:
    return mg.compile(function, {"dp": 2}, args=args, target="cpu", **options)


def inputs(executable: Executable) -> list[str]:
    return [value.name for value in executable.fused.graph.inputs]


def layer(params: Any, x: Any) -> Any:
    return jax.nn.gelu(x @ params["w"])


def summed(params: Any, x: Any) -> Any:
    return layer(params, x).sum()


@pytest.mark.parametrize(
    "transformed",
    [layer, jax.grad(summed), jax.value_and_grad(summed), jax.vmap(layer, (None, 0))],
    ids=["plain", "grad", "value_and_grad", "vmap"],
)
def test_function_without_jit_is_lowered_by_jax(transformed: Any) -> None:
    executable = compiled(transformed, {"w": X}, X, in_specs={"params.w": mg.P("dp")})
    assert inputs(executable) == ["params.w", "x"]
    results, expected = executable({"w": X}, X), transformed({"w": X}, X)
    assert jax.tree.structure(results) == jax.tree.structure(expected)
    for actual, reference in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=1e-6)


def test_grad_inside_function_without_jit_is_lowered_by_jax() -> None:
    def step(w: Any, x: Any) -> Any:
        return w - jax.grad(lambda w: (x @ w).sum())(w)

    np.testing.assert_allclose(compiled(step, X, X)(X, X), step(X, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: {"y": x * 2, "rows": jax.numpy.arange(3)},
        lambda x: x.at[0].mul(jax.numpy.float32(3)),
        lambda x: jax.nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None]),
    ],
    ids=["array of JAX as result", "method of JAX", "fault inside JAX"],
)
def test_function_that_uses_jax_is_lowered_by_jax(function: Any) -> None:
    results, expected = compiled(function, X)(X), function(jax.numpy.asarray(X))
    for actual, reference in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=1e-6)


def test_function_that_uses_jax_accepts_python_scalars() -> None:
    result = compiled(lambda x, rate: jax.numpy.sin(x) * rate, X, 2)(X, 2)
    np.testing.assert_allclose(result, np.sin(X) * 2, rtol=1e-5, atol=1e-6)


def test_jax_error_in_function_without_jit_has_its_line() -> None:
    with pytest.raises(mg.MeshgenError, match=r"test_jax_wrappers.py:\d+: error MG0001.*contracting dimensions"):
        compiled(lambda x: jax.numpy.dot(x, x[:3]), X)


def test_traced_function_with_jax_array_reports_tracer_error() -> None:
    with pytest.raises(mg.MeshgenError, match=r"MG0105.*Tensor.foo"):
        compiled(lambda x: mg.gelu(x) @ x.foo, jax.numpy.asarray(X))


@pytest.mark.parametrize("function", [jax.jit(layer), layer], ids=["jitted", "plain"])
def test_arguments_bound_by_partial_are_named_weights(function: Any, tmp_path: Path) -> None:
    executable = compiled(partial(function, {"w": X}), "f32[8,8]", in_specs={"params.w": mg.P("dp")})
    assert inputs(executable) == ["params.w", "x"]
    expected = layer({"w": X}, X)
    np.testing.assert_allclose(executable(X), expected, rtol=1e-5, atol=1e-6)
    executable.save(tmp_path / "bound.mgx")
    np.testing.assert_allclose(mg.load(tmp_path / "bound.mgx")(x=X), expected, rtol=1e-5, atol=1e-6)


# --- flax.nnx ----------------------------------------------------------------------------------------------------------


def nnx_step(**options: Any) -> tuple[Any, Any]:
    """Return a training step under `nnx.jit`, and a function that creates the model and the optimizer of the step."""
    nnx, optax = pytest.importorskip("flax.nnx"), pytest.importorskip("optax")

    class Net(nnx.Module):  # pyright: ignore
        def __init__(self, rngs: Any) -> None:
            self.up, self.norm = nnx.Linear(8, 16, rngs=rngs), nnx.BatchNorm(16, rngs=rngs)
            self.drop, self.down = nnx.Dropout(0.5, rngs=rngs), nnx.Linear(16, 4, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.down(self.drop(self.norm(nnx.relu(self.up(x)))))

    @nnx.jit(**options)
    def step(net: Any, optimizer: Any, x: Any, y: Any) -> Any:
        loss, gradients = nnx.value_and_grad(lambda net: ((net(x) - y) ** 2).mean())(net)
        optimizer.update(net, gradients)
        return loss

    def make() -> tuple[Any, Any]:
        net = Net(nnx.Rngs(0))
        return net, nnx.Optimizer(net, optax.sgd(1e-2, 0.9), wrt=nnx.Param)

    return step, make


def state_of(*modules: Any) -> list[Any]:
    leaves = jax.tree.leaves(importlib.import_module("flax.nnx").state(modules))
    is_key = [jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
    return [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, is_key, strict=True)]


@pytest.mark.parametrize("options", [{}, {"donate_argnames": ("net", "optimizer")}, {"graph": False}], ids=str)
def test_nnx_jit_updates_modules_of_caller(options: Any, tmp_path: Path) -> None:
    step, make = nnx_step(**options)
    (net, optimizer), reference_modules = make(), make()
    specs = {"x": mg.P("dp"), "*.up.kernel": mg.P(None, "dp")}
    executable = compiled(step, net, optimizer, "f32[8,8]", "f32[8,4]", in_specs=specs)
    assert {"net.up.kernel", "optimizer.opt_state.0.trace.up.kernel", "x"} <= {*inputs(executable)}
    for _ in range(2):
        np.testing.assert_allclose(executable(net, optimizer, X, Y), step(*reference_modules, X, Y), rtol=1e-5)
    for actual, reference in zip(state_of(net, optimizer), state_of(*reference_modules), strict=True):
        np.testing.assert_allclose(actual, reference, rtol=1e-5, atol=1e-5)
    executable.save(tmp_path / "step.mgx")
    loss, updated = mg.load(tmp_path / "step.mgx")(net, optimizer, X, Y)
    np.testing.assert_allclose(loss, step(*reference_modules, X, Y), rtol=1e-5)
    assert type(updated["net"]) is type(net) and "optimizer" in updated


def test_nnx_method_updates_module_and_rejects_new_structure() -> None:
    nnx = pytest.importorskip("flax.nnx")

    class Counter(nnx.Module):  # pyright: ignore
        def __init__(self) -> None:
            self.count = nnx.Variable(jax.numpy.zeros((), "int32"))

        @nnx.jit
        def __call__(self, x: Any) -> Any:
            self.count[...] += 1
            self.largest = nnx.Variable(x.max())
            return x + self.count[...]

    counter = Counter()
    executable = compiled(counter.__call__, X)
    np.testing.assert_array_equal(executable(X), X + 1)
    assert (int(counter.count[...]), float(counter.largest[...])) == (1, 1.0)
    with pytest.raises(mg.MeshgenError, match=r"MG0601(.|\n)*compile it again"):
        executable(X)


def test_nnx_static_argument_is_part_of_program() -> None:
    nnx = pytest.importorskip("flax.nnx")
    executable = compiled(nnx.jit(lambda x, n: x * n, static_argnums=1), X, 3)
    np.testing.assert_array_equal(executable(X, 3), X * 3)
    with pytest.raises(mg.MeshgenError, match=r"MG0601.*other static parts"):
        executable(X, 4)


def test_lowered_nnx_function_is_rejected_with_hint() -> None:
    step, make = nnx_step()
    with pytest.raises(mg.MeshgenError, match=r"MG0001(.|\n)*pass the function itself, with args"):
        compiled(step.lower(*make(), X, Y))


# --- equinox -----------------------------------------------------------------------------------------------------------


def test_filter_jit_accepts_and_returns_modules(tmp_path: Path) -> None:
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.MLP(8, 4, 16, 1, key=jax.random.key(0))

    @eqx.filter_jit
    def step(net: Any, x: Any, scale: float) -> Any:
        loss, gradients = eqx.filter_value_and_grad(lambda net: (jax.vmap(net)(x) ** 2).mean() * scale)(net)
        return eqx.apply_updates(net, jax.tree.map(lambda g: -0.1 * g, gradients)), loss

    specs = {"x": mg.P("dp"), "net.layers.0.weight": mg.P("dp")}
    executable = compiled(step, net, jax.ShapeDtypeStruct(X.shape, X.dtype), 2.0, in_specs=specs)
    (updated, loss), (expected, expected_loss) = executable(net, X, 2.0), step(net, X, 2.0)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    np.testing.assert_allclose(updated.layers[0].weight, expected.layers[0].weight, rtol=1e-5, atol=1e-6)
    assert type(updated) is type(net) and updated.activation is net.activation
    with pytest.raises(mg.MeshgenError, match=r"MG0601.*other static parts"):
        executable(net, X, 3.0)
    executable.save(tmp_path / "step.mgx")
    np.testing.assert_allclose(mg.load(tmp_path / "step.mgx")(net, X, 2.0)[1], expected_loss, rtol=1e-5)


def test_filter_jit_of_module_binds_its_arrays_as_weights(tmp_path: Path) -> None:
    eqx = pytest.importorskip("equinox")
    net = eqx.nn.MLP(8, 4, 16, 1, key=jax.random.key(0))
    executable = compiled(eqx.filter_jit(net), X[0], in_specs={"self.layers.0.weight": mg.P("dp")})
    np.testing.assert_allclose(executable(X[0]), net(X[0]), rtol=1e-5, atol=1e-6)
    executable.save(tmp_path / "net.mgx")
    np.testing.assert_allclose(mg.load(tmp_path / "net.mgx")(X[0]), net(X[0]), rtol=1e-5, atol=1e-6)


# --- calls inside JAX transformations, and old versions
# -----------------------------------------------------------------


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, jax.vmap], ids=["jit", "grad", "vmap"])
@pytest.mark.parametrize("passed", [lambda x: x, lambda x: [x]], ids=["array", "list"])
def test_call_inside_jax_transformation_is_rejected_with_hint(transform: Any, passed: Any) -> None:
    executable = compiled(lambda x: x * 2, "f32[8,8]")
    with pytest.raises(
        mg.MeshgenError, match=r"MG0601(.|\n)*is a tracer of JAX(.|\n)*outside of jax.jit(.|\n)*pure_callback"
    ):
        transform(lambda x: executable(passed(x)))(X)
    called = jax.jit(lambda x: jax.pure_callback(executable, jax.ShapeDtypeStruct(X.shape, X.dtype), x))
    np.testing.assert_array_equal(called(X), X * 2)


def test_old_jax_is_rejected_with_required_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "__version_info__", (0, 4, 38))
    with pytest.raises(mg.MeshgenError, match=r"MG0602(.|\n)*too old(.|\n)*jax>=0.10"):
        compiled(jax.jit(layer), {"w": X}, X)
