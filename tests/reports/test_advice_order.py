"""Advice to reorder the columns of a fused weight if only fetch_rows collectives are needed to slice it."""

from __future__ import annotations

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.pipeline import Timing
from meshgen.reports.advice_order import orders

MESH = mg.make_mesh({"dp": 2, "tp": 4})
SPECS = {"x": mg.P("dp"), "w": mg.P(None, "tp"), "b": mg.P("tp")}


def attention(x: mg.Tensor, w: mg.Tensor, b: mg.Tensor) -> mg.Tensor:
    """Return scores of 8 heads of size 4, computed from a fused weight for q, k and v."""
    h = x @ w + b
    q, k, v = h[:, :32], h[:, 32:64], h[:, 64:]
    return mg.tanh(q) * k + v


def overlapping_slices(x: mg.Tensor, w: mg.Tensor, b: mg.Tensor) -> mg.Tensor:
    """Multiply overlapping slices: the second begins before the first ends."""
    h = x @ w + b
    return h[:, :32] * h[:, 31:63]


def order_dependent_use(x: mg.Tensor, w: mg.Tensor, b: mg.Tensor) -> tuple[mg.Tensor, mg.Tensor]:
    """Use the unsliced value a second time, which depends on its column order."""
    h = x @ w + b
    return mg.tanh(h[:, :32]) * h[:, 32:64] + h[:, 64:], mg.reshape(h, (16, 24, 4))


def planned(function: object) -> Executable:
    return api.plan(function, MESH, args=["f32[16,8]", "f32[8,96]", "f32[96]"], in_specs=SPECS, target="cpu")


def test_advice_names_fused_weight_and_new_order() -> None:
    executable = planned(attention)
    assert executable.comms.count("fetch_rows") == 1
    (change,) = orders(executable, None)
    assert "store dim 1 of %w and dim 0 of %b as [4, 3, 8] instead of [3, 4, 8]" in change.text
    assert change.seconds == pytest.approx(executable.comms[0].seconds)
    (advice,) = [advice_item for advice_item in mg.advise(executable) if advice_item.kind == "reorder"]
    assert advice.after["ring_bytes"] == 0 < advice.before["ring_bytes"]


def test_program_with_reordered_weight_computes_same_result() -> None:
    executable = planned(attention)
    (change,) = orders(executable, None)
    module = change.program()
    assert module is not None
    other = api.plan_module(module, executable.options, Timing())
    assert len(other.comms) == 0
    random = np.random.default_rng(0)
    x, w, b = (random.standard_normal(shape, dtype=np.float32) for shape in ((16, 8), (8, 96), (96,)))

    def stored(array: np.ndarray) -> np.ndarray:
        return array.reshape(*array.shape[:-1], 3, 4, 8).swapaxes(-3, -2).reshape(array.shape)

    np.testing.assert_array_equal(other(x, stored(w), stored(b)), executable(x, w, b))


@pytest.mark.parametrize("function", [overlapping_slices, order_dependent_use], ids=lambda function: function.__name__)
def test_no_reorder_advice_for_order_dependent_uses(function: object) -> None:
    executable = planned(function)
    assert executable.comms.count("fetch_rows") > 0
    assert [*orders(executable, None)] == []
