"""Tests of groups of evenly spaced devices as mesh axes, and of replica groups of different sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ir.replica_groups import axes_along
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text

WIDE = make_mesh({"x": 2, "y": 6})


@pytest.mark.parametrize(
    ("count", "stride", "axes"),
    [
        (6, 1, ["y"]),
        (2, 6, ["x"]),
        (12, 1, ["x", "y"]),
        (3, 1, ["y:(2)3"]),
        (2, 3, ["y:(1)2"]),
        (1, 5, []),
        (4, 1, None),  # 4 does not divide the 6 devices along y
        (9, 1, None),  # 9 is no multiple of the 6 devices along y
        (2, 7, None),  # stride 7 moves along both axes at once
        (2, 12, None),  # the second device is outside the mesh
    ],
)
def test_strided_devices_map_to_mesh_axes_or_sub_axes(count: int, stride: int, axes: list[str] | None) -> None:
    assert axes_along(count, stride, WIDE) == axes


UNEVEN = """module attributes {{mhlo.num_partitions = 6 : i32}} {{
  func.func @main(%x: tensor<2x3xf32>) -> tensor<{result}xf32> {{
    %0 = "stablehlo.{op}"(%x) <{{{attrs}replica_groups = dense<[[5, 1, 2], [3, 0, -1], [4, -1, -1]]> : tensor<3x3xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>{ids}}}> {region} : (tensor<2x3xf32>) -> tensor<{result}xf32>
    return %0 : tensor<{result}xf32>
  }}
}}"""
GROUPS = ((5, 1, 2), (3, 0), (4,))
REGION = """({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %p = stablehlo.{op} %a, %b : tensor<f32>
      %q = stablehlo.subtract %b, %a : tensor<f32>
      stablehlo.return %{result} : tensor<f32>
    }})"""
IDS = ", use_global_device_ids"


@pytest.fixture
def rows() -> Any:
    """Return one row for each of six devices, as operands."""
    return np.random.default_rng(0).standard_normal((6, 2, 3)).astype(np.float32)


@pytest.mark.parametrize(("op", "kind"), [("add", np.sum), ("minimum", np.min), ("multiply", np.prod)])
def test_uneven_groups_reduce_independently(op: str, kind: Any, rows: Any) -> None:
    region = REGION.format(op=op, result="p")
    region = region.replace("      %q = stablehlo.subtract %b, %a : tensor<f32>\n", "")
    text = UNEVEN.format(op="all_reduce", attrs="", ids=IDS, region=region, result="2x3")
    executable = mg.compile(text, target="cpu")
    results = executable(rows.reshape(12, 3)).reshape(6, 2, 3)
    for group in GROUPS:
        for device in group:
            np.testing.assert_allclose(results[device], kind(rows[list(group)], axis=0), rtol=1e-6)
    np.testing.assert_array_equal(results[4], rows[4])  # a group of one device
    assert executable.comms.counts == {"all_reduce": 1}


def test_uneven_groups_fold_in_listed_order(rows: Any) -> None:
    region = REGION.format(op="add", result="q")
    text = UNEVEN.format(op="all_reduce", attrs="", ids=IDS, region=region, result="2x3")
    results = mg.compile(text, target="cpu")(rows.reshape(12, 3)).reshape(6, 2, 3)
    np.testing.assert_array_equal(results[1], rows[2] - (rows[1] - rows[5]))
    np.testing.assert_array_equal(results[0], rows[0] - rows[3])
    np.testing.assert_array_equal(results[4], rows[4])


def test_uneven_groups_broadcast_from_first_device(rows: Any) -> None:
    text = UNEVEN.format(op="collective_broadcast", attrs="", ids="", region="", result="2x3")
    results = mg.compile(text, target="cpu")(rows.reshape(12, 3)).reshape(6, 2, 3)
    np.testing.assert_array_equal(results, rows[[3, 5, 5, 3, 4, 5]])


def test_all_gather_over_uneven_groups_is_refused() -> None:
    text = UNEVEN.format(op="all_gather", attrs="all_gather_dim = 0 : i64, ", ids=IDS, region="", result="6x3")
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0104" and "different sizes, 1 and 2 and 3" in fault.message and "all_reduce" in fault.hint
