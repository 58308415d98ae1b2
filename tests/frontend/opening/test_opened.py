"""Programs with open sizes. A program is read at a few sizes, from which the open program is built. At any other size
it must equal the program that is read at this size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.calls.signature import Signature
from meshgen.errors import ProgramError
from meshgen.frontend.opening.program import opened
from meshgen.frontend.opening.size_assertions import Limit
from meshgen.frontend.tracer import trace
from meshgen.ir.graph import Module
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.sizes.program import with_shapes

Function = Callable[..., Any]
AT = {"b": 3, "t": 6}


def means(x: Any, w: Any) -> Any:
    return mg.mean(x, (0, 1)), mg.mean(x @ w), mg.sum(x) * x.shape[0], x - mg.max(x, 1, keepdims=True)


def rows(x: Any, w: Any) -> Any:
    b, t, _ = x.shape
    flat = x.reshape(b * t, 8) @ w
    return (
        flat.reshape(b, t, -1),
        mg.concatenate([x[:, 1:], x[:, :1] * 2], 1),
        x[:, ::2, :3] if t < 0 else x[:, t - 2 :],
    )


def masked(x: Any, w: Any) -> Any:
    t = x.shape[1]
    scores = x @ mg.swapaxes(x, 1, 2)
    mask = mg.arange(t)[:, None] >= mg.arange(t)
    return mg.softmax(mg.where(mask, scores, -1e9), axis=-1) @ x, mg.pad(x, ((0, 0), (2, 1), (0, 0))), mg.zeros((t, 2))


def running(x: Any, w: Any) -> Any:
    scanned = mg.scan(lambda carry, row: (carry + row @ w, carry), x[:, 0] * 0, mg.swapaxes(x, 0, 1))
    return mg.cumsum(x, 1), *scanned


def looked_up(x: Any, w: Any) -> Any:
    indices = np.arange(x.shape[1], dtype=np.int32) * 2 + 1
    shape = mg.asarray(np.array([*x.shape, 7], np.int32))
    return w[indices % 8] if isinstance(indices, mg.Tensor) else mg.take(w, mg.asarray(indices) % 8, axis=0), shape


def strided(x: Any, w: Any) -> Any:
    half = x.shape[1] // 2
    every_fourth = x[:, ::2][:, 1::2]
    return (
        every_fourth,
        every_fourth.reshape(-1, 8) @ w,
        mg.concatenate([x[:, half:], x[:, :half]], 1),
        mg.mean(x[:, :half], 1),
    )


def padded(x: Any, w: Any) -> Any:
    return mg.pad(x, ((0, 0), (0, x.shape[1] % 2), (0, 0)))


def reader(function: Function) -> Callable[[Mapping[str, int]], tuple[Module, Signature]]:
    def read(sizes: Mapping[str, int]) -> tuple[Module, Signature]:
        traced = trace(function, [f"f32[{sizes['b']},{sizes['t']},8]", "f32[8,8]"])
        return traced.module, traced.signature

    return read


def program(function: Function, **options: Any) -> Module:
    return opened({"b": (0, None), "t": (4, None)}, reader(function), **options)[0]


@pytest.mark.parametrize(
    "function", [means, rows, masked, running, looked_up, strided, padded], ids=lambda f: f.__name__
)
def test_open_program_at_sizes_equals_fixed_program(function: Function) -> None:
    module = program(function)
    assert "x" in [value.name for value in module.graph.inputs] and "?" in str(module.graph.inputs[0].type)
    rng = np.random.default_rng(0)
    for sizes in (AT, {"b": 1, "t": 4}, {"b": 5, "t": 131}):
        x, w = rng.standard_normal((sizes["b"], sizes["t"], 8)).astype("f4"), rng.standard_normal((8, 8)).astype("f4")
        expected = reader(function)(sizes)[0]
        for open_module in (module, parse_text(print_text(module))):
            closed = with_shapes(open_module, {"x": x.shape})
            assert [v.type for v in closed.graph.outputs] == [v.type for v in expected.graph.outputs]
            for actual, reference in zip(evaluate(closed.graph, [x, w]), evaluate(expected.graph, [x, w]), strict=True):
                np.testing.assert_array_equal(actual, reference)


def unrolled(x: Any, w: Any) -> Any:
    total = x[:, 0]
    for index in range(1, x.shape[1]):
        total = total + x[:, index]
    return total


def filled(x: Any, w: Any) -> Any:
    return mg.pad(x, ((0, 0), (0, -x.shape[1] % 256), (0, 0)))


def scaled(x: Any, w: Any) -> Any:
    return x / np.sqrt(x.shape[1])


def tabled(x: Any, w: Any) -> Any:
    return x + np.sin(np.arange(x.shape[1], dtype=np.float32))[:, None]


@pytest.mark.parametrize(
    ("function", "message"),
    [(unrolled, "the operations differ between sizes"), (filled, "not a supported formula of them: 256 where b is 67 and t is 71, "),
     (scaled, r"a constant of type f32\[\]"), (tabled, r"a constant of type f32\[71,1\]")],
)  # fmt: skip
def test_unsupported_use_of_size_is_rejected_with_location(function: Function, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as error:
        program(function)
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0208" and "args=" in fault.hint
    assert fault.loc is not None and fault.loc.file == __file__


def test_open_program_checks_ranges_and_limits() -> None:
    limits = [Limit("x_1 % 3 == 0", {"x_1": ("x", 1)})]
    module = program(means, limits=limits)
    with_shapes(module, {"x": (2, 6, 8)})
    for shape, message in (
        ((2, 7, 8), "dim 1 of 'x' is 7, but the program is for x_1 % 3 == 0"),
        ((2, 3, 8), "is 3, but the program is for 4 or more"),
    ):
        with pytest.raises(ProgramError, match=message):
            with_shapes(module, {"x": shape})


def test_sizes_of_two_inputs_must_agree() -> None:
    def read(sizes: Mapping[str, int]) -> tuple[Module, Signature]:
        traced = trace(lambda x, y: x + y[: x.shape[0]], [f"f32[{sizes['n']}]", f"f32[{2 * sizes['n'] + 1}]"])
        return traced.module, traced.signature

    module = opened({"n": (0, None)}, read)[0]
    assert [str(v.type) for v in with_shapes(module, {"x": (4,), "y": (9,)}).graph.outputs] == ["f32[4]"]
    with pytest.raises(ProgramError, match=r"dim 0 of 'y' is 8, but the program is for sizes of the form 2\*n \+ 1"):
        with_shapes(module, {"x": (4,), "y": (8,)})


def test_range_with_too_few_sizes_is_rejected() -> None:
    with pytest.raises(ProgramError, match="too few sizes"):
        opened({"b": (1, 4), "t": (0, None)}, reader(means))
