"""Files are written whole, through links, and devices stay what they are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from meshgen.errors import UsageError
from meshgen.runtime.files import write_file, write_text


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
    reader.join(10)
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
