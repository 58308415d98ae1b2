"""Placements and meshes of DTensor. meshgen reads only their attributes, so that objects with the same attributes
replace them if torch is not installed.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import meshgen as mg
from meshgen.errors import MissingError, ShardingError
from meshgen.frontend.torch.placements import from_placements
from meshgen.mesh import meshes_of
from tests.frontend.pytorch.archives import DATA_FOLDER

MESH = mg.make_mesh({"dp": 2, "tp": 4})


class Shard:
    def __init__(self, dim: int) -> None:
        self.dim = dim

    def is_replicate(self) -> bool:
        return False

    is_partial = is_replicate


class Replicate(Shard):
    def is_replicate(self) -> bool:
        return True


class Partial(Shard):
    def __init__(self, reduce_op: str = "sum") -> None:
        self.reduce_op = reduce_op

    def is_partial(self) -> bool:
        return True


class _StridedShard(Shard):
    def __init__(self, dim: int, split_factor: int) -> None:
        super().__init__(dim)
        self.split_factor = split_factor


R: Any = Replicate(0)


@pytest.mark.parametrize(("placements", "spec"), [
    ([Shard(0), R], mg.P("dp", None)),
    ([R, Shard(-1)], mg.P(None, "tp")),
    ([Shard(1), Shard(1)], mg.P(None, ("dp", "tp"))),
    ([Partial(), Shard(0)], mg.P("tp", None, partial="dp")),
    ([R, R], mg.P(None, None)),
    ([_StridedShard(0, 4), Shard(0)], mg.P(("tp", "dp"), None)),
    ([_StridedShard(-1, 1), Shard(0)], mg.P("tp", "dp")),
])  # fmt: skip
def test_placements_convert_to_shardings(placements: list[Any], spec: mg.Sharding) -> None:
    assert from_placements(placements, 2, MESH) == spec


@pytest.mark.parametrize(("placements", "text"), [
    ([R], "1 placements"), ([R, Shard(2)], "does not fit a tensor of rank 2"), ([Partial("avg"), R], r"is not supported(?s:.)*Partial\('sum'\)"),
    ([_StridedShard(0, 3), Shard(0)], "a factor of 3"), ([_StridedShard(0, 4), Shard(1)], "a factor of 4"),
])  # fmt: skip
def test_unsupported_placements_are_rejected(placements: list[Any], text: str) -> None:
    with pytest.raises(ShardingError, match=text) as error:
        from_placements(placements, 2, MESH)
    assert error.value.diagnostics[0].code == "MG0204"


def test_program_compiles_with_placements_as_specs() -> None:
    mesh = SimpleNamespace(mesh_dim_names=("dp", "tp"), shape=(2, 4), ndim=2)
    specs = {"ids": [Shard(0), R], "*.wq.weight": [R, Shard(0)], "*.wo.weight": (R, Shard(1))}
    with_placements = mg.compile(DATA_FOLDER / "decoder.pt2", mesh, in_specs=specs, target="cpu")
    with_specs = mg.compile(DATA_FOLDER / "decoder.pt2", MESH, in_specs={"ids": mg.P("dp"), "*.wq.weight": mg.P("tp"), "*.wo.weight": mg.P(None, "tp")}, target="cpu")  # fmt: skip
    assert with_placements.as_text() == with_specs.as_text()


def test_unnamed_mesh_axes_are_named_by_index() -> None:
    (mesh,) = meshes_of(SimpleNamespace(mesh_dim_names=None, shape=(2, 4), ndim=2))  # type: ignore[arg-type]
    assert mesh.by_name == {"0": 2, "1": 4}


def test_shardings_convert_to_placements() -> None:
    placements = pytest.importorskip("torch.distributed.tensor")
    for spec in (mg.P("dp", None), mg.P(None, ("dp", "tp")), mg.P("tp", None, partial="dp")):
        converted = mg.to_placements(spec, MESH)
        assert len(converted) == 2 and from_placements(converted, 2, MESH) == spec
    assert mg.to_placements(mg.P(None, "tp"), MESH) == (placements.Replicate(), placements.Shard(1))
    for spec in (mg.P(("tp", "dp")), mg.P("dp:(1)2")):
        with pytest.raises(ShardingError, match="has no placements"):
            mg.to_placements(spec, MESH)


def test_to_placements_without_torch_raises_missing_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.distributed.tensor", None)
    with pytest.raises(MissingError, match="MG0602"):
        mg.to_placements(mg.P("dp"), MESH)
