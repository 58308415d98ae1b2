"""Saved modules keep the decisions of their programs, so `explain` reads them without planning again."""

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
from meshgen.compiled import record_json as saved_objects
from meshgen.compiled.record_json import OtherVersionError, from_document, to_document
from meshgen.compiled.restored import saved_program
from meshgen.compiled.saved_decisions import MEMBER, SavedProgram, saved_member
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


def _fail_on_planning(*_: object, **__: object) -> Any:
    raise AssertionError("the program is planned again")


@pytest.fixture
def no_planning(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def forbid() -> None:
        for name in ("api.plan_module", "api.run_stages", "sharding.propagate.propagate", "codegen.planner.planned"):
            monkeypatch.setattr(f"meshgen.{name}", _fail_on_planning)

    return forbid


def _report_outputs(program: Any) -> list[Any]:
    record = {name: value for name, value in program.record().items() if name != "seconds"}
    texts = [program.explain(), program.explain(verbose=True), program.tree(), program.show()]
    return [*texts, record, _without_folders(explanations(program)), list(map(str, program.gathers()))]


def _without_folders(value: Any) -> Any:
    """Replace the file paths in records by base names, because modules do not keep folders."""
    if isinstance(value, dict):
        return {key: Path(item).name if key == "file" else _without_folders(item) for key, item in value.items()}
    return list(map(_without_folders, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_module_explanations_are_read_without_planning(
    name: str, tmp_path: Path, no_planning: Callable[[], None]
) -> None:
    executable = PROGRAMS[name]()
    executable.save(tmp_path / "m.mgx")
    no_planning()
    program = mg.replan(mg.load(tmp_path / "m.mgx"))
    assert _report_outputs(program) == _report_outputs(executable)


# Programs with different kinds of loops, collectives and rewrites, whose decisions are stored in different records.
PLAN_KINDS = (
    "chunks", "collective-combine", "expand-attention", "expand-linalg", "fft-to-pencils", "loop-to-recurrence", "masked-dot-to-ragged",
    "scan-prefetch", "slice-to-halo", "softmax-in-one-read",
)  # fmt: skip


@pytest.mark.parametrize("name", PLAN_KINDS)
def test_decisions_of_every_plan_kind_are_serializable(name: str) -> None:
    """Check the records directly: if one were not saved, loading would only plan the program again, without an error."""
    program = Path(__file__).parents[1] / "passes" / "gains" / f"{name}.mlir"
    assert saved_member(api.plan(program), Resources())


@pytest.mark.parametrize("options", [[], ["-v"], ["--tree"], ["--memory"], ["--collective", "0"], ["w2"], ["--json"]])
def test_explain_of_module_equals_explain_of_program(
    options: list[str], tmp_path: Path, no_planning: Callable[[], None], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(mlp(y=("x", "y")))
    assert main(["compile", "m.mlir", "-o", "m.mgx", "--target", "cpu"]) == 0
    capsys.readouterr()
    assert main(["explain", "m.mlir", "--target", "cpu", *options]) == 0
    program_output = capsys.readouterr().out
    no_planning()
    assert main(["explain", "m.mgx", *options]) == 0
    module_output = capsys.readouterr().out
    if options == ["--json"]:
        documents = [json.loads(text) for text in (program_output, module_output)]
        assert all(document.pop("seconds") is not None for document in documents)
        assert documents[0] == documents[1]
    else:
        assert program_output == module_output


def test_module_of_another_version_is_planned_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PROGRAMS["layers"]().save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    first = module.explain()
    monkeypatch.setattr(saved_objects, "VERSION", saved_objects.VERSION + 1)
    reloaded = mg.load(tmp_path / "m.mgx")
    assert saved_program(reloaded) is None and reloaded.explain() == first


def _document() -> dict[str, Any]:
    (content,) = saved_member(PROGRAMS["layers"](), Resources()).values()
    return json.loads(gzip.decompress(content))


def test_record_with_unknown_fields_raises_version_error() -> None:
    document = _document()
    document["classes"][3][1].append("new_field")
    with pytest.raises(OtherVersionError):
        from_document(document, {}.__getitem__)


def test_forged_decisions_are_rejected_or_decoded() -> None:
    """Rows are changed at random: each document is rejected as malformed or decodes to a program."""
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


def test_non_record_classes_are_rejected() -> None:
    for name in ("os:system", "meshgen.cli:main", "builtins:dict", "meshgen.api:compile"):
        with pytest.raises(ValueError, match="has no records"):
            from_document({"version": saved_objects.VERSION, "classes": [[name, []]], "rows": []}, {}.__getitem__)


def test_damaged_decisions_file_in_module_raises_module_error(tmp_path: Path) -> None:
    PROGRAMS["layers"]().save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    members = {name: bytes(module.members[name]) for name in module.members}
    members[MEMBER] = gzip.compress(b'{"version": 1, "classes": [], "rows": []}')
    module._container = Held(tmp_path / "m.mgx", members)
    with pytest.raises(ModuleError, match="MG0502"):
        module.explain()


def test_shared_objects_stay_shared_after_round_trip() -> None:
    axis = mg.make_mesh({"x": 2})
    first, second = from_document(json.loads(json.dumps(to_document([axis, axis], Resources()))), {}.__getitem__)
    assert first is second and first == axis
