"""Tests of written files: they are replaced atomically, links are followed, and pipes and devices are not replaced."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import BinaryIO

import pytest

from meshgen.errors import UsageError
from meshgen.runtime.module_file.files import write_file, write_text


def test_write_through_link_updates_target_and_keeps_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real/page")  # the target does not exist yet
    for text in ("first", "second"):
        write_text(link, text)
        assert link.is_symlink()
        assert (tmp_path / "real/page").read_text() == text
    assert os.listdir(tmp_path / "real") == ["page"]


def test_write_to_pipe_does_not_replace_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    contents: list[bytes] = []
    reader = threading.Thread(target=lambda: contents.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through")
    reader.join(300)
    assert contents == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("path", ["/", "", ".", "..", "no/such/file", "x" * 300, "a\0b"])
def test_unwritable_path_is_rejected(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="MG0003"):
        write_text(Path(path), "text")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_failed_write_keeps_previous_content(fault: BaseException, tmp_path: Path) -> None:
    file_path = tmp_path / "page"
    file_path.write_text("before")

    def half(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise fault

    with pytest.raises((KeyboardInterrupt, UsageError)):
        write_file(file_path, half)
    assert file_path.read_text() == "before"
    assert os.listdir(tmp_path) == ["page"]


def test_longest_valid_file_name_is_accepted(tmp_path: Path) -> None:
    file_path = tmp_path / ("x" * 255)
    write_text(file_path, "text")
    assert file_path.read_text() == "text"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_rewritten_file_keeps_mode(mode: int, tmp_path: Path) -> None:
    file_path = tmp_path / "page"
    old = os.umask(0o022)
    try:
        write_text(file_path, "first")
        assert stat.S_IMODE(file_path.stat().st_mode) == 0o644
        file_path.chmod(mode)
        temporary_modes: list[int] = []
        write_file(file_path, lambda file: temporary_modes.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
    finally:
        os.umask(old)
    assert stat.S_IMODE(file_path.stat().st_mode) == mode
    assert temporary_modes == [mode]  # the temporary file already has the mode of the old file


def test_file_rewritten_by_root_keeps_owner(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    file_path = tmp_path / "page"
    write_text(file_path, "first")
    os.chown(file_path, 65534, 65533)
    write_text(file_path, "second")
    assert (file_path.stat().st_uid, file_path.stat().st_gid) == (65534, 65533)


def test_rewrite_removes_temporary_file_of_killed_writer(tmp_path: Path) -> None:
    page, other = tmp_path / "page", tmp_path / "other"
    program = (
        "import os, pathlib, sys; from meshgen.runtime.module_file.files import write_file\n"
        "write_file(pathlib.Path(sys.argv[1]), lambda file: (file.write(b'half'), file.flush(), os.kill(os.getpid(), 9)))"
    )
    for target in (page, other):
        assert subprocess.run([sys.executable, "-c", program, str(target)]).returncode == -9
    leftovers = set(os.listdir(tmp_path))
    assert len(leftovers) == 2
    write_text(page, "whole")
    (leftover,) = set(os.listdir(tmp_path)) - {"page"}
    assert leftover in leftovers
    write_text(other, "whole")
    assert set(os.listdir(tmp_path)) == {"page", "other"}


def test_write_keeps_temporary_file_of_active_writer(tmp_path: Path) -> None:
    file_path = tmp_path / "page"

    def outer(file: BinaryIO) -> None:
        write_text(file_path, "inner")
        file.write(b"outer")

    write_file(file_path, outer)
    assert file_path.read_text() == "outer" and os.listdir(tmp_path) == ["page"]


def test_archive_can_be_written_to_device() -> None:
    def archive(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as content, content.open("a", "w") as member:
            member.write(b"a")

    write_file(Path(os.devnull), archive)
