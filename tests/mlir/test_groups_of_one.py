"""Tests of collectives in groups of one device: identities on global tensors, and per-device programs without a mesh."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.api import plan
from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text

KIND = "tensor<4x6xf32>"
SUM = f"""%1 = "stablehlo.all_reduce"(%0) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0], [1]]> : tensor<2x1xi64>, use_global_device_ids}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }}) : ({KIND}) -> {KIND}"""
PERMUTED = f'%1 = "stablehlo.collective_permute"(%0) <{{source_target_pairs = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>}}> : ({KIND}) -> {KIND}'
NOTHING = f'%1 = "stablehlo.collective_permute"(%0) <{{source_target_pairs = dense<> : tensor<0x2xi64>}}> : ({KIND}) -> {KIND}'
X = np.arange(24, dtype=np.float32).reshape(4, 6)


def program(collective: str, *, mesh: str = 'sdy.mesh @mesh = <["x"=1, "y"=2]>', annotation: str = "") -> str:
    return f"""module attributes {{mhlo.num_partitions = 2 : i32}} {{
  {mesh}
  func.func public @main(%a: {KIND}{annotation}) -> {KIND} {{
    %0 = stablehlo.negate %a : {KIND}
    {collective}
    return %1 : {KIND}
  }}
}}"""


@pytest.mark.parametrize(
    "annotation", ["", ' {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}'], ids=["plain", "split"]
)
@pytest.mark.parametrize(("collective", "expected"), [(SUM, -X), (PERMUTED, -X), (NOTHING, 0 * X)], ids=["sum", "permute", "nothing"])  # fmt: skip
def test_singleton_collective_on_global_tensor_is_identity(
    collective: str, expected: np.ndarray, annotation: str
) -> None:
    """JAX lowers a `psum` over a manual axis of size 1 to a collective in groups of one, not to a manual computation."""
    executable = plan(program(collective, annotation=annotation), target="cpu")
    np.testing.assert_array_equal(np.asarray(executable(X)), expected)
    assert executable.comms.counts == {}


def test_singleton_collective_without_mesh_is_per_device() -> None:
    assert parse_text(program(SUM, mesh="")).stage == "partition"


def test_larger_groups_in_annotated_program_are_refused() -> None:
    annotation = ' {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}'
    text = program(
        SUM.replace("dense<[[0], [1]]> : tensor<2x1xi64>", "dense<[[0, 1]]> : tensor<1x2xi64>"), annotation=annotation
    )
    with pytest.raises(ProgramError, match="both annotations and explicit collectives"):
        parse_text(text)
