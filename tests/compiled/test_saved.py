"""Modules keep the decisions of their programs: `explain` reads them, and plans nothing again."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.cli import main
from meshgen.compiled import saved_objects
from meshgen.compiled.restored import saved_program
from meshgen.compiled.saved import MEMBER, SavedProgram, saved_member
from meshgen.compiled.saved_objects import OtherVersionError, from_document, to_document
from meshgen.errors import MeshgenError, ModuleError
from meshgen.reports.explain import explanations
from meshgen.runtime.module_file.members import Held
from meshgen.runtime.module_file.resources import Resources
from tests.programs import mlp
from tests.reports.models import layers
from tests.sharding.multi_mesh.meshes_programs import MESHES, TYPES, two_stages

WEIGHT = np.arange(2048, dtype=np.float32).reshape(64, 32)


def with_constant(x: mg.Tensor) -> mg.Tensor:
    return mg.relu(x @ WEIGHT)


PROGRAMS: dict[str, Callable[[], mg.Executable]] = {
    "layers": lambda: mg.compile(layers(2), target="cpu"),
    "two meshes": lambda: mg.compile(
        two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu"
    ),
    "large constant": lambda: mg.compile(with_constant, {"d": 2}, args=["f32[8,64]"], in_specs=["d"], target="cpu"),
    "transformer block": lambda: mg.compile(
        Path(__file__).parents[2] / "examples" / "transformer_block.mlir", target="cpu"
    ),
}


def _refuse(*_: object, **__: object) -> Any:
    raise AssertionError("the program is planned again")


@pytest.fixture
def no_planning(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        for name in ("api.plan_module", "api.run_stages", "sharding.propagate.propagate", "codegen.planner.planned"):
            monkeypatch.setattr(f"meshgen.{name}", _refuse)

    return forbid


def _said(program: Any) -> list[Any]:
    record = {name: value for name, value in program.record().items() if name != "seconds"}
    texts = [program.explain(), program.explain(verbose=True), program.tree(), program.show()]
    return [*texts, record, _in_any_folder(explanations(program)), list(map(str, program.gathers()))]


def _in_any_folder(value: Any) -> Any:
    """Records with base names of files: modules keep no folders."""
    if isinstance(value, dict):
        return {key: Path(each).name if key == "file" else _in_any_folder(each) for key, each in value.items()}
    return list(map(_in_any_folder, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_explanations_of_a_module_are_read_from_it(name: str, tmp_path: Path, no_planning: Callable[[], None]) -> None:
    executable = PROGRAMS[name]()
    executable.save(tmp_path / "m.mgx")
    no_planning()
    program = mg.replan(mg.load(tmp_path / "m.mgx"))
    assert _said(program) == _said(executable)


OTHERS = (  # what a plan may have: each kind of loop, collective and rewrite has records of its own
    "chunks", "collective-combine", "expand-attention", "expand-linalg", "fft-to-pencils", "loop-to-recurrence", "masked-dot-to-ragged",
    "scan-prefetch", "slice-to-halo", "softmax-in-one-read",
)  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_decisions_of_all_programs_are_saved(name: str) -> None:
    """A record that is not saved would only show as a program that is planned again."""
    program = Path(__file__).parents[1] / "passes" / "gains" / f"{name}.mlir"
    assert saved_member(api.plan(program), Resources())


@pytest.mark.parametrize("asked", [[], ["-v"], ["--tree"], ["--memory"], ["--collective", "0"], ["w2"], ["--json"]])
def test_explain_says_of_a_module_what_it_says_of_its_program(
    asked: list[str], tmp_path: Path, no_planning: Callable[[], None], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(mlp(y=("x", "y")))
    assert main(["compile", "m.mlir", "-o", "m.mgx", "--target", "cpu"]) == 0
    capsys.readouterr()
    assert main(["explain", "m.mlir", "--target", "cpu", *asked]) == 0
    of_program = capsys.readouterr().out
    no_planning()
    assert main(["explain", "m.mgx", *asked]) == 0
    of_module = capsys.readouterr().out
    if asked == ["--json"]:
        documents = [json.loads(text) for text in (of_program, of_module)]
        assert all(document.pop("seconds") is not None for document in documents)
        assert documents[0] == documents[1]
    else:
        assert of_program == of_module


def test_modules_of_another_version_are_planned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PROGRAMS["layers"]().save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    first = module.explain()
    monkeypatch.setattr(saved_objects, "VERSION", saved_objects.VERSION + 1)
    again = mg.load(tmp_path / "m.mgx")
    assert saved_program(again) is None and again.explain() == first


def _document() -> dict[str, Any]:
    (content,) = saved_member(PROGRAMS["layers"](), Resources()).values()
    return json.loads(gzip.decompress(content))


def test_other_classes_are_those_of_another_version() -> None:
    document = _document()
    document["classes"][3][1].append("new_field")
    with pytest.raises(OtherVersionError):
        from_document(document, {}.__getitem__)


def test_forged_decisions_are_refused_or_read() -> None:
    """Rows are changed at random: each document is refused as malformed, or gives a program."""
    document, rng = _document(), random.Random(0)
    refused = 0
    for _ in range(60):
        forged = copy.deepcopy(document)
        row = rng.choice(forged["rows"])
        row[rng.randrange(len(row))] = rng.choice([None, -1, 7, "x", [10**9], [0], [[]], {}, 0.5, [True]])
        try:
            assert isinstance(from_document(forged, {}.__getitem__), SavedProgram | int | str | float | None | list)
        except (ValueError, MeshgenError):
            refused += 1
    assert refused > 20


def test_classes_outside_of_records_are_refused() -> None:
    for name in ("os:system", "meshgen.cli:main", "builtins:dict", "meshgen.api:compile"):
        with pytest.raises(ValueError, match="has no records"):
            from_document({"version": saved_objects.VERSION, "classes": [[name, []]], "rows": []}, {}.__getitem__)


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    PROGRAMS["layers"]().save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    members = {name: bytes(module.members[name]) for name in module.members}
    members[MEMBER] = gzip.compress(b'{"version": 1, "classes": [], "rows": []}')
    module._container = Held(tmp_path / "m.mgx", members)
    with pytest.raises(ModuleError, match="MG0502"):
        module.explain()


def test_objects_that_are_shared_stay_shared() -> None:
    axis = mg.make_mesh({"x": 2})
    first, second = from_document(json.loads(json.dumps(to_document([axis, axis], Resources()))), {}.__getitem__)
    assert first is second and first == axis
