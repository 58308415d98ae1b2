"""Modules with other kernels: what changes, what stays, and that they run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.codegen.tuning.rewrite import Change, key_of, modules_of, with_forms
from meshgen.codegen.tuning.tuner import measure
from meshgen.ir.graph import Graph
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.cuda.timing import Timing
from meshgen.runtime.module_file import container
from meshgen.runtime.module_file.container import Container
from meshgen.runtime.native.export import write_native
from tests.codegen.tuning.measuring import PRODUCTS, bench, compiled

ENTRIES = PRODUCTS.replace("@main", "@first") + PRODUCTS.replace("@main", "@second").replace("tanh", "exponential")
OPEN = PRODUCTS.replace("80x", "?x")
ON_TWO_MESHES = Path(__file__).parents[3] / "examples" / "pipeline_stages.mlir"


class ShippedIsSlow:
    """A timer: of each kernel the form that is timed first takes longest."""

    def __init__(self, device: Device, body: Graph) -> None:
        del device, body
        self._first: Launch | None = None

    def seconds(self, launch: Launch) -> Timing:
        self._first = self._first or launch
        return Timing(1.0, 1.0) if launch is self._first else Timing(0.5, 0.5)


def changes_of(members: Container) -> dict[str, dict[str, Change]]:
    """Every kernel that has another candidate gets it."""
    found: dict[str, dict[str, Change]] = {}
    own = replace(bench()[0], timer_of=ShippedIsSlow)
    for each in measure(list(modules_of(members)), own):
        if each.change:
            found.setdefault(each.module, {})[each.kernel] = each.change
    return found


def made(kind: str, path: Path) -> Container:
    if kind == "two meshes":
        mg.compile(ON_TWO_MESHES, target="cuda:sm_90").save(path)
        return Container(path)
    if kind == "open":
        sizes = [{"args": {"a": (rows, 64)}} for rows in (64, 128)]
        return compiled(path, OPEN, sizes=sizes)
    return compiled(path, {"entries": ENTRIES, "one": PRODUCTS, "native": PRODUCTS}[kind])


@pytest.mark.parametrize("kind", ["one", "two meshes", "entries", "open"])
def test_a_file_without_changes_has_the_same_bytes(kind: str, tmp_path: Path) -> None:
    members = made(kind, tmp_path / "m.mgx")
    assert with_forms(members, {}) == {name: bytes(members[name]) for name in members}


@pytest.mark.parametrize("kind, modules", [("one", 1), ("entries", 2), ("open", 2), ("two meshes", 2)])
def test_only_code_launches_and_the_report_change(kind: str, modules: int, tmp_path: Path) -> None:
    members = made(kind, tmp_path / "m.mgx")
    changes = changes_of(members)
    assert len(changes) == modules
    container.write(tmp_path / "n.mgx", with_forms(members, changes))
    old, new = (list(modules_of(Container(tmp_path / f"{name}.mgx"))) for name in "mn")
    for before, after in zip(old, new, strict=True):
        assert after.schedule.items == before.schedule.items and after.stages == before.stages
        tuning = after.record()["tuning"]
        assert after.record() == before.record() | {"tuning": tuning}
        replaced = {name for name, own in changes[key_of(before.members)].items() if own.form}
        assert replaced and replaced <= set(tuning)
        for name, kernel in after.manifest.kernels.items():
            was = before.manifest.kernels[name]
            assert (after.source(name), kernel) != (before.source(name), was) or name not in replaced
            assert (after.source(name), kernel) == (before.source(name), was) or name in replaced


def test_a_rewritten_module_is_the_one_that_is_compiled_with_the_table(tmp_path: Path) -> None:
    """Its kernels, launches and binaries are as if they had been compiled so."""
    from meshgen.codegen.tuning.table import TuningTable

    members, (own, _) = made("one", tmp_path / "m.mgx"), bench()
    found = list(measure(list(modules_of(members)), own))
    changes = {found[0].module: {each.kernel: each.change for each in found if each.change}}
    container.write(tmp_path / "n.mgx", with_forms(members, changes))
    table = TuningTable([each.row for each in found if each.row])
    compiled(tmp_path / "c.mgx", tuning=table)
    rewritten, again = (Container(tmp_path / f"{name}.mgx") for name in "nc")
    code = ("kernels/", "cubins/", "ptx/", "manifest.json")
    assert {name: bytes(rewritten[name]) for name in rewritten if name.startswith(code)} == {
        name: bytes(again[name]) for name in again if name.startswith(code)
    }


def test_a_rewritten_module_computes_the_same(tmp_path: Path) -> None:
    members = made("one", tmp_path / "m.mgx")
    container.write(tmp_path / "n.mgx", with_forms(members, changes_of(members)))
    old, new = (mg.load(tmp_path / f"{name}.mgx") for name in "mn")
    args = [np.full(b.type.sizes, 1 / 8, b.type.numpy_dtype) for b in old.inputs]
    (wanted,), (found,) = old.run(args, "emulate"), new.run(args, "emulate")
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_a_launch_table_is_made_again(tmp_path: Path) -> None:
    made("native", tmp_path / "m.mgx")
    write_native(tmp_path / "m.mgx", tmp_path / "m.mgx")
    members = Container(tmp_path / "m.mgx")
    container.write(tmp_path / "n.mgx", with_forms(members, changes_of(members)))
    again = Container(tmp_path / "n.mgx")
    tables = {name for name in members if name.startswith("native/")}
    assert tables and tables == {name for name in again if name.startswith("native/")}
    written = {name: bytes(again[name]) for name in again}
    write_native(tmp_path / "n.mgx", tmp_path / "n.mgx")
    assert {name: bytes(each) for name, each in ((n, Container(tmp_path / "n.mgx")[n]) for n in again)} == written
    assert any(bytes(again[name]) != bytes(members[name]) for name in tables)
