"""Expert parallelism with fewer experts than devices (the mesh axis is split into sub-axes, in Python and in Shardy)
and with more experts than devices.
"""

from __future__ import annotations

import numpy as np
import pytest

import meshgen as mg
from examples.moe import MESH, experts, specs
from meshgen import api
from meshgen.compiled.executable import Executable
from meshgen.mlir.text import print_text
from meshgen.testing.oracle import check


def planned(count: int, tokens: int = 48, width: int = 8, hidden: int = 16, slots: int = 5) -> Executable:
    shapes = [(tokens, width), (tokens, count, slots), (count, width, hidden), (count, hidden, width)]
    args = [mg.spec(f"f32[{','.join(map(str, shape))}]") for shape in shapes]
    return api.plan(experts, MESH, args=args, in_specs=specs(count), out_specs=mg.P("x"), target="cpu", skip=["chunks"])


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16, 24])
def test_expert_parallel_plan_is_correct(count: int) -> None:
    executable = planned(count)
    result = check(executable.stages["import"], pipeline=lambda _: executable.fused)
    assert result.ok and not result.outputs[0].unbounded, result.faults


def test_fewer_experts_than_devices_match_hand_schedule() -> None:
    """With these sizes, bytes cost more than latency. Inputs of the experts are reduce-scattered over the sub-axis that
    splits experts and all-reduced over the devices of each expert. Outputs are all-reduced over the devices of each
    expert and gathered over the sub-axis of the experts.
    """
    executable = planned(2, tokens=8192, width=1024, hidden=4096, slots=4096)
    nbytes = 2 * 4096 * 1024 * 4  # bytes of all slots of both experts
    rows = [(c.kind, c.axes, c.ring_bytes) for c in executable.comms]
    to_experts = [("reduce_scatter", ("x:(1)2",), nbytes // 2), ("all_reduce", ("x:(2)4",), nbytes // 2 * 3 // 2)]
    from_experts = [("all_reduce", ("x:(2)4",), nbytes // 2 * 3 // 2), ("all_gather", ("x:(1)2",), nbytes // 2)]
    assert sorted(rows) == sorted([*to_experts, *from_experts])
    w1 = executable.fused.graph.inputs[2].type
    assert w1.shape == (1, 1024, 1024)  # this device has one expert and a quarter of its hidden layer


def test_more_experts_than_devices_match_hand_schedule() -> None:
    executable = planned(16)
    nbytes = 16 * 5 * 8 * 4
    assert [(c.kind, c.axes, c.ring_bytes) for c in executable.comms] == [
        ("reduce_scatter", ("x",), nbytes * 7 // 8), ("all_gather", ("x",), nbytes * 7 // 8),
    ]  # fmt: skip


SDY = """sdy.mesh @mesh = <["x"=8]>
func.func @main(%x: tensor<2x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {}]>}, %w1: tensor<2x8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {"x":(2)4}]>}, %w2: tensor<2x16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {"x":(2)4}, {}]>})
    -> (tensor<2x6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}, {}]>}) {
  %h = stablehlo.dot_general %x, %w1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x8xf32>, tensor<2x8x16xf32>) -> tensor<2x6x16xf32>
  %t = stablehlo.tanh %h : tensor<2x6x16xf32>
  %y = stablehlo.dot_general %t, %w2, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x16xf32>, tensor<2x16x8xf32>) -> tensor<2x6x8xf32>
  return %y : tensor<2x6x8xf32>
}
"""


def test_shardy_sub_axes_all_reduce_within_each_expert() -> None:
    """The devices that share an expert sum its hidden layer. Devices of different experts do not communicate."""
    executable = api.plan(SDY, target="cpu")
    (row,) = executable.comms
    assert (row.kind, row.axes, row.group_size, row.ring_bytes) == ("all_reduce", ("x:(2)4",), 4, 6 * 8 * 4 * 3 // 2)
    rng = np.random.default_rng(0)
    x, w1, w2 = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 6, 8), (2, 8, 16), (2, 16, 8)))
    expected = np.tanh(x @ w1) @ w2
    np.testing.assert_allclose(np.asarray(executable(x, w1, w2)), expected, rtol=1e-5, atol=1e-5)
    reparsed = api.plan(print_text(executable.stages["import"]), target="cpu")
    assert [c.axes for c in reparsed.comms] == [("x:(2)4",)]
