"""Tests of XLA's older sharding syntax: tile assignments become mesh axes, and programs with them are partitioned."""

from __future__ import annotations

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.mesh import make_mesh
from meshgen.mlir.stablehlo.xla_shardings import manual_axes_of, mesh_of, sharding_of
from meshgen.mlir.text import parse_text
from meshgen.spec import Sharding
from meshgen.testing.oracle import check

MESH = make_mesh({"x": 2, "y": 4})


@pytest.mark.parametrize(
    ("text", "dims"),
    [
        ("{replicated}", ((), ())),
        ("{devices=[2,4]<=[8]}", (("x",), ("y",))),
        ("{devices=[4,2]<=[2,4]T(1,0)}", (("y",), ("x",))),
        ("{devices=[8,1]<=[8]}", (("x", "y"), ())),
        ("{devices=[1,8]<=[2,4]T(1,0)}", ((), ("y", "x"))),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", (("x",), ())),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", ((), ("y",))),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated}}", ((), ("y",))),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}", ((), ("y",))),
        ("{devices=[2,2,2]<=[8] last_tile_dim_replicate}", (("x",), ("y:(1)2",))),
        ("{devices=[2,4]0,1,2,3,4,5,6,7}", (("x",), ("y",))),
        ("{devices=[4,2]0,4,1,5,2,6,3,7}", (("y",), ("x",))),
    ],
)
def test_tile_assignment_becomes_mesh_axes(text: str, dims: tuple[tuple[str, ...], ...]) -> None:
    assert sharding_of(text, 2, MESH) == Sharding(dims)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{maximal device=0}", "expected {replicated}"),
        ("{devices=[2,4]<=[8]} x", "expected {replicated}"),
        ("{devices=[2,2]<=[8]}", "its 4 tiles must be one for each of 8 devices"),
        ("{devices=[2,2]0,1,2,2}", "must be one for each"),
        ("{devices=[8]<=[8]}", "splits 1 dims of a tensor that has 2"),
        ("{devices=[2,2]<=[4]}", "over 4 devices, but the mesh is"),
        ("{devices=[4,2]<=[2,2,2]T(1,1,0)}", "not a permutation of 3 dims"),
        ("{devices=[2,4]0,3,1,2,4,5,6,7}", "tiles do not follow axes"),
        ("{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}", "its last dims are 'unreduced'"),
    ],
)
def test_malformed_xla_sharding_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sharding_of(text, 2, MESH)


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("{manual}", ("x", "y")),
        ("{replicated}", ()),
        ("{devices=[2,1,4]<=[8] last_tile_dim_replicate}", ()),
        ("{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}", ("x",)),
        ("{devices=[1,2,4]<=[8] last_tile_dims={manual}}", ("y",)),
        ("{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated, manual}}", ("x",)),
    ],
)
def test_manual_axes_come_from_last_tile_dims(text: str, axes: tuple[str, ...]) -> None:
    assert manual_axes_of(text, MESH) == axes


def test_mesh_is_derived_from_shardings() -> None:
    manual = mesh_of(["{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}"])
    assert manual is not None and manual.sizes == (2, 4)
    texts = ["{replicated}", "{devices=[1,8]<=[2,4]T(1,0)}", "{devices=[4,2]<=[8]}", "nothing"]
    mesh = mesh_of(texts)
    assert mesh is not None and (mesh.names, mesh.sizes) == (("d0", "d1", "d2"), (2, 2, 2))
    assert mesh_of(["{replicated}"]) is None
    assert mesh_of(["{devices=[6]<=[6]}", "{devices=[8]<=[8]}"]) is None


PROGRAM = """module attributes {mhlo.num_partitions = 8 : i32} {
  func.func public @main(%x: tensor<8x6xf32> {mhlo.sharding = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      %w: tensor<6x16xf32> {mhlo.sharding = "{devices=[1,8]<=[2,4]T(1,0)}"})
      -> (tensor<8xf32> {mhlo.sharding = "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}"}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x6xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
    %1 = stablehlo.tanh %0 {mhlo.sharding = "{replicated}"} : tensor<8x16xf32>
    %2 = stablehlo.custom_call @Sharding(%1) {backend_config = "unspecified_dims=[1]", mhlo.sharding = "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"} : (tensor<8x16xf32>) -> tensor<8x16xf32>
    %c = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.reduce(%2 init: %c) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
}
"""


def test_program_with_xla_shardings_is_partitioned() -> None:
    module = mg.lower(PROGRAM, stage="import")
    assert module.mesh.sizes == (2, 4)
    dims = [annotation.sharding.dims for annotation in (*module.in_annotations, *module.out_annotations) if annotation]
    assert dims == [(("d0",), ()), ((), ("d1", "d0")), (("d1",),)]
    notes = [(n.attrs.sharding.dims, n.attrs.open_dims) for n in module.graph.nodes if n.op == "annotate"]
    assert notes == [(((), ()), ()), ((("d1",), ()), (False, True))]
    args = [np.random.default_rng(0).standard_normal(s).astype("f4") for s in ((8, 6), (6, 16))]
    assert check(module, pipeline=lambda m: mg.lower(m, stage="partition"), args=args).ok
    mine = parse_text(PROGRAM, "-", [make_mesh({"a": 2, "b": 4})])
    assert mine.in_annotations[1] is not None and mine.in_annotations[1].sharding.dims == ((), ("b", "a"))


def test_invalid_xla_sharding_is_refused_at_its_location() -> None:
    text = PROGRAM.replace("[2,1,4]<=[8]", "[3,1,4]<=[8]").replace("[4,1,2]<=", "[5,1,2]<=")
    with pytest.raises(ProgramError) as caught:
        parse_text(text)
    locations = [(fault.code, fault.loc.line if fault.loc else 0) for fault in caught.value.diagnostics]
    assert locations == [("MG0204", 2), ("MG0204", 7)]
