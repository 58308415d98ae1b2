"""JAX's shard_map, lowered over an abstract mesh, compared with NumPy and with the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen.api import compile as compile_program
from meshgen.api import read
from meshgen.testing.oracle import check

jax = pytest.importorskip("jax")
lax, P = jax.lax, jax.sharding.PartitionSpec
MESH = jax.sharding.AbstractMesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
A = np.arange(96, dtype=np.float32).reshape(8, 12) - 50  # integers, so that sums are exact
EDGE = [(0, 1), (1, 2), (2, 3)]
RING = [(3, 0), *EDGE]


def _ring_sum(a: Any) -> Any:
    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        block, total = carry
        return (lax.ppermute(block, "y", RING), total + block), None

    return lax.scan(step, (a, a * 0), None, length=4)[0][1]


def _nested(a: Any) -> Any:
    inner = jax.shard_map(lambda b: lax.psum(b, "y"), in_specs=P(None, "y"), out_specs=P(), axis_names={"y"}, check_vma=False)  # fmt: skip
    return inner(a) * 2


def _tiles(array: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    return np.split(array, 4, 1)


SUMMED = np.add.reduce(_tiles(A))
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any, np.ndarray[Any, Any], frozenset[str]]] = {
    "psum": (lambda a: lax.psum(a, "y"), P("x", "y"), P("x", None), SUMMED, frozenset()),
    "pmax of both": (lambda a: lax.pmax(a, ("x", "y")), P("x", "y"), P(), np.maximum.reduce([t for r in np.split(A, 2) for t in _tiles(r)]), frozenset()),
    "gather in the other order": (lambda a: lax.all_gather(a, ("y", "x"), tiled=True), P(("y", "x")), P(), A, frozenset()),
    "scatter": (lambda a: lax.psum_scatter(a, "y", tiled=True), P(None, "x"), P("y", "x"), 4 * A, frozenset()),
    "exchange": (lambda a: lax.all_to_all(a, "y", 1, 0, tiled=True), P("y"), P(None, "y"), A, frozenset()),
    "to the right, zeros first": (lambda a: lax.ppermute(a, "y", EDGE), P(None, "y"), P(None, "y"), np.concatenate([A[:, :3] * 0, A[:, :9]], 1), frozenset()),
    "index": (lambda a: a + lax.axis_index("x") * 10, P("x"), P("x"), A + np.repeat([[0], [10]], 4, 0), frozenset()),
    "ring": (_ring_sum, P("x", "y"), P("x"), SUMMED, frozenset()),
    "nested": (_nested, P("x"), P("x"), 2 * SUMMED, frozenset({"x"})),
    "some axes": (lambda a: lax.psum(a, "x").sum(1), P("x"), P(), (A[:4] + A[4:]).sum(1), frozenset({"x"})),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_shard_map_collectives_match_numpy(name: str) -> None:
    body, ins, outs, expected, axes = CASES[name]
    names = {"axis_names": set(axes)} if axes else {}
    mapped = jax.jit(jax.shard_map(body, mesh=MESH, in_specs=ins, out_specs=outs, check_vma=False, **names))
    lowered = mapped.trace(A).lower(lowering_platforms=("cpu",))
    executable = compile_program(lowered, target="cpu")
    np.testing.assert_array_equal(np.asarray(executable(A)), expected)
    module, _ = read(lowered)
    result = check(module, pipeline=lambda _: executable.fused, args=[A])
    assert result.ok and not result.outputs[0].unbounded, result.faults


ONES: dict[str, Callable[[Any, Any], Any]] = {
    "psum": lambda a, axes: lax.psum(a, axes),
    "gather": lambda a, axes: lax.all_gather(a, axes, axis=1, tiled=True),
    "scatter": lambda a, axes: lax.psum_scatter(a, axes, tiled=True),
    "exchange": lambda a, axes: lax.all_to_all(a, axes, 1, 0, tiled=True),
    "permute": lambda a, axes: lax.ppermute(a, axes, [(0, 0)]),
    "index": lambda a, axes: a + lax.axis_index(axes),
    "loop": lambda a, axes: lax.fori_loop(0, 2, lambda _, b: lax.pmax(b, axes), a),
}


@pytest.mark.parametrize("name", ONES)
@pytest.mark.parametrize("sizes", [(1, 4), (1, 1), (4, 1)], ids=str)
def test_collectives_over_axis_of_one_device_are_identities(name: str, sizes: tuple[int, int]) -> None:
    """If all manual axes have one device, JAX lowers collectives outside of a manual computation, often without a mesh."""
    mesh = jax.sharding.AbstractMesh(sizes, ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    axis = "xy"[sizes.index(1)]
    mapped = jax.shard_map(lambda a: ONES[name](a, axis), mesh=mesh, in_specs=P(axis), out_specs=P(axis), axis_names={axis}, check_vma=False)  # fmt: skip
    specs = {"a": P("y" if axis == "x" else "x")}
    executable = compile_program(jax.jit(lambda a: mapped(a) * 2), args=(A,), in_specs=specs, target="cpu")
    assert dict(zip(executable.mesh.names, executable.mesh.sizes, strict=True)) == dict(mesh.shape)
    np.testing.assert_array_equal(np.asarray(executable(A)), A * 2)
    text = jax.jit(mapped).trace(A).lower(lowering_platforms=("cpu",)).as_text()
    np.testing.assert_array_equal(np.asarray(compile_program(text, target="cpu")(A)), A)


TILES = [np.split(half, 4, 1) for half in np.split(A, 2)]  # tiles of an array that is split along x, then along y
COLUMN_SUM, TOTAL = A[:4] + A[4:], np.add.reduce([tile for row in TILES for tile in row])
INNER: dict[str, tuple[Callable[[Any], Any], Any, np.ndarray[Any, Any]]] = {
    "psum of the outer axis": (lambda b: lax.psum(b, "x"), P(None, "y"), np.tile(COLUMN_SUM, (2, 1))),
    "psum of both": (lambda b: lax.psum(b, ("x", "y")), P(), np.tile(TOTAL, (2, 1))),
    "permute": (lambda b: lax.ppermute(b, "x", [(0, 1), (1, 0)]), P(None, "y"), np.concatenate([A[4:], A[:4]])),
    "scatter": (lambda b: lax.psum_scatter(b, "x", tiled=True), P(None, "y"), COLUMN_SUM),
    "index": (lambda b: b + lax.axis_index("x") * 10, P(None, "y"), A + np.repeat([[0], [10]], 4, 0)),
    "loop": (
        lambda b: lax.fori_loop(0, 2, lambda _, c: lax.psum(c, "x"), b),
        P(None, "y"),
        np.tile(2 * COLUMN_SUM, (2, 1)),
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_nested_shard_map_may_use_outer_axes(name: str) -> None:
    body, outs, expected = INNER[name]

    def outer(a: Any) -> Any:
        return jax.shard_map(body, in_specs=P(None, "y"), out_specs=outs, axis_names={"y"}, check_vma=False)(a)

    mapped = jax.shard_map(outer, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False)
    executable = compile_program(jax.jit(mapped), args=(A,), target="cpu")
    np.testing.assert_array_equal(np.asarray(executable(A)), expected)
    recompiled = compile_program(executable.as_text("propagate"), target="cpu")
    np.testing.assert_array_equal(np.asarray(recompiled(A)), expected)


def test_axis_index_on_one_device_allows_constraints() -> None:
    mesh = jax.sharding.AbstractMesh((1, 1), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    mapped = jax.shard_map(
        lambda a: a + lax.axis_index("y"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False
    )
    constrained = jax.jit(lambda a: lax.with_sharding_constraint(mapped(a), jax.sharding.NamedSharding(mesh, P("x"))))
    np.testing.assert_array_equal(np.asarray(compile_program(constrained, args=(A,), target="cpu")(A)), A)
