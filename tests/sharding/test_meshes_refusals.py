"""What is refused of programs on several meshes."""

from __future__ import annotations

import pytest

import meshgen as mg
from meshgen.errors import MeshgenError, ShardingError
from tests.sharding.meshes_programs import (
    GRIDS,
    on_main,
    put,
    stages_of,
    traced,
)


def test_sizes_must_be_known_and_meshes_named() -> None:
    body = put("h", "x", "a") + put("g", "h", "b", "[[0], []]") + "  return %g : tensor<10x7xf32>"
    with pytest.raises(ShardingError, match="MG0201") as error:
        stages_of(on_main(body, grids=GRIDS.replace("shape = 3", "shape = ?")))
    (fault,) = error.value.diagnostics
    assert fault.loc is not None and fault.loc.line == 7  # where @b is named first
    with pytest.raises(ShardingError, match="MG0209"):
        stages_of(traced(lambda x: mg.annotate(x, mg.P(mesh="c")), types=["f32[4]"], in_specs=None))
    with pytest.raises(MeshgenError, match="MG0202"):
        stages_of(
            traced(lambda x: mg.annotate(x, mg.P("x", mesh="a")), types=["f32[4]"], in_specs={"x": mg.P(mesh="b")})
        )
