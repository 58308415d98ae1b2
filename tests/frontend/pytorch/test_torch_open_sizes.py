"""`.pt2` files with open sizes: results at several sizes, ranges and guards, modules, and sizes from `args`. Torch need
not be installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.cli import main
from meshgen.compiled.open_sizes import OpenExecutable
from meshgen.errors import ProgramError, UsageError
from meshgen.mlir.text import parse_text, print_text
from tests.frontend.pytorch.archives import DATA_FOLDER

MESH = {"dp": 2, "tp": 2}
SPLIT = {"c_attn.weight": mg.P("tp"), "c_fc.weight": mg.P("tp"), "c_out.weight": mg.P(None, "tp"), "ids": mg.P("dp")}


def stored(name: str) -> list[tuple[Any, list[Any]]]:
    """Return pairs of arguments and the results that torch computed for them."""
    with np.load(DATA_FOLDER / f"{name}.npz") as file:
        count = sum(key.startswith("arg") for key in file)
        return [(file[f"arg{i}"], [file[f"result{i}_{n}"] for n in range(2)]) for i in range(count)]


@pytest.mark.parametrize(("name", "specs"), [("block", SPLIT), ("conv", {"x": mg.P("dp")})])
def test_open_program_matches_torch_at_each_size(name: str, specs: Any) -> None:
    executable = mg.compile(DATA_FOLDER / f"{name}_open.pt2", MESH, in_specs=specs, target="cpu")
    assert isinstance(executable, OpenExecutable)
    for argument, expected in stored(f"{name}_open"):
        for actual, reference in zip(executable(argument), expected, strict=True):
            np.testing.assert_allclose(actual, reference, rtol=1e-4, atol=1e-5)


def test_open_program_at_sizes_equals_fixed_program_of_torch() -> None:
    shape = {"ids": (8, 16)}
    executable = api.plan(DATA_FOLDER / "block_open.pt2", MESH, in_specs=SPLIT, target="cuda:sm_90")
    fixed = api.plan(DATA_FOLDER / "block_open.pt2", MESH, args=shape, in_specs=SPLIT, target="cuda:sm_90")
    specialized = executable.at(args=shape)
    assert not isinstance(fixed, OpenExecutable)
    assert (specialized.comms.counts, specialized.comms.ring_bytes) == (fixed.comms.counts, fixed.comms.ring_bytes)
    keys = ("peak_memory_bytes", "step_seconds", "kernels", "distinct_kernels")
    assert [specialized.record()[key] for key in keys] == [fixed.record()[key] for key in keys]


def test_open_sizes_can_be_fixed_one_by_one() -> None:
    executable = api.plan(DATA_FOLDER / "block_open.pt2", MESH, args={"ids": (8, None)}, in_specs=SPLIT, target="cpu")
    assert isinstance(executable, OpenExecutable)
    assert [str(value.type) for value in executable.program.inputs if value.name == "ids"] == ["i64[8,?]"]
    assert str(executable.at(args={"ids": (8, 5)}).stages["import"].graph.outputs[0].type) == "f32[8,5,16]"
    with pytest.raises(mg.MeshgenError, match="ids"):
        executable.at(args={"ids": (4, 5)})


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [("block", (4, 24), "dim 1 of 'ids' is 24, but the program is for 23 at most"), ("block", (65, 4), "dim 0 of 'ids' is 65"),
     ("conv", (1, 3, 16, 8), "dim 0 of 'x' is 1, but the program is for 2 or more"),
     ("conv", (2, 3, 18, 8), r"dim 2 of 'x' is 18, but the program is for sizes of the form 4\*s"),
     ("conv", (2, 3, 260, 8), "dim 2 of 'x' is 260, but the program is for [0-9]* ?(to )?256")],
)  # fmt: skip
def test_size_outside_range_or_guard_is_rejected(name: str, shape: tuple[int, ...], message: str) -> None:
    executable = api.plan(DATA_FOLDER / f"{name}_open.pt2", {"dp": 2}, target="cpu")
    assert isinstance(executable, OpenExecutable)
    (dims,) = executable.program.shapes
    with pytest.raises(ProgramError, match=message):
        executable.at(args={dims: shape})


def test_size_of_derived_dim_must_fit_formula() -> None:
    executable = api.plan(DATA_FOLDER / "conv_open.pt2", {"dp": 2}, args={"x": (4, 3, 20, 8)}, target="cpu")
    assert str(executable.stages["import"].graph.outputs[1].type) == "f32[4,8,6,2]"
    with pytest.raises(UsageError, match="dim 2 of 'x' has a size of the form"):
        api.plan(DATA_FOLDER / "conv_open.pt2", {"dp": 2}, args={"x": (4, 3, 21, 8)}, target="cpu")


def test_module_compiles_further_sizes_after_loading(tmp_path: Path) -> None:
    (first, first_expected), (second, second_expected), _ = stored("block_open")
    sizes = [{"args": {"ids": first.shape}}]
    mg.compile(DATA_FOLDER / "block_open.pt2", MESH, in_specs=SPLIT, sizes=sizes, target="cpu").save(
        tmp_path / "open.mgx"
    )
    module = mg.load(tmp_path / "open.mgx")
    np.testing.assert_allclose(module(first)[0], first_expected[0], rtol=1e-4, atol=1e-5)
    # these sizes are compiled when the module is called
    np.testing.assert_allclose(module(second)[0], second_expected[0], rtol=1e-4, atol=1e-5)


def test_program_with_open_sizes_round_trips_as_text() -> None:
    module, _ = api.read(DATA_FOLDER / "block_open.pt2", {"dp": 2})
    text = print_text(module)
    assert "tensor<?x?xi64>" in text and text.count("shape_assertion") >= 2
    assert print_text(parse_text(text)) == text


def test_check_command_compares_at_given_shape(capsys: Any) -> None:
    assert (
        main(["check", str(DATA_FOLDER / "conv_open.pt2"), "--mesh", "dp=2", "--spec", "x=dp", "--shape", "x=4x3x12x8"])
        == 0
    )
    assert "ok" in capsys.readouterr().out
