"""Files are written whole, through links, and devices stay what they are."""

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


def test_what_a_link_names_is_written_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real/page")  # which is not there yet
    for text in ("first", "second"):
        write_text(link, text)
        assert link.is_symlink()
        assert (tmp_path / "real/page").read_text() == text
    assert os.listdir(tmp_path / "real") == ["page"]


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    write_text(pipe, "through")
    reader.join(300)
    assert found == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("path", ["/", "", ".", "..", "no/such/file", "x" * 300, "a\0b"])
def test_places_that_cannot_be_written_are_refused(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="MG0003"):
        write_text(Path(path), "text")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_what_was_there_stays_when_writing_ends_early(fault: BaseException, tmp_path: Path) -> None:
    place = tmp_path / "page"
    place.write_text("before")

    def half(file: object) -> None:
        file.write(b"half")  # type: ignore[attr-defined]
        raise fault

    with pytest.raises((KeyboardInterrupt, UsageError)):
        write_file(place, half)
    assert place.read_text() == "before"
    assert os.listdir(tmp_path) == ["page"]


def test_a_long_name_that_the_system_takes_is_no_fault(tmp_path: Path) -> None:
    place = tmp_path / ("x" * 255)
    write_text(place, "text")
    assert place.read_text() == "text"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755])
def test_a_file_that_is_written_again_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    place = tmp_path / "page"
    old = os.umask(0o022)
    try:
        write_text(place, "first")
        assert stat.S_IMODE(place.stat().st_mode) == 0o644
        place.chmod(mode)
        seen: list[int] = []
        write_file(place, lambda file: seen.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
    finally:
        os.umask(old)
    assert stat.S_IMODE(place.stat().st_mode) == mode
    assert seen == [mode]  # already while it is written


def test_a_file_that_root_writes_again_keeps_its_owner(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root gives files away")
    place = tmp_path / "page"
    write_text(place, "first")
    os.chown(place, 65534, 65533)
    write_text(place, "second")
    assert (place.stat().st_uid, place.stat().st_gid) == (65534, 65533)


def test_what_a_killed_writer_left_goes_when_its_file_is_written_again(tmp_path: Path) -> None:
    place, other = tmp_path / "page", tmp_path / "other"
    program = (
        "import os, pathlib, sys; from meshgen.runtime.module_file.files import write_file\n"
        "write_file(pathlib.Path(sys.argv[1]), lambda file: (file.write(b'half'), file.flush(), os.kill(os.getpid(), 9)))"
    )
    for each in (place, other):
        assert subprocess.run([sys.executable, "-c", program, str(each)]).returncode == -9
    left = set(os.listdir(tmp_path))
    assert len(left) == 2
    write_text(place, "whole")
    (kept,) = set(os.listdir(tmp_path)) - {"page"}
    assert kept in left
    write_text(other, "whole")
    assert set(os.listdir(tmp_path)) == {"page", "other"}


def test_what_another_is_writing_stays(tmp_path: Path) -> None:
    place = tmp_path / "page"

    def outer(file: BinaryIO) -> None:
        write_text(place, "inner")
        file.write(b"outer")

    write_file(place, outer)
    assert place.read_text() == "outer" and os.listdir(tmp_path) == ["page"]


def test_an_archive_can_go_to_a_device() -> None:
    def archive(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w") as content, content.open("a", "w") as member:
            member.write(b"a")

    write_file(Path(os.devnull), archive)
