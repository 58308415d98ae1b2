"""Tests of per-device StableHLO programs without a mesh: device counts, arbitrary groups, and reduction regions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from meshgen.api import compile as compile_program
from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text, print_text
from tests.mlir.payload import Array, normal

CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
GLOBAL = f"{CHANNEL}, use_global_device_ids"


def region(body: str = "%s = stablehlo.add %a, %b : tensor<f32>") -> str:
    return f"({{\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    {body}\n    stablehlo.return %s : tensor<f32>\n  }})"


def dense(rows: Sequence[Sequence[int]]) -> str:
    return f"dense<{[list(row) for row in rows]}> : tensor<{len(rows)}x{len(rows[0])}xi64>"


def program(op: str, result: str = "2x3", counts: str = "partitions = 4", after: str = "") -> str:
    attributes = ", ".join(f"mhlo.num_{count} : i32" for count in counts.split(", ") if count)
    return (
        f"module attributes {{{attributes}}} {{\nfunc.func @main(%x: tensor<2x3xf32>) -> tensor<{result}xf32> {{\n"
        f"  %r = {op} : (tensor<2x3xf32>) -> tensor<{result}xf32>{after}\n  return %r : tensor<{result}xf32>\n}}\n}}"
    )


def reduced(rows: Sequence[Sequence[int]], group_mode: str = GLOBAL, body: str = region()) -> str:
    return f'"stablehlo.all_reduce"(%x) <{{replica_groups = {dense(rows)}, {group_mode}}}> {body}'


def run_devices(text: str, count: int = 4) -> tuple[Array, Array]:
    """Return the operand and the result of each device."""
    x = normal(count, 2, 3)
    outputs = compile_program(text, target="cpu")(x.reshape(-1, 3))
    array = np.asarray(outputs[0] if isinstance(outputs, (list, tuple)) else outputs)
    return x, array.reshape(count, -1, *array.shape[1:])


def sums(x: Array, groups: Sequence[Sequence[int]]) -> Array:
    results = np.zeros_like(x)
    for group in groups:
        results[list(group)] = x[list(group)].sum(0)
    return results


@pytest.mark.parametrize("rows", [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [2, 1]], [[3, 1, 0, 2]]], ids=str)
def test_all_reduce_supports_arbitrary_groups(rows: list[list[int]]) -> None:
    x, results = run_devices(program(reduced(rows)))
    np.testing.assert_allclose(results, sums(x, rows), rtol=1e-5)


@pytest.mark.parametrize("rows", [[[0, 3], [2, 1]], [[1, 0], [3, 2]], [[3, 1, 0, 2]]], ids=str)
def test_gather_and_scatter_follow_group_order(rows: list[list[int]]) -> None:
    size = len(rows[0])
    gather = f'"stablehlo.all_gather"(%x) <{{all_gather_dim = 1 : i64, replica_groups = {dense(rows)}, {GLOBAL}}}>'
    x, results = run_devices(program(gather, f"2x{3 * size}"))
    for group in rows:
        for device in group:
            np.testing.assert_array_equal(results[device], np.concatenate([x[member] for member in group], 1))
    if size == 2:
        scatter = f'"stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, replica_groups = {dense(rows)}, {GLOBAL}}}> {region()}'
        x, results = run_devices(program(scatter, "1x3"))
        for group in rows:
            for position, device in enumerate(group):
                np.testing.assert_allclose(results[device], x[group].sum(0)[position : position + 1], rtol=1e-5)


@pytest.mark.parametrize("rows", [[[2, 1]], [[0, 1], [3, 2]], [[1, 3, 0]]], ids=str)
def test_broadcast_gives_zeros_outside_its_groups(rows: list[list[int]]) -> None:
    x, results = run_devices(
        program(f'"stablehlo.collective_broadcast"(%x) <{{replica_groups = {dense(rows)}, {CHANNEL}}}>')
    )
    expected = np.zeros_like(x)
    for group in rows:
        expected[group] = x[group[0]]
    np.testing.assert_array_equal(results, expected)


OTHER = "%p = stablehlo.multiply %a, %b : tensor<f32>\n    %t = stablehlo.add %a, %b : tensor<f32>\n    %s = stablehlo.add %t, %p : tensor<f32>"


@pytest.mark.parametrize("rows", [[[0, 1], [2, 3]], [[0, 3], [2, 1]], [[0, 1, 2, 3]]], ids=str)
def test_all_reduce_folds_with_multi_op_region(rows: list[list[int]]) -> None:
    """The region computes (1 + a) (1 + b) - 1, which does not depend on the order of the group."""
    x, results = run_devices(program(reduced(rows, body=region(OTHER))))
    for group in rows:
        for device in group:
            np.testing.assert_allclose(results[device], np.prod(1 + x[group], axis=0) - 1, rtol=1e-4, atol=1e-5)


def test_reduce_scatter_folds_with_multi_op_region() -> None:
    op = f'"stablehlo.reduce_scatter"(%x) <{{scatter_dimension = 0 : i64, replica_groups = {dense([[0, 2], [1, 3]])}, {GLOBAL}}}> {region(OTHER)}'
    x, results = run_devices(program(op, "1x3"))
    for group in ([0, 2], [1, 3]):
        for position, device in enumerate(group):
            np.testing.assert_allclose(
                results[device], (np.prod(1 + x[group], axis=0) - 1)[position : position + 1], rtol=1e-4, atol=1e-5
            )


# With two replicas of two partitions, device 2 r + p is partition p of replica r.
BOTH = "replicas = 2, partitions = 2"
NUMBERED = [
    (reduced([[0, 1]], "channel_handle = #stablehlo.channel_handle<handle = 0, type = 0>"), [[0, 2], [1, 3]]),
    (reduced([[0], [1]], CHANNEL), [[0, 1], [2, 3]]),
    (reduced([[0, 1]], CHANNEL), [[0, 1, 2, 3]]),
    (reduced([[0, 3], [1, 2]]), [[0, 3], [1, 2]]),
]


@pytest.mark.parametrize(("op", "groups"), NUMBERED, ids=["replicas", "both", "all", "devices"])
def test_replica_and_partition_groups_follow_stablehlo(op: str, groups: list[list[int]]) -> None:
    x, results = run_devices(program(op, counts=BOTH))
    np.testing.assert_allclose(results, sums(x, groups), rtol=1e-5)


def test_joint_replica_group_is_ordered_by_partition_first() -> None:
    op = f'"stablehlo.all_gather"(%x) <{{all_gather_dim = 0 : i64, replica_groups = {dense([[1, 0]])}, {CHANNEL}}}>'
    x, results = run_devices(program(op, "8x3", counts=BOTH))
    for device in range(4):
        np.testing.assert_array_equal(results[device], np.concatenate(x[[2, 0, 3, 1]]))


def test_permute_pairs_name_replicas_or_partitions() -> None:
    for channel, source in (("", [2, 3, 0, 1]), (f", {CHANNEL}", [1, 0, 3, 2])):
        op = f'"stablehlo.collective_permute"(%x) <{{source_target_pairs = {dense([[0, 1], [1, 0]])}{channel}}}>'
        x, results = run_devices(program(op, counts=BOTH))
        np.testing.assert_array_equal(results, x[source])


@pytest.mark.parametrize(
    ("name", "expected"), [("replica_id", [0, 0, 1, 1]), ("partition_id", [0, 1, 0, 1])], ids=lambda v: str(v)
)
def test_each_device_has_its_replica_id_and_partition_id(name: str, expected: list[int]) -> None:
    text = f"""module attributes {{mhlo.num_replicas = 2 : i32, mhlo.num_partitions = 2 : i32}} {{
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %n = stablehlo.{name} : tensor<ui32>
  %f = stablehlo.convert %n : (tensor<ui32>) -> tensor<f32>
  %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %r = stablehlo.add %x, %b : tensor<2x3xf32>
  return %r : tensor<2x3xf32>
}}
}}"""
    x, results = run_devices(text)
    np.testing.assert_allclose(results, x + np.array(expected, "f4")[:, None, None], rtol=1e-6)


@pytest.mark.parametrize(
    ("counts", "mesh"), [("", "partition=4"), ("replicas = 4", "replica=4"), (BOTH, "replica=2, partition=2")]
)
def test_mesh_size_follows_module_attributes_or_groups(counts: str, mesh: str) -> None:
    module = parse_text(program(reduced([[0, 1, 2, 3]]), counts=counts))
    assert str(module.mesh) == f"Mesh({mesh})" and module.stage == "partition"
    assert print_text(parse_text(print_text(module))) == print_text(module)


PAIRS = dense([[0, 1], [1, 2], [3, 0]])
CROSSING = {
    "sent and received": f"""%0 = stablehlo.create_token : !stablehlo.token
  %1 = "stablehlo.send"(%x, %0) <{{{CHANNEL}, is_host_transfer = false, source_target_pairs = {PAIRS}}}> : (tensor<2x3xf32>, !stablehlo.token) -> !stablehlo.token
  %r, %2 = "stablehlo.recv"(%1) <{{{CHANNEL}, is_host_transfer = false}}> : (!stablehlo.token) -> (tensor<2x3xf32>, !stablehlo.token)
  %3 = stablehlo.after_all %2, %token : !stablehlo.token""",
    "in the same region": f"""%f = "stablehlo.async_start"(%x) ({{
  ^bb0(%a: tensor<2x3xf32>):
    %p = "stablehlo.collective_permute"(%a) <{{source_target_pairs = {PAIRS}, {CHANNEL}}}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    stablehlo.return %p : tensor<2x3xf32>
  }}) : (tensor<2x3xf32>) -> !stablehlo.future<tensor<2x3xf32>>
  %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<2x3xf32>>) -> tensor<2x3xf32>
  %3 = stablehlo.after_all %token : !stablehlo.token""",
}


def crossing(body: str) -> str:
    return f"""module attributes {{mhlo.num_partitions = 4 : i32}} {{
func.func @main(%x: tensor<2x3xf32>, %token: !stablehlo.token) -> (tensor<2x3xf32>, !stablehlo.token) {{
  {body}
  return %r, %3 : tensor<2x3xf32>, !stablehlo.token
}}
}}"""


@pytest.mark.parametrize("name", CROSSING)
def test_send_recv_and_async_permute_move_data(name: str) -> None:
    x = normal(4, 2, 3)
    results = compile_program(crossing(CROSSING[name]), target="cpu")(x.reshape(-1, 3), np.zeros((0,), bool))
    expected = np.stack([x[3], x[0], x[1], np.zeros_like(x[0])])
    np.testing.assert_array_equal(np.asarray(results[0]).reshape(x.shape), expected)
    assert np.asarray(results[1]).shape == (0,)


REFUSED = [
    (CROSSING["sent and received"].replace("is_host_transfer = false", "is_host_transfer = true"), "to the host"),
    (CROSSING["sent and received"].replace("handle = 1", "handle = 2", 1), "no matching send on its channel"),
    (CROSSING["sent and received"].replace(f", source_target_pairs = {PAIRS}", ""), "needs source_target_pairs"),
    (CROSSING["sent and received"].replace("[0, 1]", "[0, 2]"), "the target of more than one pair"),
    (CROSSING["in the same region"].replace('"(%f)', '"(%x)').replace("(!stablehlo.future<tensor<2x3xf32>>)", "(tensor<2x3xf32>)"), "no matching stablehlo.async_start"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=range(len(REFUSED)))
def test_invalid_send_recv_is_refused_at_its_location(body: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(crossing(body))
    assert all(fault.loc for fault in caught.value.diagnostics)
