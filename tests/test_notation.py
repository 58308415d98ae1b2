"""Meshes and shardings in the notation of the command line."""

from __future__ import annotations

import pytest

from meshgen.errors import ShardingError
from meshgen.mesh import make_mesh
from meshgen.names import byte_count
from meshgen.notation import format_sharding, parse_mesh, parse_mesh_choices, parse_sharding
from meshgen.spec import P, Sharding


def test_choices_of_sizes_leave_an_axis_open() -> None:
    mesh, choices = parse_mesh_choices("dp=2|4|?|2,tp=2,pp=?")
    assert mesh == make_mesh({"dp": None, "tp": 2, "pp": None}) and choices == {"dp": (2, 4)}
    assert parse_mesh_choices("dp=1|8")[1] == {"dp": (1, 8)}


def test_mesh_is_parsed_with_a_name() -> None:
    assert (
        parse_mesh("stage.0:dp=2,tp=?")
        == parse_mesh("@stage.0: dp=2, tp=?")
        == make_mesh({"dp": 2, "tp": None}, "stage.0")
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("dp=0", "size 0"),
        ("dp=2,dp=2", "axis 'dp' is given twice"),
        ("dp", "is not NAME=SIZE"),
        ("dp=-1", "size -1"),
        ("dp=1024,tp=1025", "1,049,600 devices; the limit is 1,048,576"),
        ("", "is not NAME=SIZE"),
        ("first:", "is not NAME=SIZE"),
        (":dp=2", "'' is not a valid name"),
        ("a b:dp=2", "'a b' is not a valid name"),
    ],
)
def test_malformed_mesh_is_refused(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=message):
        parse_mesh(text)


@pytest.mark.parametrize(
    "sharding",
    [
        P(),
        P("x", None, ("y", "z")),
        P(None, partial={"x": "max", "y": "sum"}),
        P("x:(2)4"),
        P("x", None, partial="y", mesh="stage.1"),
        P(mesh="b"),
        Sharding((("x",), ()), halo=((1, 2), (0, 0))),
        Sharding(((), ("x",)), offsets=((), (0, 2, 5))),
    ],
    ids=str,
)
def test_formatted_sharding_round_trips(sharding: Sharding) -> None:
    assert parse_sharding(format_sharding(sharding)) == sharding


@pytest.mark.parametrize("text", ["x y!", "x/avg:y", "x/halo:1:2", "x/halo:7:1:1", "x/sum"])
def test_malformed_sharding_is_refused(text: str) -> None:
    with pytest.raises(ShardingError, match="MG0204"):
        parse_sharding(text)


@pytest.mark.parametrize("text", ["x/offsets:1:0:3", "_/offsets:7:0:2", "x,_/halo:2:1:1", "/halo:0:1:1"])
def test_halo_and_offsets_of_missing_dims_are_refused(text: str) -> None:
    with pytest.raises(ShardingError, match="cannot parse"):
        parse_sharding(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("64", 64), ("64B", 64), ("1kB", 1000), ("1KB", 1000), ("1KiB", 1024), ("1K", 1024), ("1k", 1024), ("1.5 GB", 1_500_000_000),
        ("2GiB", 2 << 30), ("80GB", 80 * 10**9), ("1T", 1 << 40), ("1X", None), ("GB", None), ("-1", None), ("1iB", None), ("", None),
    ],
)  # fmt: skip
def test_sizes_have_decimal_and_binary_units(text: str, count: int | None) -> None:
    assert byte_count(text) == count
