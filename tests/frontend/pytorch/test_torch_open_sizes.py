"""`.pt2` files whose sizes are open, without torch: what they compute at several sizes, their ranges and guards, modules, sizes that args give."""

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
from tests.frontend.pytorch.archives import PLACE

MESH = {"dp": 2, "tp": 2}
SPLIT = {"c_attn.weight": mg.P("tp"), "c_fc.weight": mg.P("tp"), "c_out.weight": mg.P(None, "tp"), "ids": mg.P("dp")}


def stored(name: str) -> list[tuple[Any, list[Any]]]:
    """Arguments, and what torch computes of each."""
    with np.load(PLACE / f"{name}.npz") as file:
        count = sum(key.startswith("arg") for key in file)
        return [(file[f"arg{i}"], [file[f"result{i}_{n}"] for n in range(2)]) for i in range(count)]


@pytest.mark.parametrize(("name", "specs"), [("block", SPLIT), ("conv", {"x": mg.P("dp")})])
def test_a_program_gives_what_torch_gives_at_each_size(name: str, specs: Any) -> None:
    executable = mg.compile(PLACE / f"{name}_open.pt2", MESH, in_specs=specs, target="cpu")
    assert isinstance(executable, OpenExecutable)
    for given, wanted in stored(f"{name}_open"):
        for got, each in zip(executable(given), wanted, strict=True):
            np.testing.assert_allclose(got, each, rtol=1e-4, atol=1e-5)


def test_a_program_at_sizes_is_the_one_that_is_read_for_them() -> None:
    shape = {"ids": (8, 16)}
    executable = api.plan(PLACE / "block_open.pt2", MESH, in_specs=SPLIT, target="cuda:sm_90")
    fixed = api.plan(PLACE / "block_open.pt2", MESH, args=shape, in_specs=SPLIT, target="cuda:sm_90")
    found = executable.at(args=shape)
    assert not isinstance(fixed, OpenExecutable)
    assert (found.comms.counts, found.comms.ring_bytes) == (fixed.comms.counts, fixed.comms.ring_bytes)
    same = ("peak_memory_bytes", "step_seconds", "kernels", "distinct_kernels")
    assert [found.record()[each] for each in same] == [fixed.record()[each] for each in same]


def test_sizes_are_given_one_by_one() -> None:
    executable = api.plan(PLACE / "block_open.pt2", MESH, args={"ids": (8, None)}, in_specs=SPLIT, target="cpu")
    assert isinstance(executable, OpenExecutable)
    assert [str(each.type) for each in executable.program.inputs if each.name == "ids"] == ["i64[8,?]"]
    assert str(executable.at(args={"ids": (8, 5)}).stages["import"].graph.outputs[0].type) == "f32[8,5,16]"
    with pytest.raises(mg.MeshgenError, match="ids"):
        executable.at(args={"ids": (4, 5)})


@pytest.mark.parametrize(
    ("name", "shape", "said"),
    [("block", (4, 24), "dim 1 of 'ids' is 24, but the program is for 23 at most"), ("block", (65, 4), "dim 0 of 'ids' is 65"),
     ("conv", (1, 3, 16, 8), "dim 0 of 'x' is 1, but the program is for 2 or more"),
     ("conv", (2, 3, 18, 8), r"dim 2 of 'x' is 18, but the program is for sizes of the form 4\*s"),
     ("conv", (2, 3, 260, 8), "dim 2 of 'x' is 260, but the program is for [0-9]* ?(to )?256")],
)  # fmt: skip
def test_sizes_outside_of_ranges_and_guards_are_refused(name: str, shape: tuple[int, ...], said: str) -> None:
    executable = api.plan(PLACE / f"{name}_open.pt2", {"dp": 2}, target="cpu")
    assert isinstance(executable, OpenExecutable)
    (dims,) = executable.program.shapes
    with pytest.raises(ProgramError, match=said):
        executable.at(args={dims: shape})


def test_args_of_derived_dims_fit_or_are_refused() -> None:
    found = api.plan(PLACE / "conv_open.pt2", {"dp": 2}, args={"x": (4, 3, 20, 8)}, target="cpu")
    assert str(found.stages["import"].graph.outputs[1].type) == "f32[4,8,6,2]"
    with pytest.raises(UsageError, match="dim 2 of 'x' has a size of the form"):
        api.plan(PLACE / "conv_open.pt2", {"dp": 2}, args={"x": (4, 3, 21, 8)}, target="cpu")


def test_a_module_has_the_program_and_what_was_compiled_ahead(tmp_path: Path) -> None:
    (first, wanted), (second, again), _ = stored("block_open")
    sizes = [{"args": {"ids": first.shape}}]
    mg.compile(PLACE / "block_open.pt2", MESH, in_specs=SPLIT, sizes=sizes, target="cpu").save(tmp_path / "open.mgx")
    module = mg.load(tmp_path / "open.mgx")
    np.testing.assert_allclose(module(first)[0], wanted[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(module(second)[0], again[0], rtol=1e-4, atol=1e-5)  # compiled at load


def test_a_program_with_open_sizes_is_text() -> None:
    module, _ = api.read(PLACE / "block_open.pt2", {"dp": 2})
    text = print_text(module)
    assert "tensor<?x?xi64>" in text and text.count("shape_assertion") >= 2
    assert print_text(parse_text(text)) == text


def test_check_compares_at_sizes(capsys: Any) -> None:
    assert (
        main(["check", str(PLACE / "conv_open.pt2"), "--mesh", "dp=2", "--spec", "x=dp", "--shape", "x=4x3x12x8"]) == 0
    )
    assert "ok" in capsys.readouterr().out
