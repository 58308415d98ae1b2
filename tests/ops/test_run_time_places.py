"""Tests of collectives whose root, source or destination is known only at run time, for all devices and dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from tests.acceptance import device_model as model
from tests.acceptance.device_model import Array, Device, Tensors

GRID = (2, 3)


def run(operation: str, operand: Tensors, coordinates: Sequence[int], kind: str, result: str) -> Tensors:
    """Run `operation` on `%x` over axis 1. `coordinates` are the run-time values of `%k` and `%m`."""
    text = f"""shard.grid @g(shape = 2x3)
func.func @f(%x: {kind}, %k: index, %m: index) -> {result} {{
  {operation}
  return %r : {result}
}}"""
    devices = model.devices(GRID)
    numbers = [np.asarray(number, np.int64) for number in coordinates]
    stacked = mg.compile(text, target="cpu")(np.concatenate([operand[d] for d in devices]), *numbers)
    return dict(zip(devices, np.split(np.asarray(stacked), len(devices)), strict=True))


def operand(*shape: int, dtype: Any = np.float32) -> Tensors:
    random = np.random.default_rng(5)
    return {d: (random.standard_normal(shape) * 40).astype(dtype) for d in model.devices(GRID)}


def assert_same(results: Tensors, expected: dict[Device, Array | None]) -> None:
    for device, array in expected.items():
        if array is not None:
            assert_array_equal(results[device], array, err_msg=str(device))


@pytest.mark.parametrize("root", range(3))
@pytest.mark.parametrize(
    ("dtype", "kind"), [(np.float32, "f32"), (np.int8, "i8"), (np.float16, "f16"), (np.bool_, "i1")]
)
def test_broadcast_supports_dynamic_root(root: int, dtype: Any, kind: str) -> None:
    x, tensor = operand(4, dtype=dtype), f"tensor<4x{kind}>"
    operation = f"%r = shard.broadcast %x on @g grid_axes = [1] root = [%k] : ({tensor}, index) -> {tensor}"
    assert_same(run(operation, x, (root, 0), tensor, tensor), model.broadcast(x, GRID, (1,), (root,)))


def test_dynamic_broadcast_keeps_special_floats_bit_exact() -> None:
    x = {
        d: np.asarray([-0.0, np.inf, np.nan, 1.0], np.float32) + np.float32(0 if d == (1, 2) else 1)
        for d in model.devices(GRID)
    }
    operation = "%r = shard.broadcast %x on @g grid_axes = [1, 0] root = [%k, %m] : (tensor<4xf32>, index, index) -> tensor<4xf32>"
    results = run(operation, x, (2, 1), "tensor<4xf32>", "tensor<4xf32>")
    for array in results.values():
        assert array.view(np.uint32).tolist() == x[1, 2].view(np.uint32).tolist()


@pytest.mark.parametrize("root", range(3))
def test_scatter_gather_and_reduce_support_dynamic_root(root: int) -> None:
    x, six, two = operand(6, 2), "tensor<6x2xf32>", "tensor<2x2xf32>"
    operation = f"%r = shard.scatter %x on @g grid_axes = [1] scatter_axis = 0 root = [%k] : ({six}, index) -> {two}"
    assert_same(run(operation, x, (root, 0), six, two), model.scatter(x, GRID, (1,), (root,), 0))
    gathered_type = "tensor<18x2xf32>"
    operation = (
        f"%r = shard.gather %x on @g grid_axes = [1] gather_axis = 0 root = [%k] : ({six}, index) -> {gathered_type}"
    )
    gathered = model.at_root(x, GRID, (1,), (root,), model.all_gather(x, GRID, (1,), 0))
    assert_same(run(operation, x, (root, 0), six, gathered_type), gathered)
    operation = f"%r = shard.reduce %x on @g grid_axes = [1] reduction = max root = [%k] : ({six}, index) -> {six}"
    reduced = model.at_root(x, GRID, (1,), (root,), model.all_reduce(x, GRID, (1,), np.maximum, np.float32))
    assert_same(run(operation, x, (root, 0), six, six), reduced)


@pytest.mark.parametrize(("destination", "source"), [("%k", "%m"), ("%k", "1"), ("2", "%m")])
def test_send_and_recv_support_dynamic_peers(destination: str, source: str) -> None:
    x, kind = operand(4), "tensor<4xf32>"
    types = [f"({', '.join([kind, *['index'] * peer.startswith('%')])})" for peer in (destination, source)]
    operation = f"""%s = shard.send %x on @g grid_axes = [1] destination = [{destination}] : {types[0]} -> {kind}
  %r = shard.recv %x on @g grid_axes = [1] source = [{source}] : {types[1]} -> {kind}"""
    assert_same(run(operation, x, (2, 1), kind, kind), model.send_recv(x, GRID, (1,), (1,), (2,)))


FAULTS = [
    ("shard.broadcast %x on @g grid_axes = [1] root = [%k, %k] : (tensor<4xf32>, index, index) -> tensor<4xf32>",
     "root [?, ?] has 2 coordinates, but the groups have 1 axes"),
    ("shard.broadcast %x on @g grid_axes = [0, 1] root = [2, %k] : (tensor<4xf32>, index) -> tensor<4xf32>",
     "root [2, ?]: coordinate 2 is outside axis '0' of size 2"),
    ("shard.recv %x on @g grid_axes = [1] source = [%k] : (tensor<4xf32>, index) -> tensor<4xf32>",
     "no matching send over ['1'] before it in its block"),
]  # fmt: skip


@pytest.mark.parametrize(("operation", "message"), FAULTS)
def test_invalid_dynamic_coordinates_are_refused(operation: str, message: str) -> None:
    text = f"shard.grid @g(shape = 2x3)\nfunc.func @f(%x: tensor<4xf32>, %k: index) -> tensor<4xf32> {{\n  %r = {operation}\n  return %r : tensor<4xf32>\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0104" and message in fault.message and fault.loc is not None and fault.loc.line == 3
