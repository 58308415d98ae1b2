"""Invalid programs on several meshes."""

from __future__ import annotations

from typing import Any

import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.errors import MeshgenError, ShardingError
from tests.sharding.multi_mesh.meshes_programs import (
    GRIDS,
    MESHES,
    annotate_on_grid,
    on_main,
    stages_of,
    traced,
)


def test_open_sizes_and_unknown_meshes_are_rejected() -> None:
    body = (
        annotate_on_grid("h", "x", "a")
        + annotate_on_grid("g", "h", "b", "[[0], []]")
        + "  return %g : tensor<10x7xf32>"
    )
    with pytest.raises(ShardingError, match="MG0201") as error:
        stages_of(on_main(body, grids=GRIDS.replace("shape = 3", "shape = ?")))
    (fault,) = error.value.diagnostics
    assert fault.loc is not None and fault.loc.line == 7  # line 7 is the first use of @b
    with pytest.raises(ShardingError, match="MG0209"):
        stages_of(traced(lambda x: mg.annotate(x, mg.P(mesh="c")), types=["f32[4]"], in_specs=None))
    with pytest.raises(MeshgenError, match="MG0202"):
        stages_of(
            traced(lambda x: mg.annotate(x, mg.P("x", mesh="a")), types=["f32[4]"], in_specs={"x": mg.P(mesh="b")})
        )


@pytest.mark.parametrize("meshes", [{"a": {"dp": 2}}, MESHES], ids=["one", "two"])
@pytest.mark.parametrize("where", ["input", "inside", "output"])
def test_annotation_on_unknown_mesh_is_rejected(meshes: Any, where: str) -> None:
    def program(x: Any) -> Any:
        h = mg.annotate(mg.tanh(x), mg.P("dp", mesh="a"))
        return mg.exp(mg.annotate(h, mg.P(mesh="c")) if where == "inside" else h)

    annotation = mg.P(mesh="c")
    specs = {"in_specs": [annotation]} if where == "input" else {"out_specs": annotation} if where == "output" else {}
    with pytest.raises(ShardingError, match="unknown mesh '@c'") as error:
        stages_of(read(program, meshes, args=["f32[4]"], **specs)[0])
    (fault,) = error.value.diagnostics
    assert fault.code == "MG0209" and (fault.loc is not None or where == "output")


def test_annotation_can_name_the_sole_mesh() -> None:
    def program(x: Any) -> Any:
        return mg.exp(mg.annotate(mg.tanh(x), mg.P("dp", mesh="a")))

    exe = mg.compile(program, {"a": {"dp": 2}}, args=["f32[4]"], target="cpu")
    assert not exe.comms and [str(sharding) for sharding in exe.fused.out_shardings] == ["[{dp}]"]
