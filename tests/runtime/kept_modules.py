"""The programs of the saved modules in tests/data/modules: one per kind of module (`KINDS`) and format.

    python -m tests.runtime.kept_modules        writes modules of the current formats into tests/data/modules

The file of format N is `N.mgx`; each kind has its own format numbers, so a format change adds one file per kind. Files
of the previous format stay, because meshgen still reads them; older ones are deleted. All values are small integers, so
that results are exact.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg

FOLDER = Path(__file__).resolve().parents[1] / "data" / "modules"


def train(state: Mapping[str, Any], x: Any) -> Any:
    momentum = 2.0 * state["m"] + x
    return (x * x).sum(), {"m": momentum, "w": state["w"] - momentum}


def dense(x: Any, w: Any) -> Any:
    return x @ w


def twice(x: Any) -> Any:
    return x + x


def stages(x: Any, w: Any) -> Any:
    return mg.annotate(x + x, mg.P("b", mesh="second")) @ w


OPEN = """func.func @main(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>) -> tensor<?x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}
"""
STATE = {"m": "f32[4,4]", "w": "f32[4,4]"}


def executables() -> dict[str, Any]:
    """Compile one program for each kind of module: one mesh, several meshes, open sizes, and several entry functions."""
    return {
        "mesh": mg.compile(train, {"a": 2}, args=[STATE, "f32[4,4]"], in_specs={"*": mg.P("a")}, donate={"state": 1},
                           target="cuda:sm_80"),
        "parts": mg.compile(stages, {"first": {"a": 2}, "second": {"b": 3}}, args=["f32[6,4]", "f32[4,2]"],
                            in_specs={"x": mg.P("a", mesh="first"), "w": mg.P("b", mesh="second")}, target="cpu"),
        "open": mg.compile(OPEN, {"a": None}, in_specs={"x": mg.P("a")}, sizes=[{"mesh": {"a": 2}, "args": {"x": (6, 8)}}], target="cpu"),
        "entries": mg.compile({"main": dense, "twice": twice}, {"a": 2}, args={"main": ["f32[6,8]", "f32[8,4]"], "twice": ["f32[6,8]"]},
                              target="cpu"),
    }  # fmt: skip


def whole(*shape: int) -> np.ndarray[Any, Any]:
    return (np.arange(np.prod(shape), dtype=np.float32) % 7 - 3).reshape(shape)


def check_mesh(path: Path) -> None:
    state, x = {"m": whole(4, 4), "w": whole(4, 4) + 1}, whole(4, 4) - 1
    total, after = mg.load(path)(state, x)
    momentum = 2 * state["m"] + x
    assert total == (x * x).sum()
    assert np.array_equal(after["m"], momentum) and np.array_equal(after["w"], state["w"] - momentum)


def check_parts(path: Path) -> None:
    x, w = whole(6, 4), whole(4, 2)
    assert np.array_equal(mg.load(path)(x, w), 2 * x @ w)


def check_open(path: Path) -> None:
    x, w = whole(6, 8), whole(8, 4)
    assert np.array_equal(mg.load(path, {"a": 2})(x, w), x @ w)


def check_entries(path: Path) -> None:
    x, w = whole(6, 8), whole(8, 4)
    assert np.array_equal(mg.load(path, entry="main")(x, w), x @ w)
    assert np.array_equal(mg.load(path, entry="twice")(x), 2 * x)


CHECKS: dict[str, Callable[[Path], None]] = {
    "mesh": check_mesh,
    "parts": check_parts,
    "open": check_open,
    "entries": check_entries,
}


def format_of(path: Path) -> int:
    with zipfile.ZipFile(path) as members:
        return json.loads(members.read("manifest.json"))["format"]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for executable in executables().values():
        written = FOLDER / "new.mgx"
        executable.save(written)
        written.rename(FOLDER / f"{format_of(written)}.mgx")


if __name__ == "__main__":
    main()
