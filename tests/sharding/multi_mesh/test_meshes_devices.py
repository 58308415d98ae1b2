"""Meshes over the same devices with different axes become one mesh; meshes over disjoint devices become separate
stages.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from meshgen.api import plan
from meshgen.errors import MeshgenError
from meshgen.ir.graph import Module
from meshgen.ir.shared_devices import axes_over, in_host_order, refs_over
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.reports.explain import explain
from meshgen.testing.lockstep import on_one_device
from tests.sharding.multi_mesh.meshes_programs import assert_correct_at_all_stages, assert_text_round_trips

SHAPES = [(8,), (2, 4), (4, 2), (2, 2, 2), (1, 8), (12,), (3, 4), (4, 3), (2, 6), (6, 2), (2, 2, 3), (2, 1, 3, 2)]


@pytest.mark.parametrize("one, other", [*itertools.product(SHAPES, SHAPES)], ids=str)
def test_mesh_axes_map_to_host_axes_if_sizes_nest(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    host, guest = make_mesh(one, "h"), make_mesh({f"g{n}": size for n, size in enumerate(other)}, "g")
    cuts = {math.prod(shape[:n]) for shape in (one, other) for n in range(len(shape) + 1)}
    chain = all(b % a == 0 for a, b in itertools.pairwise(sorted(cuts)))
    guest_axes = axes_over(host, guest)
    assert (guest_axes is not None) == (host.size == guest.size and chain)
    for rank, axis in itertools.product(range(host.size), guest.names if guest_axes else ()):
        assert host.index(rank, refs_over(host, guest, [axis])) == guest.coordinate(rank, axis)


def test_guest_axes_map_to_sub_axes_and_joined_axes() -> None:
    host, guest = make_mesh({"x": 2, "y": 12}), make_mesh({"a": 8, "b": 3})
    assert refs_over(host, guest, ["a"]) == ("x", "y:(1)4")
    assert refs_over(host, guest, ["a", "b"]) == ("x", "y")
    assert refs_over(host, guest, ["a:(2)2"]) == ("y:(1)2",)
    assert refs_over(host, guest, ["a:(1)4", "b"]) == ("x", "y:(1)2", "y:(4)3")


PROGRAM = """module @jit_f attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]>
  sdy.mesh @mesh_0 = <["a"=2, "b"=4]>
  func.func public @main(%arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %arg1: tensor<8x12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> tensor<16x12xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x12xf32>) -> tensor<16x12xf32>
    %1 = sdy.sharding_constraint %0 <@mesh_0, [{"a"}, {"b"}]> : tensor<16x12xf32>
    %2 = stablehlo.tanh %1 : tensor<16x12xf32>
    return %2 : tensor<16x12xf32>
  }
}
"""
IDS = ", device_ids=[0, 1, 2, 3, 4, 5, 6, 7]"


def with_ids(first: str, second: str) -> str:
    """Return the program without the partition count and with device ids for both meshes."""
    text = PROGRAM.replace("mhlo.num_partitions = 8 : i32, ", "")
    return text.replace('<["x"=8]>', f'<["x"=8]{first}>').replace('"b"=4]>', f'"b"=4]{second}>')


@pytest.mark.parametrize("text", [PROGRAM, with_ids(IDS, IDS)], ids=["partitions", "device_ids"])
def test_meshes_with_same_devices_are_merged(text: str) -> None:
    module = parse_text(text)
    assert not module.meshes and module.mesh.sizes == (2, 4)
    assert module.in_annotations[0] and module.in_annotations[0].sharding.dims == (("a", "b"), ())
    stages = assert_correct_at_all_stages(module)
    assert not stages["fuse"].parts
    assert "all_to_all" in [node.op for node in stages["optimize"].graph.nodes]
    assert_text_round_trips(module)


def stages(text: str) -> Module:
    module = parse_text(text)
    assert [mesh.size for mesh in module.meshes] == [8, 8]
    return module


def test_meshes_with_disjoint_devices_become_stages() -> None:
    other_ids = IDS.replace("[0, 1, 2, 3, 4, 5, 6, 7]", "[8, 9, 10, 11, 12, 13, 14, 15]")
    assert_correct_at_all_stages(stages(with_ids(IDS, other_ids)))


def test_equally_large_sdy_meshes_share_devices_by_default() -> None:
    assert not parse_text(with_ids("", "")).meshes
    other_ids = parse_text(with_ids("", "").replace('"b"=4', '"b"=2'))
    assert [mesh.size for mesh in other_ids.meshes] == [8, 4]


def test_meshes_with_partly_shared_devices_are_rejected() -> None:
    second = IDS.replace("0, 1", "8, 1")
    with pytest.raises(MeshgenError, match="@mesh_0 and @mesh share only some of their devices") as error:
        parse_text(with_ids(IDS, second))
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0209" and fault.loc and fault.loc.line == 6
    # Without uses of the other mesh, its devices do not matter.
    parse_text(with_ids(IDS, second).replace("@mesh_0, [{", "@mesh, [{").replace('{"a"}, {"b"}', '{"x"}, {}'))


def test_mesh_with_non_nesting_axes_is_reordered() -> None:
    text = (
        PROGRAM.replace("= 8 : i32", "= 6 : i32")
        .replace('["x"=8]', '["x"=2, "y"=3]')
        .replace('"a"=2, "b"=4', '"a"=3, "b"=2')
    )
    module = parse_text(text.replace("16x", "18x"))
    assert module.mesh.sizes == (2, 3) and module.reordered == {"mesh_0": (0, 1, 2, 3, 4, 5)}
    assert module.graph.nodes[1].attrs.sharding.dims == (("y",), ("x",))
    assert_correct_at_all_stages(module)


MANUAL = """    %1 = sdy.manual_computation(%0) in_shardings=[<@MESH, [{"AXIS"}, {}]>] out_shardings=[<@MESH, [{"AXIS"}, {}]>] manual_axes={"AXIS"} (%t: tensor<ROWSx12xf32>) {
      %g = "stablehlo.all_reduce"(%t) <{replica_groups = dense<GROUPS> : tensor<COUNTxi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> ({
        ^bb0(%p: tensor<f32>, %q: tensor<f32>):
          %z = stablehlo.add %p, %q : tensor<f32>
          stablehlo.return %z : tensor<f32>
      }) : (tensor<ROWSx12xf32>) -> tensor<ROWSx12xf32>
      sdy.return %g : tensor<ROWSx12xf32>
    } : (tensor<16x12xf32>) -> tensor<16x12xf32>
"""


def manual(mesh: str, axis: str, rows: int, groups: str, count: str) -> str:
    body = MANUAL.replace("MESH", mesh).replace("AXIS", axis).replace("ROWS", str(rows))
    line = next(line for line in PROGRAM.splitlines(keepends=True) if "sharding_constraint" in line)
    return PROGRAM.replace(line, body.replace("GROUPS", groups).replace("COUNT", count))


def test_manual_computation_on_either_merged_mesh() -> None:
    assert_correct_at_all_stages(parse_text(manual("mesh", "x", 2, "[[0, 1, 2, 3, 4, 5, 6, 7]]", "1x8")))
    assert_correct_at_all_stages(parse_text(manual("mesh_0", "a", 8, "[[0, 4], [1, 5], [2, 6], [3, 7]]", "4x2")))


def manual_over_sub_axes() -> str:
    """Return a program with a manual computation over an axis of size 4. The axes of its other mesh have sizes 2 and 4."""
    text = manual("mesh_0", "a", 4, "[[0, 2], [1, 3], [4, 6], [5, 7]]", "4x2").replace('"a"=2, "b"=4', '"a"=4, "b"=2')
    return text.replace('["x"=8]', '["x"=2, "y"=4]').replace('<@mesh, [{"x"}, {}]>', '<@mesh, [{"y"}, {}]>')


def test_manual_axes_split_axes_of_merged_mesh() -> None:
    """Check that the axes of the merged mesh are split until each manual axis consists of entire axes."""
    text = (
        manual_over_sub_axes()
        .replace("[[0, 2], [1, 3], [4, 6], [5, 7]]", "[[0, 2, 4, 6], [1, 3, 5, 7]]")
        .replace("4x2xi64", "2x4xi64")
    )
    module = parse_text(text)
    assert module.mesh.names == ("x", "y.0", "y.1") and module.mesh.sizes == (2, 2, 2)
    assert module.in_annotations[0] and module.in_annotations[0].sharding.dims == (("y.0", "y.1"), ())
    assert_correct_at_all_stages(module)
    assert_text_round_trips(module)


def test_overlapping_manual_sub_axes_are_rejected() -> None:
    text = manual_over_sub_axes().replace('["a"=4, "b"=2', '["a"=3, "b"=2').replace('["x"=2, "y"=4]', '["x"=2, "y"=3]')
    with pytest.raises(MeshgenError):
        parse_text(text.replace("num_partitions = 8", "num_partitions = 6"))


@pytest.mark.parametrize(
    "one, other", [*itertools.product([(8,), (2, 4), (4, 2), (2, 2, 2), (2, 3, 2)], repeat=2)], ids=str
)
def test_mesh_axes_map_to_transposed_device_order(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    """For every transposed device order, each device keeps its coordinates."""
    host, guest = make_mesh(one, "h"), make_mesh({f"g{n}": size for n, size in enumerate(other)}, "g")
    if host.size != guest.size:
        return
    for permutation in itertools.permutations(range(len(one))):
        device_order = np.arange(host.size).reshape(one).transpose(permutation).ravel().tolist()
        guest_axes = axes_over(host, guest, device_order)
        shape = [one[axis] for axis in permutation]
        cuts = [{math.prod(sizes[:n]) for n in range(len(sizes) + 1)} for sizes in (shape, other)]
        assert guest_axes is not None or sorted(cuts[0] | cuts[1]) != sorted(cuts[0]), (permutation, device_order)
        for rank, axis in itertools.product(range(guest.size), guest.names if guest_axes else ()):
            refs = refs_over(host, guest, [axis], device_order)
            assert host.index(device_order[rank], refs) == guest.coordinate(rank, axis)


def test_irregular_device_order_has_no_axes() -> None:
    host, guest = make_mesh((4,), "h"), make_mesh((2, 2), "g")
    assert axes_over(host, guest, [0, 1, 3, 2]) is None
    assert axes_over(host, guest, [1, 0, 3, 2]) is None
    assert axes_over(host, guest, [3, 2, 1, 0]) is None


TRANSPOSED = """module {
  sdy.mesh @rows = <["x"=2, "y"=2]>
  sdy.mesh @columns = <["a"=2, "b"=2], device_ids=[0, 2, 1, 3]>
  func.func @main(%arg0: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@rows, [{"x"}, {"y"}]>}) -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@columns, [{"A"}, {"B"}]>}) {
    %0 = stablehlo.tanh %arg0 : tensor<4x6xf32>
    return %0 : tensor<4x6xf32>
  }
}"""


@pytest.mark.parametrize("axes, counts", [(("b", "a"), {}), (("a", "b"), {"permute": 1})], ids=["same", "other"])
def test_tiles_are_permuted_for_other_device_order(axes: tuple[str, str], counts: dict[str, int]) -> None:
    """Check a mesh whose devices are in the order 0, 2, 1, 3.

    Its sharding [a, b] places tiles as [y, x] does on a mesh with devices in ascending order.
    """
    module = parse_text(TRANSPOSED.replace("A", axes[0]).replace("B", axes[1]))
    stages = assert_correct_at_all_stages(module)
    moves = [
        node.op
        for node in stages["partition"].graph.nodes
        if node.op in ("permute", "retile", "all_gather", "all_to_all")
    ]
    assert {op: moves.count(op) for op in moves} == counts
    assert_text_round_trips(module)


ORDERED = """sdy.mesh @mesh = <["x"=2, "y"=2], device_ids=[0, 2, 1, 3]>
func.func @main(%a: tensor<4x6xf32>) -> (tensor<2x3xf32>, tensor<4x6xf32>, tensor<4xi32>) {
  %0:3 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>]
    out_shardings=[<@mesh, [{}, {"y"}]>, <@mesh, [{"x"}, {"y"}]>, <@mesh, [{"x", "y"}]>] manual_axes={"x", "y"} (%t: tensor<2x3xf32>) {
    %s = "stablehlo.all_reduce"(%t) <{replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}> ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %r = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %r : tensor<f32>
    }) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %m = "stablehlo.collective_permute"(%t) <{source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %n = stablehlo.partition_id : tensor<ui32>
    %i = stablehlo.convert %n : (tensor<ui32>) -> tensor<i32>
    %j = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    sdy.return %s, %m, %j : tensor<2x3xf32>, tensor<2x3xf32>, tensor<1xi32>
  } : (tensor<4x6xf32>) -> (tensor<2x6xf32>, tensor<4x6xf32>, tensor<4xi32>)
  %1 = stablehlo.slice %0#0 [0:2, 0:3] : (tensor<2x6xf32>) -> tensor<2x3xf32>
  return %1, %0#1, %0#2 : tensor<2x3xf32>, tensor<4x6xf32>, tensor<4xi32>
}"""


def test_collectives_use_device_ids_of_mesh() -> None:
    """Check a mesh with devices 0, 2, 1, 3: devices 0 and 1 differ along x, and devices 0 and 2 along y."""
    module = parse_text(ORDERED)
    a = np.arange(24, dtype="f4").reshape(4, 6)
    summed, moved, numbers = evaluate(on_one_device(module.graph, module.mesh), [a])
    np.testing.assert_array_equal(summed, (a[:2] + a[2:])[:, :3])
    np.testing.assert_array_equal(moved, np.roll(a, 3, axis=1))
    np.testing.assert_array_equal(numbers, [0, 2, 1, 3])
    assert_correct_at_all_stages(module)


REVERSED = ORDERED.replace("[0, 2, 1, 3]>", "[3, 1, 2, 0]>").replace("[[0, 1], [2, 3]]", "[[3, 2], [1, 0]]")


def test_single_mesh_accepts_any_device_order() -> None:
    """Check that devices 3, 1, 2, 0 become ranks 0 to 3, and that an unused second mesh changes nothing."""
    other = 'sdy.mesh @other = <["x"=2, "y"=2], device_ids=[0, 1, 2, 3]>\n'
    module = parse_text(other + REVERSED.replace("[0, 2], [2, 0], [1, 3], [3, 1]", "[3, 1], [1, 3], [2, 0], [0, 2]"))
    a = np.arange(24, dtype="f4").reshape(4, 6)
    summed, moved, numbers = evaluate(on_one_device(module.graph, module.mesh), [a])
    np.testing.assert_array_equal(summed, (a[:2] + a[2:])[:, :3])
    np.testing.assert_array_equal(moved, np.roll(a, 3, axis=1))
    np.testing.assert_array_equal(numbers, [3, 1, 2, 0])
    assert_correct_at_all_stages(module)


def test_irregular_device_order_is_dropped_and_reported() -> None:
    module = parse_text(TRANSPOSED.replace("[0, 2, 1, 3]", "[3, 2, 1, 0]").replace("A", "a").replace("B", "b"))
    assert module.out_annotations[0] and module.out_annotations[0].sharding.dims == (("x",), ("y",))
    assert_correct_at_all_stages(module)
    assert_text_round_trips(module)
    report = explain(plan(module, target="cpu"), verbose=True)
    assert "Meshes whose order of devices is not kept\n@columns, devices [3, 2, 1, 0]" in report


CALLED = """  func.func private @numbers(%t: tensor<2x3xf32>) -> tensor<1xi32> {
    %n = stablehlo.partition_id : tensor<ui32>
    %i = stablehlo.convert %n : (tensor<ui32>) -> tensor<i32>
    %j = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>
    return %j : tensor<1xi32>
  }
"""


def with_plain_mesh(text: str) -> str:
    """Return the program with its argument on an additional mesh whose devices are in order."""
    plain = '(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@plain, [{"x"}, {"y"}]>})'
    return 'sdy.mesh @plain = <["x"=2, "y"=2]>\n' + text.replace("(%a: tensor<4x6xf32>)", plain)


def test_manual_computation_uses_device_ids_of_inline_mesh() -> None:
    module = parse_text(with_plain_mesh(REVERSED.replace("<@mesh,", '<mesh<["x"=2, "y"=2], device_ids=[3, 1, 2, 0]>,')))
    numbers = evaluate(on_one_device(module.graph, module.mesh), [np.zeros((4, 6), "f4")])[2]
    np.testing.assert_array_equal(numbers, [3, 1, 2, 0])


def test_manual_computation_on_two_device_orders_is_rejected() -> None:
    text = with_plain_mesh(REVERSED.replace("in_shardings=[<@mesh,", "in_shardings=[<@plain,"))
    with pytest.raises(MeshgenError, match="is on one mesh, but names @plain and @mesh") as error:
        parse_text(text)
    assert error.value.diagnostics[0].code == "MG0209" and error.value.diagnostics[0].loc


@pytest.mark.parametrize("calls", [False, True], ids=["inline", "called"])
def test_manual_computations_use_device_ids_of_own_mesh(calls: bool) -> None:
    """Check manual computations on two meshes.

    Device 3 is the first device of @mesh but the last of @plain. The axis u of @plain spans both axes of @mesh.
    """
    text = REVERSED.replace("[0, 2], [2, 0], [1, 3], [3, 1]", "[3, 1], [1, 3], [2, 0], [0, 2]")
    other = """  %2 = sdy.manual_computation(%a) in_shardings=[<@plain, [{"u"}, {"v"}]>] out_shardings=[<@plain, [{"u", "v"}]>] manual_axes={"u", "v"} (%t: tensor<2x3xf32>) {
    %j = func.call @numbers(%t) : (tensor<2x3xf32>) -> tensor<1xi32>
    sdy.return %j : tensor<1xi32>
  } : (tensor<4x6xf32>) -> tensor<4xi32>
  return %1, %0#1, %0#2, %2 :"""
    text = text.replace("  return %1, %0#1, %0#2 :", other).replace(
        "tensor<4xi32>\n}", "tensor<4xi32>, tensor<4xi32>\n}"
    )
    text = text.replace("tensor<4xi32>) {", "tensor<4xi32>, tensor<4xi32>) {")
    if calls:
        start, end = text.index("    %n = "), text.index("    sdy.return %s")
        text = text[:start] + "    %j = func.call @numbers(%t) : (tensor<2x3xf32>) -> tensor<1xi32>\n" + text[end:]
    module = parse_text('sdy.mesh @plain = <["u"=2, "v"=2]>\n' + text + "\n" + CALLED)
    a = np.arange(24, dtype="f4").reshape(4, 6)
    summed, moved, reordered_ids, plain_ids = evaluate(on_one_device(module.graph, module.mesh), [a])
    np.testing.assert_array_equal(summed, (a[:2] + a[2:])[:, :3])
    np.testing.assert_array_equal(moved, np.roll(a, 3, axis=1))
    np.testing.assert_array_equal(reordered_ids, [3, 1, 2, 0])
    np.testing.assert_array_equal(plain_ids, [0, 1, 2, 3])
    assert_correct_at_all_stages(module)


@pytest.mark.parametrize(
    "one, other", [((2, 3), (3, 2)), ((12,), (3, 2, 2)), ((4, 9), (6, 6)), ((1, 8), (2, 1, 4))], ids=str
)
def test_reordered_mesh_of_equal_size_maps_to_host_axes(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    host, guest = make_mesh(one, "h"), make_mesh({f"g{n}": size for n, size in enumerate(other)}, "g")
    device_order = in_host_order(host, guest)
    assert sorted(device_order) == list(range(host.size))
    for rank, axis in itertools.product(range(guest.size), guest.names):
        assert host.index(device_order[rank], refs_over(host, guest, [axis], device_order)) == guest.coordinate(
            rank, axis
        )


@pytest.mark.parametrize("devices", ["[0, 1]", "[0, 1, 1, 2]"])
def test_mesh_with_missing_or_duplicate_devices_is_rejected(devices: str) -> None:
    with pytest.raises(MeshgenError, match="has 4 devices, but device_ids"):
        parse_text(ORDERED.replace("[0, 2, 1, 3]>", devices + ">"))
