"""`mg.manual`: functions of the tiles of one device, with explicit collectives over named axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import P
from meshgen.errors import ProgramError
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check

MESH = {"x": 2, "y": 4}


def compiled(function: Callable[..., Any], *args: str, mesh: Any = None, **specs: Any) -> mg.Executable:
    """Compile a function, and check it against the reference evaluator on one device."""
    executable = mg.compile(function, mesh or MESH, args=list(args), target="cpu", **specs)
    module = executable.stages["import"]
    assert check(module, pipeline=lambda imported: run_stages(imported, Options("cpu"), Timing(), "fuse")["fuse"]).ok
    return executable


def test_manual_matmul_reduces_with_explicit_all_reduce() -> None:
    def program(a: mg.Tensor, b: mg.Tensor) -> mg.Tensor:
        def tile(left: mg.Tensor, right: mg.Tensor) -> mg.Tensor:
            assert (left.shape, right.shape) == ((4, 3), (3, 6))
            return mg.all_reduce(left @ right, "y")

        return mg.exp(mg.manual(tile, in_specs=(P("x", "y"), P("y")), out_specs=P("x"))(mg.tanh(a), b))

    executable = compiled(program, "f32[8,12]", "f32[12,6]")
    assert executable.comms.counts == {"all_reduce": 1}
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 12)).astype("f4"), rng.normal(size=(12, 6)).astype("f4")
    np.testing.assert_allclose(executable(a, b), np.exp(np.tanh(a) @ b), rtol=1e-4)


COLLECTIVES: dict[str, tuple[Callable[[mg.Tensor], mg.Tensor], mg.Sharding, Callable[[np.ndarray], np.ndarray]]] = {
    "all_gather": (lambda t: mg.all_gather(t, "y"), P(), lambda x: x),
    "reduce_scatter": (lambda t: mg.reduce_scatter(mg.all_gather(t, "y"), "y", kind="max"), P("y"), lambda x: x),
    "all_to_all": (lambda t: mg.all_to_all(t, "y", split_axis=1, concat_axis=0), P(None, "y"), lambda x: x),
    "shift": (lambda t: mg.shift(t, "y", -1), P("y"), lambda x: np.roll(x, -2, 0)),
    "process_index": (lambda t: t * mg.process_index("y"), P("y"), lambda x: x * np.repeat(np.arange(4), 2)[:, None]),
    "all_reduce": (lambda t: mg.all_reduce(t, ["y"], "max"), P(), lambda x: x.reshape(4, 2, 8).max(0)),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
def test_manual_collective_matches_numpy(name: str) -> None:
    function, out, expected = COLLECTIVES[name]
    executable = compiled(lambda x: mg.manual(function, in_specs=P("y"), out_specs=out)(x), "f32[8,8]")
    x = np.random.default_rng(1).normal(size=(8, 8)).astype("f4")
    np.testing.assert_allclose(executable(x), expected(x), rtol=1e-6)


def test_axes_outside_manual_stay_free() -> None:
    """The body is manual over y only. Its argument is also sharded over x, and so is a value that is annotated inside
    the body.
    """

    def program(x: mg.Tensor) -> mg.Tensor:
        def tile(t: mg.Tensor) -> mg.Tensor:
            return mg.all_reduce(mg.annotate(mg.tanh(t), P(None, "x")), "y")

        return mg.manual(tile, in_specs=P("y"), out_specs=P(), axes="y")(x)

    executable = compiled(program, "f32[8,6]", in_specs={"x": P("y", "x")})
    (reduction,) = executable.comms
    assert (reduction.axes, reduction.shape) == (("y",), (2, 3))


def test_manual_body_accepts_structures_and_captured_tensors() -> None:
    def program(x: mg.Tensor, weights: dict[str, mg.Tensor]) -> tuple[mg.Tensor, dict[str, mg.Tensor]]:
        scale = mg.exp(weights["b"])

        def tile(t: mg.Tensor, w: dict[str, mg.Tensor]) -> tuple[mg.Tensor, dict[str, mg.Tensor]]:
            return t @ w["a"] + scale, {"twice": t * 2}

        return mg.manual(tile, in_specs=(P("x"), P()), out_specs=(P("x"), P("x")))(x, {"a": weights["a"], "c": 1.0})

    args = ["f32[4,3]", {"a": "f32[3,5]", "b": "f32[5]"}]
    executable = mg.compile(program, MESH, args=args, target="cpu")
    rng = np.random.default_rng(2)
    x, a, b = (rng.normal(size=shape).astype("f4") for shape in ((4, 3), (3, 5), (5,)))
    product, rest = executable(x, {"a": a, "b": b})
    np.testing.assert_allclose(product, x @ a + np.exp(b), rtol=1e-5)
    np.testing.assert_allclose(rest["twice"], 2 * x)


def test_manual_body_may_use_one_of_several_meshes() -> None:
    def program(x: mg.Tensor) -> mg.Tensor:
        h = mg.annotate(mg.tanh(x), P("d", mesh="first"))
        return mg.manual(lambda t: mg.all_reduce(t, "m"), in_specs=P("m"), out_specs=P(), mesh="second")(h)

    executable = compiled(program, "f32[6,4]", mesh={"first": {"d": 2}, "second": {"m": 3}})
    x = np.random.default_rng(3).normal(size=(6, 4)).astype("f4")
    np.testing.assert_allclose(executable(x), np.tanh(x).reshape(3, 2, 4).sum(0), rtol=1e-5)


def same(t: mg.Tensor) -> mg.Tensor:
    return t


REFUSED: dict[str, tuple[Callable[[mg.Tensor], Any], str]] = {
    "an uneven tile": (lambda x: mg.manual(same, P("y"), P("y"))(x), r"MG0204.*6 rows, which do not divide among 4 devices"),
    "an unknown axis": (lambda x: mg.manual(same, P("q"), P())(x), "MG0202.*'q' is not in"),
    "an axis that is not manual": (lambda x: mg.manual(same, P("x"), P(), axes="y")(x), "MG0204.*names x, which are not manual axes"),
    "too few shardings": (lambda x: mg.manual(lambda t, u: t, P("x"), P("x"))(x, x), "1 shardings of its arguments, but there are 2"),
    "another axis": (lambda x: mg.manual(lambda t: mg.all_reduce(t, "y"), P("x"), P("x"), axes="x")(x), "MG0204.*manual axes are x, not y"),
    "a collective outside": (lambda x: mg.all_reduce(x, "x"), "collectives are written inside mg.manual"),
    "an unknown kind": (lambda x: mg.manual(lambda t: mg.all_reduce(t, "x", "mean"), P(), P())(x), "cannot be reduced with 'mean'"),
    "the same axis twice": (lambda x: mg.manual(lambda t: mg.manual(same, P(), P(), axes="x")(t), P(), P())(x), "nested in one over the same axes"),
    "rows that are not shared evenly": (lambda x: mg.manual(lambda t: mg.reduce_scatter(t, "y"), P(), P())(x), "MG0204.*axis 0 of .*6 rows, which do not divide among 4 devices"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_manual_call_is_rejected_at_user_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(ProgramError, match=message) as caught:
        mg.compile(function, MESH, args=["f32[6,4]"], target="cpu")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.loc and diagnostic.loc.file == __file__


def test_manual_without_mesh_is_rejected() -> None:
    with pytest.raises(ProgramError, match=r"MG0201.*mg.manual needs a mesh"):
        mg.lower(lambda x: mg.manual(same, P("x"), P("x"))(x), args=["f32[6,4]"], stage="import")
