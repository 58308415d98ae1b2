"""Programs and operations as they are written in the dialect documents, compiled, run and compared with expected
results.

The programs are in `tests/data/seeds`: `op_*` are from the documents of the `shard` dialect, `rfc_*` and `slides_*`
from those of the `mesh` dialect. Parts that the documents omit are added; nothing else is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import meshgen as mg
from meshgen.compiled.executable import Executable
from tests.acceptance import device_model as model
from tests.acceptance.device_model import Array, Device, Tensors

SEEDS = Path(__file__).resolve().parents[1] / "data" / "seeds"
Expected = Mapping[Device, "Array | None"]


def compiled(name: str, **options: Any) -> Executable:
    return mg.compile(SEEDS / f"{name}.mlir", target="cpu", **options)


def loaded(name: str, folder: Path, **options: Any) -> Callable[..., Any]:
    """Compile the program, save it as a module, and return the loaded module."""
    compiled(name, **options).save(folder / "program.mgx")
    return mg.load(folder / "program.mgx")


def on_devices(run: Callable[..., Any], grid: Sequence[int], *arguments: Tensors) -> Tensors:
    """Run a program on local tensors. `run` expects them concatenated along dim 0, in device order."""
    devices = model.devices(grid)
    stacked = run(*(np.concatenate([x[d] for d in devices]) for x in arguments))
    return dict(zip(devices, np.split(np.asarray(stacked), len(devices)), strict=True))


def assert_on_devices(results: Tensors, expected: Expected) -> None:
    for device, array in expected.items():
        if array is not None:
            assert results[device].dtype == array.dtype, device
            assert_array_equal(results[device], array, err_msg=str(device))


def rows(*numbers: int, dtype: Any = np.int8) -> Array:
    """Return `numbers` as a matrix with two columns."""
    return np.asarray(numbers, dtype).reshape(-1, 2)


QUARTERS: Tensors = {
    (0, 0): rows(1, 2, 3, 4),
    (0, 1): rows(5, 6, 7, 8),
    (1, 0): rows(9, 10, 11, 12),
    (1, 1): rows(13, 14, 15, 16),
}
UPPER, LOWER = (
    np.asarray([[1, 2, 5, 6], [3, 4, 7, 8]], np.int8),
    np.asarray([[9, 10, 13, 14], [11, 12, 15, 16]], np.int8),
)
HALVES: Tensors = {(0, 0): UPPER, (0, 1): UPPER, (1, 0): LOWER, (1, 1): LOWER}
SIXTHS: Tensors = {
    (0,): rows(11, 12, 13, 14, 15, 16),
    (1,): rows(21, 22, 23, 24, 25, 26),
    (2,): rows(31, 32, 33, 34, 35, 36),
}
SPREAD: Tensors = {
    (0,): rows(11, 12, 21, 22, 31, 32),
    (1,): rows(13, 14, 23, 24, 33, 34),
    (2,): rows(15, 16, 25, 26, 35, 36),
}


def pairs(*numbers: int) -> Array:
    return np.asarray(numbers, np.int8)


def as_type(x: Tensors, dtype: Any) -> Tensors:
    return {device: array.astype(dtype) for device, array in x.items()}


# Grid, operands and expected results of each figure in the documents. None marks an undefined result.
DRAWN: dict[str, tuple[Sequence[int], Tensors, Expected]] = {
    "op_all_gather": ((2, 2), QUARTERS, HALVES),
    "op_all_slice": ((2, 2), HALVES, QUARTERS),
    "op_all_to_all": ((3,), SIXTHS, SPREAD),
    "op_broadcast": (
        (2, 2),
        {(0, 0): pairs(1, 2), (0, 1): pairs(3, 4), (1, 0): pairs(-7, -7), (1, 1): pairs(-7, -7)},
        {(0, 0): pairs(1, 2), (0, 1): pairs(3, 4), (1, 0): pairs(1, 2), (1, 1): pairs(3, 4)},
    ),
    "op_gather": ((2, 2), QUARTERS, {(0, 0): None, (0, 1): UPPER, (1, 0): None, (1, 1): LOWER}),
    "op_reduce_scatter": (
        (2, 2),
        as_type(QUARTERS, np.float32),
        as_type({(0, 0): rows(5, 6), (0, 1): rows(7, 8), (1, 0): rows(13, 14), (1, 1): rows(15, 16)}, np.float64),
    ),
    "op_scatter": (
        (2, 2),
        {(0, 0): rows(-7, -7, -7, -7), (0, 1): rows(-7, -7, -7, -7), (1, 0): rows(1, 2, 3, 4), (1, 1): rows(5, 6, 7, 8)},
        {(0, 0): rows(1, 2), (0, 1): rows(5, 6), (1, 0): rows(3, 4), (1, 1): rows(7, 8)},
    ),
    "op_shift": (
        (2, 4),
        {(i, j): pairs(4 * i + j + 1, 0) for i in range(2) for j in range(4)},
        {(i, j): pairs(4 * i + (j + 2) % 4 + 1, 0) for i in range(2) for j in range(4)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_op_matches_the_drawing_in_its_document(name: str, tmp_path: Path) -> None:
    grid, operand, result = DRAWN[name]
    assert_on_devices(on_devices(loaded(name, tmp_path), grid, operand), result)


def random_tensors(grid: Sequence[int], *shape: int) -> Tensors:
    random = np.random.default_rng(7)
    return {device: random.standard_normal(shape).astype(np.float32) for device in model.devices(grid)}


MODELED: dict[str, tuple[Sequence[int], Sequence[int], Callable[[Tensors], Expected]]] = {
    "op_all_reduce": ((3, 4), (3, 4), lambda x: model.all_reduce(x, (3, 4), (1, 0), np.maximum, np.float64)),
    "op_reduce": (
        (4, 3),
        (3, 4),
        lambda x: model.at_root(x, (4, 3), (1, 0), (2, 3), model.all_reduce(x, (4, 3), (1, 0), np.maximum, np.float64)),
    ),
    "op_send_recv": ((2, 3), (2,), lambda x: model.send_recv(x, (2, 3), (1,), (0,), (2,))),
    "op_update_halo": ((2, 2), (5, 6), lambda x: model.update_halo(x, (2, 2), ((0,), (1,)), ((1, 1), (2, 0)))),
}


@pytest.mark.parametrize("name", MODELED)
def test_op_matches_reference_model(name: str, tmp_path: Path) -> None:
    grid, shape, expected = MODELED[name]
    operand = random_tensors(grid, *shape)
    assert_on_devices(on_devices(loaded(name, tmp_path), grid, operand), expected(operand))


def test_neighbor_indices_match_document(tmp_path: Path) -> None:
    (neighbors,) = set(map(tuple, np.asarray(loaded("op_neighbors", tmp_path)()).reshape(-1, 2).tolist()))
    assert neighbors == (633, 693)


def test_process_indices_match_device_coordinates(tmp_path: Path) -> None:
    results = on_devices(loaded("op_process_indices", tmp_path), (2, 3, 2))
    for linear_index, (device, array) in enumerate(results.items()):
        assert array.tolist() == [linear_index, *device, device[1], 3, 2, 0]


def test_axis_index_and_size_match_rfc(tmp_path: Path) -> None:
    results = on_devices(loaded("rfc_size", tmp_path), (2, 3))
    assert {device: array.tolist() for device, array in results.items()} == {
        d: [d[1], 3] for d in model.devices((2, 3))
    }


def test_shard_shapes_match_document(tmp_path: Path) -> None:
    shapes = loaded("op_shard_shape", tmp_path)(np.zeros((32, 32, 32), np.float32))
    assert set(map(tuple, np.asarray(shapes).reshape(-1, 6).tolist())) == {(24, 20, 32, 8, 12, 32)}


def test_replicated_argument_is_sliced_on_the_device(tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32)
    results = on_devices(loaded("rfc_argument_whole", tmp_path), (2,), {(0,): x, (1,): x})
    assert_array_equal(results[0,], x[:4])
    assert_array_equal(results[1,], x[4:])


def test_partitioned_rfc_program_matches_reference(tmp_path: Path) -> None:
    x, w, v = arrays((2, 4, 8), (8, 32), (32, 8))
    halves = [{(i,): np.split(array, 2, dim)[i] for i in range(2)} for array, dim in ((x, 2), (w, 1), (v, 0))]
    results = on_devices(loaded("rfc_fig2a_partitioned", tmp_path), (2,), *halves)
    assert_allclose(np.concatenate([results[0,], results[1,]], 2), mlp(x, w, v), rtol=1e-5, atol=1e-4)


def arrays(*shapes: Sequence[int]) -> list[Array]:
    random = np.random.default_rng(3)
    return [random.standard_normal(shape).astype(np.float32) for shape in shapes]


def mlp(x: Array, w: Array, v: Array) -> Array:
    return np.maximum(x @ w, 0) @ v


WHOLE: dict[str, Callable[..., Any]] = {
    "op_sharding_halo": np.exp,
    "op_sharding_offsets": np.exp,
    "op_sharding_offsets_2d": lambda x: x,
    "op_sharding_split": lambda x, y: (x, y),
    "op_shard_users": lambda a, b, c, d, e: (a, np.abs(b), c @ d.T, np.abs(e), np.tanh(e)),
    "rfc_all_gather": lambda x: x,
    "rfc_all_reduce": lambda x: x,
    "rfc_annotate": lambda x: (np.abs(x), np.tanh(np.abs(x)), np.exp(np.abs(x))),
    "rfc_argument_local": np.abs,
    "rfc_dynamic_cluster": np.abs,
    "rfc_fig2a_annotated": mlp,
    "rfc_fig2a_materialized": mlp,
    "rfc_local_split": lambda x: x,
    "rfc_partial_type": lambda x, y: (x, y),
    "rfc_reduce_scatter": lambda x: x,
    "slides_all_gather": lambda x: x,
    "slides_annotate": lambda x: (np.tanh(np.abs(x)), np.exp(np.abs(x))),
    "slides_collective_permute": lambda x: np.roll(x, 1),
    "slides_consolidation": lambda x: np.tanh(np.abs(x)),
    "slides_dot_option": np.matmul,
    "slides_hint": lambda x: np.tanh(np.abs(x)),
    "slides_local_split": lambda x: x,
    "slides_local_split_further": lambda x: x,
    "slides_named_mesh": lambda x: x,
    "slides_order": lambda x: x,
    "slides_sub_cluster": lambda x: x,
}
OPEN: dict[str, dict[str, Any]] = {"rfc_dynamic_cluster": {"args": [(8, 4)], "mesh": {"0": 2}}}


@pytest.mark.parametrize("name", WHOLE)
def test_documented_program_matches_numpy(name: str, tmp_path: Path) -> None:
    options = OPEN.get(name, {})
    executable = compiled(name, **options)
    executable.save(tmp_path / "program.mgx")
    inputs = arrays(*(input_type.sizes for input_type in executable.stages["partition"].in_types))
    results, expected = mg.load(tmp_path / "program.mgx")(*inputs), WHOLE[name](*inputs)
    if not isinstance(expected, tuple):
        results, expected = (results,), (expected,)
    for array, expected_array in zip(results, expected, strict=True):
        assert_allclose(np.asarray(array), expected_array, rtol=1e-5, atol=1e-4)


def test_every_seed_program_is_tested() -> None:
    individually_tested = {
        "op_neighbors",
        "op_process_indices",
        "op_shard_shape",
        "rfc_argument_whole",
        "rfc_fig2a_partitioned",
        "rfc_size",
    }
    assert {path.stem for path in SEEDS.glob("*.mlir")} == {*DRAWN, *MODELED, *WHOLE, *individually_tested}


UNDEFINED = {
    "annotate_on_same_result_with_different_sharding": ("%arg0 to %sharding1", "%0 to %sharding2"),
    "annotate_on_same_result_same_value_with_different_sharding": ("%arg0 to %sharding1", "%arg0 to %sharding2"),
    "result_annotated_after_operand": ("%arg0 to %sharding1 annotate_for_users", "%0 to %sharding2"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDEFINED)
def test_undefined_annotations_are_refused_with_location(name: str) -> None:
    first, second = UNDEFINED[name]
    text = f"""shard.grid @grid0(shape = 2)
func.func @{name}(%arg0 : tensor<4x8xf32>) -> tensor<4x8xf32> {{
  %sharding1 = shard.sharding @grid0 split_axes = [[0]] : !shard.sharding
  %sharding2 = shard.sharding @grid0 split_axes = [[], [0]] : !shard.sharding
  %0 = shard.shard {first} : tensor<4x8xf32>
  %1 = shard.shard {second} : tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}}"""
    with pytest.raises(mg.MeshgenError) as caught:
        mg.compile(text, target="cpu")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0205" and fault.loc is not None and fault.loc.line == 6
    assert "[{0}, {}]" in fault.message and "[{}, {0}]" in fault.message
