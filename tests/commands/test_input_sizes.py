"""Inputs that never end or claim excessive sizes: commands refuse them before they fill the memory."""

from __future__ import annotations

import io
import os
import sys
import threading
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from meshgen import budget
from meshgen.cli import main
from meshgen.commands.arrays import load_arrays
from meshgen.errors import Diagnostic, Location, UsageError
from meshgen.frontend import mlir
from meshgen.runtime.module_file.json_values import read_json

PROGRAM = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  return %a : tensor<4xf32>\n}\n"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlir, "MAX_TEXT", 1 << 22)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe.mlir")
    return tmp_path / "pipe.mlir"


def feed(pipe: Path, content: bytes, times: int = 1) -> None:
    """Write `content` to a pipe `times` times, or until the reader closes it."""

    def write() -> None:
        try:
            with open(pipe, "wb") as file:
                for _ in range(times):
                    file.write(content)
        except BrokenPipeError:
            pass

    threading.Thread(target=write, daemon=True).start()


def test_endless_device_is_refused_as_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "/dev/zero", "--mesh", "a=2"]) == 2
    assert capsys.readouterr().err.startswith("error MG0002: /dev/zero: a program may have 4,194,304 bytes at most")


def test_huge_sparse_file_is_refused_as_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sparse.mlir"
    file.touch()
    os.truncate(file, 20 << 30)
    assert main(["opt", str(file)]) == 2
    assert "MG0002" in capsys.readouterr().err


def test_directory_is_refused_as_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "MG0002" in capsys.readouterr().err


def test_program_from_pipe_is_read_up_to_the_limit(pipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed(pipe, PROGRAM.encode())
    assert main(["opt", str(pipe)]) == 0
    feed(pipe, bytes(1 << 20), 10)
    assert main(["opt", str(pipe)]) == 2
    assert "MG0002" in capsys.readouterr().err


def test_fault_in_piped_program_is_reported_without_rereading(pipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    feed(pipe, b"\nno program\n")
    assert main(["opt", str(pipe)]) == 1
    assert f"{pipe}:2: error MG0101" in capsys.readouterr().err
    assert "\n" not in str(Diagnostic("MG0104", "x", Location("/dev/zero", 1)))


def test_program_from_stdin_is_read_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(PROGRAM))
    assert main(["opt", "-"]) == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"/" * (1 << 23))))
    assert main(["opt", "-"]) == 2
    assert "error MG0002: -: a program may have" in capsys.readouterr().err


@pytest.mark.parametrize("ends", ["\r\n", "\r"])
def test_program_with_other_line_ends_and_bom_is_read(ends: str, tmp_path: Path) -> None:
    (tmp_path / "m.mlir").write_bytes(b"\xef\xbb\xbf" + PROGRAM.replace("\n", ends).encode())
    assert main(["opt", str(tmp_path / "m.mlir")]) == 0


def header(shape: str, descr: str = "<f4") -> bytes:
    """Return the header of a `.npy` file that claims to have this shape and dtype."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (len(text) + 1).to_bytes(2, "little") + text + b"\n"


CLAIMS = {
    "more than there is": header("(1099511627776,)"),
    "more than 2^63": header("(4611686018427387904, 1024)"),
    "endless digits": header(f"({'9' * 4000},)"),
    "less than nothing": header("(-4,)"),
    "nested": header("(" * 4000 + ")" * 4000),
    "a truth value as a size": header("(True, 4)") + bytes(16),
    "many dims": header(f"({'1,' * 100})"),
    "objects": header("(1,)", "|O") + bytes(8),
    "cut off": header("(4,)")[:20],
    "another version": b"\x93NUMPY\x09\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("zipped", [False, True])
def test_array_header_with_false_claims_is_refused(claim: str, zipped: bool, tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(CLAIMS[claim])
    if zipped:
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("x.npy", CLAIMS[claim])
        file = tmp_path / "x.npz"
    with pytest.raises(UsageError, match="MG0002"):
        load_arrays(str(file))


def test_arrays_beyond_free_memory_are_refused_before_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.mlir").write_text(PROGRAM)
    module = str(tmp_path / "p.mgx")
    assert main(["compile", str(tmp_path / "p.mlir"), "-o", module, "--mesh", "a=2", "--target", "cpu"]) == 0
    bomb, plain = tmp_path / "bomb.npz", tmp_path / "plain.npy"
    np.savez_compressed(bomb, a=np.zeros(1 << 20, np.float32), b=np.zeros(1 << 20, np.float32))
    np.save(plain, np.zeros(1 << 21, np.float32))
    assert bomb.stat().st_size < 1 << 14
    monkeypatch.setattr(budget, "free_bytes", lambda: (1 << 23) - 1)
    for words in ([f"--input=@{bomb}"], [f"--expect={bomb}"], [f"--input=a=@{plain}"]):
        capsys.readouterr()
        assert main(["run", module, *words]) == 2
        assert "its content takes 8,388,608 B of memory, but 8,388,607 B are free" in capsys.readouterr().err
    monkeypatch.setattr(budget, "free_bytes", lambda: 1 << 23)
    assert {name: array.shape for name, array in load_arrays(str(bomb)).items()} == {"a": (1 << 20,), "b": (1 << 20,)}


def test_array_header_is_unpacked_only_up_to_its_limit(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x02\x00" + (1 << 26).to_bytes(4, "little") + b" " * (1 << 26))
    tracemalloc.start()
    with pytest.raises(UsageError, match="MG0002"):
        load_arrays(str(tmp_path / "bomb.npz"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 22


def test_npz_with_duplicate_name_or_other_compression_is_refused(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.zeros(4, np.float32))
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(tmp_path / "twice.npz", "w") as archive:
        for _ in range(2):
            archive.writestr("x.npy", content.getvalue())
    with pytest.raises(UsageError, match=r"MG0002.*member 'x\.npy' stands twice"):
        load_arrays(str(tmp_path / "twice.npz"))
    with zipfile.ZipFile(tmp_path / "packed.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("x.npy", content.getvalue())
    with pytest.raises(UsageError, match="MG0002"):
        load_arrays(str(tmp_path / "packed.npz"))


def test_json_with_duplicate_key_is_refused() -> None:
    assert read_json(b'{"a": {"b": 1}, "b": [{"a": 2}, {"a": 3}]}') == {"a": {"b": 1}, "b": [{"a": 2}, {"a": 3}]}
    with pytest.raises(ValueError, match="the key 'b' stands twice"):
        read_json(b'{"a": {"b": 1, "c": 2, "b": 1}}')


def test_arrays_are_read_from_regular_files_only(pipe: Path) -> None:
    for path in ("/dev/zero", str(pipe), str(pipe.parent)):
        with pytest.raises(UsageError, match="MG0002"):
            load_arrays(path)


def test_json_beyond_free_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"[" + b"{}," * 1000 + b"{}]"
    monkeypatch.setattr(budget, "free_bytes", lambda: 25 * len(text) - 1)
    with pytest.raises(ValueError, match="B of memory, but"):
        read_json(text)
    monkeypatch.setattr(budget, "free_bytes", lambda: 25 * len(text))
    assert len(read_json(text)) == 1001
