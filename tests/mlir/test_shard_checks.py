"""Tests of invalid meshes, shardings and collectives: each error has its code, its location and the numbers involved."""

import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text

FAULTS = [
    # invalid grids
    ("", "0", "%x", "MG0201", "has size 0"),
    ("", "9999999x9999999", "%x", "MG0201", "99,999,980,000,001 devices"),
    ('{axis_names = ["a"]}', "2x3", "%x", "MG0201", "2 axes, but 1 names"),
    ('{axis_names = ["a", "a"]}', "2x3", "%x", "MG0201", "declared twice"),
]
SHARDINGS = [
    ("@h split_axes = [[0]]", "MG0201", "unknown grid '@h'"),
    ("@g split_axes = [[2]]", "MG0202", "mesh axis '2' is not in Mesh(0=2, 1=3)"),
    ("@g split_axes = [[0], [0]]", "MG0203", "mesh axis '0' is used more than once"),
    ("@g split_axes = [[0]] partial = sum[0]", "MG0203", "mesh axis '0' is used more than once"),
    ("@g split_axes = [[0], [], [1]]", "MG0204", "3 lists of axes, but f32[4,6] has rank 2"),
    ("@g split_axes = [[0]] halo_sizes = [1]", "MG0204", "1 split dims need 2 halo sizes (before, after), but there are 1"),
    ("@g split_axes = [[0]] halo_sizes = [1, 1, 1, 1]", "MG0204", "1 split dims need 2 halo sizes"),
    ("@g split_axes = [[0]] halo_sizes = [1, 1] sharded_dims_offsets = [0, 2, 4]", "MG0204", "exclude each other"),
    ("@g split_axes = [[0]] sharded_dims_offsets = [0, 4]", "MG0204", "need 3 offsets (one more than shards), but there are 2"),
    ("@g split_axes = [[0]] sharded_dims_offsets = [0, 3, 2]", "MG0204", "[0, 3, 2] of dim 0 must ascend from 0"),
    ("@g split_axes = [[0]] sharded_dims_offsets = [0, 1, 3]", "MG0204", "end at 3, but the dim has size 4"),
    ("@g split_axes = [[0]] halo_sizes = [1, %n]", "MG0103", "halo size is not known"),
]  # fmt: skip
COLLECTIVES = [
    ("shard.all_gather %x on @h grid_axes = [1] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x18xf32>", "MG0201", "unknown grid '@h'"),
    ("shard.all_gather %x on @g grid_axes = [2] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x18xf32>", "MG0202", "axis '2'"),
    ("shard.all_gather %x on @g grid_axes = [1, 1] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x54xf32>", "MG0203", "more than once"),
    ("shard.all_gather %x on @g grid_axes = [1] gather_axis = 2 : tensor<4x6xf32> -> tensor<4x18xf32>", "MG0104", "dim 2 (dim) is outside a tensor of rank 2"),
    ("shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x16xf32>", "MG0104", "6 * 3 = 18, but is 16"),
    ("shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : tensor<4x6xf32> -> tensor<5x18xf32>", "MG0104", "dim 0 of the result should be 4, but is 5"),
    ("shard.all_gather %x on @g grid_axes = [1] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x18xf64>", "MG0104", "f32 becomes f64"),
    ("shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : tensor<4x6xf32> -> tensor<3x6xf32>", "MG0104", "4 / 2 = 2, but is 3"),
    ("shard.all_to_all %x on @g grid_axes = [0] split_axis = 0 concat_axis = 1 : tensor<4x6xf32> -> tensor<2x6xf32>", "MG0104", "6 * 2 = 12, but is 6"),
    ("shard.reduce_scatter %x on @g grid_axes = [0] reduction = generic scatter_axis = 0 : tensor<4x6xf32> -> tensor<2x6xf32>", "MG0103", "'generic'"),
    ("shard.broadcast %x on @g grid_axes = [0] root = [2] : (tensor<4x6xf32>) -> tensor<4x6xf32>", "MG0104", "coordinate 2 is outside axis '0' of size 2"),
    ("shard.broadcast %x on @g grid_axes = [0] root = [0, 1] : (tensor<4x6xf32>) -> tensor<4x6xf32>", "MG0104", "2 coordinates, but the groups have 1 axes"),
    ("shard.send %x on @g grid_axes = [1] destination = [3] : (tensor<4x6xf32>) -> tensor<4x6xf32>", "MG0104", "coordinate 3 is outside axis '1' of size 3"),
    ("shard.shift %x on @g grid_axes = [0] shift_axis = 1 offset = 1 : tensor<4x6xf32> -> tensor<4x6xf32>", "MG0104", "shift axis '1' is not among"),
    ("shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, 1, 1] : tensor<4x6xf32>", "MG0204", "need 2 halo sizes, but there are 3"),
]  # fmt: skip
S = "tensor<4x6xf32, #meshgen.split<@g, [[0], []]>>"
R = "tensor<4x6xf32, #meshgen.split<@g, [[], []]>>"
P = "tensor<4x6xf32, #meshgen.split<@g, [[], []] partial = sum[0]>>"
ENCODED = [
    (f"shard.all_gather %x on @g grid_axes = [0] gather_axis = 1 : {S} -> {R}", S, "does not make [{0}, {}] into [{}, {}]"),
    (f"shard.all_gather %x on @g grid_axes = [1] gather_axis = 0 : {S} -> {R}", S, "does not make [{0}, {}] into [{}, {}]"),
    (f"shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : {R} -> {R}", R, "does not make"),
    (f"shard.all_reduce %x on @g grid_axes = [0] reduction = max : {P} -> {R}", P, "kind max"),
    (f"shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : {S} -> tensor<8x6xf32, #meshgen.split<@g, [[], []]>>", S, "global shapes differ"),
]  # fmt: skip
SOUND = [
    (f"shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : {S} -> {R}", S),
    (f"shard.all_slice %x on @g grid_axes = [0] slice_axis = 0 : {R} -> {S}", R),
    (f"shard.all_reduce %x on @g grid_axes = [0] : {P} -> {R}", P),
    (f"shard.reduce_scatter %x on @g grid_axes = [0] scatter_axis = 0 : {P} -> {S}", P),
    (f"meshgen.to_partial %x on @g grid_axes = [0] : {R} -> {P}", R),
    (f"shard.all_to_all %x on @g grid_axes = [0] split_axis = 1 concat_axis = 0 : {S} -> tensor<4x6xf32, #meshgen.split<@g, [[], [0]]>>", S),
]  # fmt: skip


def faults_of(text: str) -> list[tuple[str, str]]:
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    return [(fault.code, fault.message) for fault in caught.value.diagnostics]


def assert_fault(text: str, code: str, message: str) -> None:
    faults = faults_of(text)
    assert any(c == code and message in m for c, m in faults), faults


def sharded(definition: str, *more: str) -> str:
    lines = "\n  ".join(more)
    return f"""shard.grid @g(shape = 2x3)
func.func @f(%x: tensor<4x6xf32>, %n: i64) -> tensor<4x6xf32> {{
  %s = shard.sharding {definition} : !shard.sharding
  %y = shard.shard %x to %s : tensor<4x6xf32>
  {lines}
  return %y : tensor<4x6xf32>
}}"""


def collective(operation: str, source: str = "tensor<4x6xf32>") -> str:
    result = operation.rpartition("-> ")[2] if "->" in operation else source
    return f"""shard.grid @g(shape = 2x3)
func.func @f(%x: {source}) -> {result} {{
  %y = {operation}
  return %y : {result}
}}"""


@pytest.mark.parametrize(("attributes", "shape", "value", "code", "message"), FAULTS)
def test_invalid_grid_is_refused(attributes: str, shape: str, value: str, code: str, message: str) -> None:
    text = f"shard.grid @g(shape = {shape}) {attributes}\nfunc.func @f(%x: tensor<f32>) -> tensor<f32> {{ return {value} : tensor<f32> }}"
    assert_fault(text, code, message)


@pytest.mark.parametrize(("definition", "code", "message"), SHARDINGS)
def test_invalid_sharding_is_refused(definition: str, code: str, message: str) -> None:
    assert_fault(sharded(definition), code, message)


@pytest.mark.parametrize(("operation", "code", "message"), COLLECTIVES)
def test_invalid_collective_is_refused(operation: str, code: str, message: str) -> None:
    assert_fault(collective(operation), code, message)


@pytest.mark.parametrize(("operation", "source", "message"), ENCODED)
def test_collective_between_unrelated_encodings_is_refused(operation: str, source: str, message: str) -> None:
    assert any(message in fault_message for _, fault_message in faults_of(collective(operation, source)))


@pytest.mark.parametrize(("operation", "source"), SOUND)
def test_collective_between_related_encodings_is_imported(operation: str, source: str) -> None:
    assert parse_text(collective(operation, source)).stage == "materialize"


def test_all_sub_axes_of_an_axis_equal_the_axis() -> None:
    source = 'tensor<4x8xf32, #meshgen.split<@g, [["x:(1)2", "x:(2)2"], []]>>'
    text = collective(
        f"shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : {source} -> tensor<4x8xf32, #meshgen.split<@g, [[], []]>>",
        source,
    )
    text = text.replace("shape = 2x3)", 'shape = 4) {axis_names = ["x"]}')
    assert parse_text(text).graph.nodes[0].attrs.axes == ("x",)


def test_conflicting_annotations_of_one_value_are_refused() -> None:
    more = (
        "%t = shard.sharding @g split_axes = [[], [0]] : !shard.sharding",
        "%z = shard.shard %x to %t : tensor<4x6xf32>",
    )
    assert_fault(sharded("@g split_axes = [[0]]", *more), "MG0205", "annotated for its producer")


def test_all_faults_are_reported_at_once_with_their_lines() -> None:
    text = sharded("@g split_axes = [[5]]", "%t = shard.sharding @g split_axes = [[0], [0]] : !shard.sharding")
    with pytest.raises(ProgramError) as caught:
        parse_text(text, "file.mlir")
    assert [(fault.code, str(fault.loc)) for fault in caught.value.diagnostics] == [
        ("MG0202", "file.mlir:3"),
        ("MG0203", "file.mlir:5"),
    ]


def test_mix_of_annotations_and_collectives_is_refused() -> None:
    gather = "%z = shard.all_gather %y on @g grid_axes = [1] gather_axis = 1 : tensor<4x6xf32> -> tensor<4x18xf32>"
    assert_fault(sharded("@g split_axes = [[0]]", gather), "MG0104", "both annotations and explicit collectives")


def test_partial_axes_are_compared_in_any_order() -> None:
    text = 'shard.grid @g(shape = 3x2) {axis_names = ["x", "t"]}\nfunc.func @f(%x: tensor<4xf32, #meshgen.split<@g, [[]] partial = max["x"]>>) -> '
    kind = 'tensor<4xf32, #meshgen.split<@g, [[]] partial = max["x"] product["t"]>>'
    text += f'{kind} {{\n  %r = meshgen.to_partial %x on @g grid_axes = [1] reduction = product : tensor<4xf32, #meshgen.split<@g, [[]] partial = max["x"]>> -> {kind}\n'
    assert parse_text(f"{text}  return %r : {kind}\n}}\n").stage == "materialize"


@pytest.mark.parametrize(
    ("op", "results"), [("grid_shape @g axes = [1, 1]", 2), ("process_multi_index on @g axes = [0, 0]", 2)]
)
def test_query_that_lists_an_axis_twice_is_refused(op: str, results: int) -> None:
    names = ", ".join(f"%q{n}" for n in range(results))
    query = f"{names} = shard.{op} : {', '.join(['index'] * results)}"
    text = f"shard.grid @g(shape = 2x3)\nfunc.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{\n  {query}\n  return %x : tensor<4x6xf32>\n}}\n"
    assert_fault(text, "MG0203", "listed more than once")


@pytest.mark.parametrize(
    ("op", "source", "result"),
    [
        ("all_slice %x on @g grid_axes = [1] slice_axis = 0", "4", "?"),
        ("all_gather %x on @g grid_axes = [1] gather_axis = 0", "?", "4"),
    ],
)
def test_known_size_must_divide_evenly_beside_an_unknown_one(op: str, source: str, result: str) -> None:
    kinds = f"tensor<{source}x6xf32>", f"tensor<{result}x6xf32>"
    text = f"shard.grid @g(shape = 2x3)\nfunc.func @f(%x: {kinds[0]}) -> {kinds[1]} {{\n  %r = shard.{op} : {kinds[0]} -> {kinds[1]}\n  return %r : {kinds[1]}\n}}\n"
    assert_fault(text, "MG0104", "3 equal parts")
