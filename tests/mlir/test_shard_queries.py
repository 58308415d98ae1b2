"""Tests of ops that query the shape of a grid or the indices of a device."""

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.sizes.program import at_mesh


def answers(body: str, count: int, grid: str = "10x20x30") -> list[list[int]]:
    """Return the `count` integers %r0, %r1, ... that `body` computes."""
    types = ", ".join(["index"] * count)
    names = ", ".join(f"%r{i}" for i in range(count))
    module = parse_text(
        f"shard.grid @g(shape = {grid})\nfunc.func @f(%x: tensor<1xi32>) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"
    )
    return [int(value) for value in evaluate(module.graph, [np.zeros(1, "i4")])]


def test_neighbor_indices_match_the_specification() -> None:
    """Device (1, 2, 3) of a 10x20x30 grid has the neighbors 633 and 693 along axis 1."""
    constants = "\n".join(f"%c{i} = arith.constant {i} : index" for i in (1, 2, 3))
    assert answers(
        f"{constants}\n%r0, %r1 = shard.neighbors_linear_indices on @g[%c1, %c2, %c3] split_axes = [1] : index, index",
        2,
    ) == [633, 693]


def test_missing_neighbor_is_minus_one() -> None:
    zero = "%c0 = arith.constant 0 : index"
    assert answers(
        f"{zero}\n%r0, %r1 = shard.neighbors_linear_indices on @g[%c0] split_axes = [0] : index, index", 2, "1"
    ) == [-1, -1]


def test_grid_shape_query_returns_axis_sizes() -> None:
    assert answers("%r0, %r1, %r2 = shard.grid_shape @g : index, index, index", 3) == [10, 20, 30]
    assert answers("%r0 = shard.grid_shape @g axes = [2] : index", 1) == [30]


@pytest.mark.parametrize(
    ("definition", "device", "expected"),
    [
        ("split_axes = [[0]]", "[1, 0]", [4, 9]),
        ("split_axes = [[0], [1]]", "[0, 3]", [4, 0]),
        ("split_axes = [[], [1]] sharded_dims_offsets = [0, 1, 3, 6, 9]", "[0, 2]", [8, 3]),
    ],
)
def test_shard_shape_query_returns_local_sizes(definition: str, device: str, expected: list[int]) -> None:
    """For a tensor of 8 x 9 on 2 x 4 devices, a device has ceil(9 / 4) = 3 columns, so the last device has none."""
    body = f"%s = shard.sharding @g {definition} : !shard.sharding\n%r0, %r1 = shard.shard_shape dims = [8, 9] sharding = %s device = {device} : index, index"
    assert answers(body, 2, "2x4") == expected


def test_process_index_queries_become_per_device_nodes() -> None:
    module = parse_text("""shard.grid @g(shape = 2x3)
func.func @f() -> (index, index, index) {
  %i, %j = shard.process_multi_index on @g : index, index
  %n = shard.process_linear_index on @g : index
  return %i, %j, %n : index, index, index
}""")
    axes = [node.attrs.axes for node in module.graph.nodes if node.op == "process_index"]
    assert axes == [("0",), ("1",), ("0", "1")]
    assert module.stage == "partition"


QUESTIONS = [
    ("%r:2 = shard.neighbors_linear_indices on @g[%c] split_axes = [0] : index, index", "MG0104", "the device has 1 coordinates"),
    ("%r:2 = shard.neighbors_linear_indices on @g[%c, %c] split_axes = [] : index, index", "MG0104", "split_axes must name an axis"),
    ("%r:2 = shard.neighbors_linear_indices on @g[%c, %c] split_axes = [2] : index, index", "MG0202", "axis 2 is not in Mesh(0=2, 1=3)"),
    ("%r = shard.process_multi_index on @g : index", "MG0104", "has 2 indices, but 1 results"),
    ("%r = shard.shard_shape dims = [8] sharding = %s device = [0] : index", "MG0104", "the device has 1 coordinates, but"),
    ("%r = shard.shard_shape dims = [7] sharding = %o device = [0, 0] : index", "MG0204", "end at 8, but the dim has size 7"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "code", "message"), QUESTIONS)
def test_invalid_query_is_refused(question: str, code: str, message: str) -> None:
    text = f"""shard.grid @g(shape = 2x3)
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %c = arith.constant 0 : index
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %o = shard.sharding @g split_axes = [[0]] sharded_dims_offsets = [0, 3, 8] : !shard.sharding
  {question}
  return %x : tensor<4xf32>
}}"""
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    assert any(f.code == code and message in f.message and f.loc and f.loc.line == 6 for f in caught.value.diagnostics)


@pytest.mark.parametrize("operation", [
    "shard.all_reduce %x on @g grid_axes = [0] reduction = average : tensor<4xf32> -> tensor<4xf32>",
    "shard.update_halo %x on @g split_axes = [[0]] halo_sizes = [1, 1] : tensor<4xf32>",
])  # fmt: skip
def test_unknown_axis_size_needed_by_import_is_requested(operation: str) -> None:
    text = f"shard.grid @g(shape = ?)\nfunc.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{\n  %r = {operation}\n  return %r : tensor<4xf32>\n}}"
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0201" and "the size of mesh axis '0' is unknown" in fault.message and "--mesh" in fault.hint
    assert parse_text(text, meshes=[make_mesh({"0": 2})]).stage == "partition"


OPEN = """shard.grid @g(shape = ?x3)
func.func @f(%x: tensor<1xi32>) -> (index, index, index, index, index, index, index) {
  %c = arith.constant 1 : index
  %r0, %r1 = shard.grid_shape @g : index, index
  %r2, %r3 = shard.neighbors_linear_indices on @g[%c, %c] split_axes = [0, 1] : index, index
  %s = shard.sharding @g split_axes = [[], [1, 0]] : !shard.sharding
  %r4, %r5 = shard.shard_shape dims = [9, 20] sharding = %s device = [1, 2] : index, index
  %r6 = shard.grid_shape @g axes = [0] : index
  return %r0, %r1, %r2, %r3, %r4, %r5, %r6 : index, index, index, index, index, index, index
}"""


@pytest.mark.parametrize("size", [2, 4])
def test_queries_of_unknown_size_are_resolved_at_a_mesh(size: int) -> None:
    module, mesh = parse_text(OPEN), make_mesh({"0": size, "1": 3})
    zero = [np.zeros(1, "i4")]
    static_results = evaluate(parse_text(OPEN, meshes=[mesh]).graph, zero)
    for program in (module, parse_text(print_text(module))):
        results = evaluate(at_mesh(program, mesh).graph, zero)
        assert [int(value) for value in results] == [int(value) for value in static_results]
    columns = -(-20 // (3 * size))
    local_columns = max(0, min(columns, 20 - columns * (2 * size + 1)))
    assert [int(value) for value in static_results] == [size, 3, 3, 5, 9, local_columns, size]


def test_module_for_every_grid_size_resolves_queries_per_size() -> None:
    text = OPEN.replace("(index, index, index, index, index, index, index)", "index")
    text = text.replace("return %r0, %r1, %r2, %r3, %r4, %r5, %r6 : index, index, index, index, index, index, index", "return %r0 : index")  # fmt: skip
    executable = mg.compile(text, target="cpu", sizes=[{"mesh": {"0": 2}}])
    for size in (2, 5):
        assert int(executable.at({"0": size})(np.zeros(3 * size, "i4"))) == size


def test_query_of_size_that_stays_unknown_is_refused() -> None:
    text = """shard.grid @g(shape = ?)
func.func @f(%x: tensor<4xf32>) -> index {
  %r = shard.grid_shape @g : index
  return %r : index
}"""
    with pytest.raises(ProgramError, match="queries the size of mesh axis '0', which is unknown") as caught:
        mg.lower(text, stage="fuse")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0201" and fault.loc is not None and fault.loc.line == 3
