"""Tests of replica groups given as mesh axes, and of collectives with a root."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text

IN_PLACE = (
    '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>, '
    '#stablehlo.mesh_axis<name = "y", size = 4>]{ids}>'
)
ADD = """({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"""
ROWS = np.random.default_rng(0).integers(-9, 9, (8, 3)).astype(np.float32)  # operand rows of the eight devices


def summed(groups: str, *, head: str = "", op: str = "all_reduce") -> str:
    """Return a program for eight devices that applies the collective `op` in `groups`, with `head` as its first lines."""
    return f"""module attributes {{mhlo.num_partitions = 8 : i32}} {{
  {head}
  func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {{
    %0 = "stablehlo.{op}"(%a) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids, replica_groups = {groups}}}> {ADD} : (tensor<3xf32>) -> tensor<3xf32>
    return %0 : tensor<3xf32>
  }}
}}"""


def by_axes(mesh: str, *axes: str) -> str:
    return f"#stablehlo.replica_group_mesh_axes<{mesh}, axes = [{', '.join(axes)}]>"


def reference(text: str) -> np.ndarray[Any, Any]:
    return mg.compile(text, target="cpu")(ROWS.reshape(-1)).reshape(8, 3)


X, Y = ('#stablehlo.axis_ref<name = "x">', '#stablehlo.axis_ref<name="y">')
MAJOR, MINOR = ('#stablehlo.axis_ref<name = "y", sub_axis_info = (1)2>', '#sdy<axis_ref"y":(2)2>')
PLAIN = "mesh = " + IN_PLACE.format(ids="")
TURNED = "mesh = " + IN_PLACE.format(ids=", device_ids = dense<[0, 4, 1, 5, 2, 6, 3, 7]> : tensor<8xi64>")


@pytest.mark.parametrize(
    ("groups", "head", "device_groups"),
    [
        (by_axes(PLAIN, X), "", make_mesh({"x": 2, "y": 4}).groups(["x"])),
        (by_axes(PLAIN, Y, X), "", make_mesh({"x": 2, "y": 4}).groups(["x", "y"])),
        (by_axes(PLAIN, MAJOR), "", ((0, 2), (1, 3), (4, 6), (5, 7))),
        (by_axes(PLAIN, X, MINOR), "", ((0, 1, 4, 5), (2, 3, 6, 7))),
        (by_axes(TURNED, X), "", ((0, 2), (4, 6), (1, 3), (5, 7))),
        (by_axes("mesh = @m", Y), 'sdy.mesh @m = <["x"=2, "y"=4]>', ((0, 1, 2, 3), (4, 5, 6, 7))),
        (by_axes("mesh_name = @m", Y), 'sdy.mesh @m = <["x"=2, "y"=4], device_ids=[0, 4, 1, 5, 2, 6, 3, 7]>', ((0, 4, 1, 5), (2, 6, 3, 7))),
        (by_axes(PLAIN), "", tuple((n,) for n in range(8))),
    ],
    ids=["x", "both", "major part", "minor part and x", "device ids", "by name", "by name, device ids", "none"],
)  # fmt: skip
def test_mesh_axes_groups_reduce_along_those_axes(
    groups: str, head: str, device_groups: tuple[tuple[int, ...], ...]
) -> None:
    order = parse_text(summed(groups, head=head)).mesh  # Arguments follow the order of devices in the mesh.
    device_order = [0, 4, 1, 5, 2, 6, 3, 7] if head and "device_ids" in head else range(order.size)
    rows = {device: ROWS[position] for position, device in enumerate(device_order)}
    expected = {device: sum(rows[member] for member in group) for group in device_groups for device in group}
    np.testing.assert_array_equal(reference(summed(groups, head=head)), [expected[device] for device in device_order])


@pytest.mark.parametrize(
    ("groups", "code", "message"),
    [
        (by_axes(PLAIN, '#stablehlo.axis_ref<name = "z">'), "MG0202", "'z' is not in Mesh"),
        (by_axes(PLAIN, X, X), "MG0203", "more than once"),
        (by_axes("mesh = @other", X), "MG0201", "unknown mesh '@other'"),
        (by_axes("mesh = " + IN_PLACE.format(ids=", device_ids = dense<0> : tensor<8xi64>"), X), "MG0201", "device_ids"),
    ],
)  # fmt: skip
def test_invalid_mesh_axes_in_groups_are_refused(groups: str, code: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(summed(groups))
    (fault,) = caught.value.diagnostics
    assert fault.code == code and message in fault.message and fault.loc is not None and fault.loc.line == 4


def test_collective_reduce_result_is_on_first_device_of_group() -> None:
    groups = ((5, 1), (0, 2, 3), (4,), (7, 6))
    rows = ", ".join(str([*group, *[-1] * (3 - len(group))]) for group in groups)
    result = reference(summed(f"dense<[{rows}]> : tensor<4x3xi64>", op="collective_reduce"))
    expected = np.zeros_like(ROWS)
    for group in groups:
        expected[group[0]] = ROWS[list(group)].sum(0)
    np.testing.assert_array_equal(result, expected)


def test_collective_reduce_supports_mesh_axis() -> None:
    result = reference(summed(by_axes(PLAIN, Y), op="collective_reduce"))
    expected = np.zeros_like(ROWS)
    expected[[0, 4]] = ROWS.reshape(2, 4, 3).sum(1)
    np.testing.assert_array_equal(result, expected)


BROADCAST = """module attributes {mhlo.num_partitions = 8 : i32} {
  func.func @main(%a: tensor<3xf32>, %b: tensor<2xi32>) -> (tensor<3xf32>, tensor<2xi32>) {
    %0:2 = "stablehlo.collective_broadcast"(%a, %b) <{ROOTchannel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[1, 0, 2, 3], [7, 6, 5, 4]]> : tensor<2x4xi64>}> : (tensor<3xf32>, tensor<2xi32>) -> (tensor<3xf32>, tensor<2xi32>)
    return %0#0, %0#1 : tensor<3xf32>, tensor<2xi32>
  }
}"""


def test_collective_broadcast_takes_several_operands() -> None:
    numbers = np.arange(16, dtype=np.int32)
    first, second = mg.compile(BROADCAST.replace("ROOT", ""), target="cpu")(ROWS.reshape(-1), numbers)
    roots = [1] * 4 + [7] * 4
    np.testing.assert_array_equal(first.reshape(8, 3), ROWS[roots])
    np.testing.assert_array_equal(second.reshape(8, 2), numbers.reshape(8, 2)[roots])


@pytest.mark.parametrize("flag", ["has_dynamic_root, ", "has_dynamic_root = true, "])
def test_dynamic_broadcast_root_is_refused(flag: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_text(BROADCAST.replace("ROOT", flag))
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0103" and "root that is known only at run time" in fault.message
