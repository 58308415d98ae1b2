"""Tests of stage texts, which a module stores compressed. Damaged or oversized ones are rejected when they are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import meshgen as mg
from meshgen import budget
from meshgen.errors import ModuleError
from meshgen.ir.graph import STAGES
from meshgen.runtime.module_file import container, stage_texts
from meshgen.runtime.module_file.members import Held
from meshgen.runtime.module_file.stage_texts import packed, stage_member, stage_of, unpacked
from tests.programs import mlp

TEXT = "func.func @f() {\n  // größer\n}\n"


def read(content: bytes) -> str:
    return unpacked(Held(Path("m.mgx"), {"t": content}), "t")


def test_packed_text_round_trips_and_is_deterministic() -> None:
    assert read(packed(TEXT)) == read(gzip.compress(TEXT.encode())) == TEXT
    assert packed(TEXT) == packed(TEXT) and packed(TEXT)[4:8] == bytes(4)  # the gzip time stamp is zero


def test_stage_and_member_names_are_inverse() -> None:
    assert [stage_of(stage_member(stage)) for stage in STAGES] == [*STAGES]
    assert stage_member("import") == "stages/00_import.mlir.gz"
    assert stage_of("stages/01_import.mlir.gz") is None is stage_of("kernels/add.py")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (TEXT.encode(), "cannot be expanded"),
        (packed(TEXT)[:-3], "not one complete text"),
        (packed(TEXT) + b"tail", "not one complete text"),
        (gzip.compress(b"\xff\xfe"), "is not UTF-8"),
        (packed(TEXT)[:-8] + bytes(4) + packed(TEXT)[-4:], "cannot be expanded"),
        (packed(TEXT)[:-4] + bytes(4), "not one complete text"),
    ],
    ids=["plain", "cut off", "more behind", "not UTF-8", "wrong checksum", "wrong size"],
)
def test_damaged_stage_text_is_rejected(content: bytes, why: str) -> None:
    with pytest.raises(ModuleError, match=f"MG0502.*{why}"):
        read(content)


def test_stage_text_beyond_size_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_texts, "MAX_STAGE_BYTES", 1000)
    assert len(read(packed("x" * 1000))) == 1000
    with pytest.raises(ModuleError, match=r"MG0502.*more than 1000 bytes"):
        read(packed("x" * 100_000))


def test_stage_text_larger_than_memory_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "free_bytes", lambda: 199_999)
    with pytest.raises(ModuleError, match=r"MG0502.*the text of 't' takes 200,000 B of memory, but 199,999 B are free"):
        read(packed("x" * 100_000))
    forged = packed("x" * 100_000)[:-4] + (10).to_bytes(4, "little")
    with pytest.raises(ModuleError, match=r"MG0502.*not one complete text"):
        read(forged)


def test_stages_of_module_are_compressed_and_complete(tmp_path: Path) -> None:
    executable = mg.compile(mlp(w1=("x", "y")), target="cpu")
    executable.save(tmp_path / "m.mgx")
    module, members = mg.load(tmp_path / "m.mgx"), container.Container(tmp_path / "m.mgx")
    assert all(text == executable.as_text(stage) for stage, text in module.stages.items())
    assert [*module.stages] == [*STAGES]
    stored = sum(len(members[name]) for name in members if stage_of(name))
    assert stored < sum(map(len, module.stages.values())) / 3
