"""Tests of modules with replaced kernels: the changed and unchanged members of the file, and the results of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.codegen.tuning.kernel_replacement import Change, key_of, modules_of, with_forms
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
    """A timer that returns the longest time for the variant of a kernel that is timed first."""

    def __init__(self, device: Device, body: Graph) -> None:
        del device, body
        self._first: Launch | None = None

    def seconds(self, launch: Launch) -> Timing:
        self._first = self._first or launch
        return Timing(1.0, 1.0) if launch is self._first else Timing(0.5, 0.5)


def changes_of(members: Container) -> dict[str, dict[str, Change]]:
    """Return a change for every kernel that has another candidate."""
    changes: dict[str, dict[str, Change]] = {}
    tuning_bench = replace(bench()[0], timer_of=ShippedIsSlow)
    for result in measure(list(modules_of(members)), tuning_bench):
        if result.change:
            changes.setdefault(result.module, {})[result.kernel] = result.change
    return changes


def made(kind: str, path: Path) -> Container:
    if kind == "two meshes":
        mg.compile(ON_TWO_MESHES, target="cuda:sm_90").save(path)
        return Container(path)
    if kind == "open":
        sizes = [{"args": {"a": (rows, 64)}} for rows in (64, 128)]
        return compiled(path, OPEN, sizes=sizes)
    return compiled(path, {"entries": ENTRIES, "one": PRODUCTS, "native": PRODUCTS}[kind])


@pytest.mark.parametrize("kind", ["one", "two meshes", "entries", "open"])
def test_rewrite_without_changes_is_byte_identical(kind: str, tmp_path: Path) -> None:
    members = made(kind, tmp_path / "m.mgx")
    assert with_forms(members, {}) == {name: bytes(members[name]) for name in members}


@pytest.mark.parametrize("kind, modules", [("one", 1), ("entries", 2), ("open", 2), ("two meshes", 2)])
def test_rewrite_changes_only_kernels_and_the_report(kind: str, modules: int, tmp_path: Path) -> None:
    members = made(kind, tmp_path / "m.mgx")
    changes = changes_of(members)
    assert len(changes) == modules
    container.write(tmp_path / "n.mgx", with_forms(members, changes))
    old, new = (list(modules_of(Container(tmp_path / f"{name}.mgx"))) for name in "mn")
    for before, after in zip(old, new, strict=True):
        assert after.schedule.items == before.schedule.items and after.stages == before.stages
        tuning = after.record()["tuning"]
        assert after.record() == before.record() | {"tuning": tuning}
        replaced = {name for name, change in changes[key_of(before.members)].items() if change.form}
        assert replaced and replaced <= set(tuning)
        for name, kernel in after.manifest.kernels.items():
            old_kernel = before.manifest.kernels[name]
            assert (after.source(name), kernel) != (before.source(name), old_kernel) or name not in replaced
            assert (after.source(name), kernel) == (before.source(name), old_kernel) or name in replaced


def test_rewritten_module_equals_one_compiled_with_the_table(tmp_path: Path) -> None:
    """Check that kernels, launches and binaries are byte-identical to those compiled with the table."""
    from meshgen.codegen.tuning.table import TuningTable

    members, (tuning_bench, _) = made("one", tmp_path / "m.mgx"), bench()
    results = list(measure(list(modules_of(members)), tuning_bench))
    changes = {results[0].module: {result.kernel: result.change for result in results if result.change}}
    container.write(tmp_path / "n.mgx", with_forms(members, changes))
    table = TuningTable([result.row for result in results if result.row])
    compiled(tmp_path / "c.mgx", tuning=table)
    rewritten, recompiled = (Container(tmp_path / f"{name}.mgx") for name in "nc")
    code = ("kernels/", "cubins/", "ptx/", "manifest.json")
    assert {name: bytes(rewritten[name]) for name in rewritten if name.startswith(code)} == {
        name: bytes(recompiled[name]) for name in recompiled if name.startswith(code)
    }


def test_rewritten_module_computes_the_same(tmp_path: Path) -> None:
    members = made("one", tmp_path / "m.mgx")
    container.write(tmp_path / "n.mgx", with_forms(members, changes_of(members)))
    old, new = (mg.load(tmp_path / f"{name}.mgx") for name in "mn")
    args = [np.full(b.type.sizes, 1 / 8, b.type.numpy_dtype) for b in old.inputs]
    (expected,), (result,) = old.run(args, "emulate"), new.run(args, "emulate")
    np.testing.assert_array_equal(result.astype(np.float32), expected.astype(np.float32))


def test_rewrite_regenerates_the_native_launch_table(tmp_path: Path) -> None:
    made("native", tmp_path / "m.mgx")
    write_native(tmp_path / "m.mgx", tmp_path / "m.mgx")
    members = Container(tmp_path / "m.mgx")
    container.write(tmp_path / "n.mgx", with_forms(members, changes_of(members)))
    rewritten = Container(tmp_path / "n.mgx")
    tables = {name for name in members if name.startswith("native/")}
    assert tables and tables == {name for name in rewritten if name.startswith("native/")}
    written = {name: bytes(rewritten[name]) for name in rewritten}
    write_native(tmp_path / "n.mgx", tmp_path / "n.mgx")
    assert {
        name: bytes(content) for name, content in ((n, Container(tmp_path / "n.mgx")[n]) for n in rewritten)
    } == written
    assert any(bytes(rewritten[name]) != bytes(members[name]) for name in tables)
