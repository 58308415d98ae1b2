"""Every block of every page runs: README.md and docs/*.md, each in an empty folder, its blocks in order.

- A block whose first line is a comment with a file's name (`# model.py`, `// block.mlir`) is that file.
- `python` runs, in one namespace per page; `>>>` is not used.
- `console` has commands after `$ `, which bash runs with the installed `meshgen` (this process where bash has nothing to do), and what they print:
  shown lines must occur in it in this order, and `...` stands for any number of lines. Output that differs from run to run, such as measured seconds, is not shown there.
- `sh` has commands only, one a line; what they install is there already.
- Other languages are for people: output, and what needs hardware or programs that tests do not have.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from packaging.requirements import Requirement

from meshgen.cli import main
from meshgen.errors import MissingError
from meshgen.runtime.module_file import tensors
from tests.sources import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?:#|//) (\S+\.(?:py|mlir|toml))\n")
LANGUAGES = {"python", "console", "sh", "mlir", "toml", "text", "c", ""}
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OPTIONAL = {Requirement(each).name.replace("-", "_") for extra in EXTRAS.values() for each in extra} - {"pytest"}


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """First line, language and text of each."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        yield text.count("\n", 0, found.start(2)), found[1], found[2]


def save_file(arrays: dict[str, np.ndarray], path: str) -> None:
    """That of `safetensors`, which need not be installed."""
    Path(path).write_bytes(tensors.encode(arrays))


def has_programs(page: Path) -> bool:
    return any(language in ("python", "console", "sh") for _, language, _ in blocks(page))


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch copies its own
@pytest.mark.filterwarnings("ignore:::torch")
@pytest.mark.parametrize("page", [page for page in PAGES if has_programs(page)], ids=lambda page: page.stem)
def test_every_block_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    space = ModuleType(f"page_{page.stem}")
    monkeypatch.setitem(sys.modules, space.__name__, space)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", SimpleNamespace(save_file=save_file))  # type: ignore[arg-type]
    for line, language, text in blocks(page):
        if named := FILE.match(text):
            Path(named[1]).write_text(text)
            forget(Path(named[1]).stem, monkeypatch)
        elif language == "python":
            run_python(page, line, text, space)
        elif language in ("console", "sh"):
            for command, shown in commands(text) if language == "console" else lines(text):
                run_command(command, shown, f"{page.name}:{line}")


def forget(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page imports its own file of this name, and leaves none to other tests."""
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    del sys.modules[module]


def run_python(page: Path, line: int, text: str, space: ModuleType) -> None:
    """Faults name the line of the page."""
    try:
        exec(compile("\n" * line + text, str(page), "exec"), space.__dict__)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{page.name} needs {missing.name}")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands, and the lines that are shown below each."""
    assert text.startswith("$ "), text
    for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        joined = each.replace("\\\n", "")
        command, *shown = joined.splitlines()
        yield command, shown


def lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Commands without output."""
    joined = text.replace("\\\n", "").splitlines()
    yield from ((line, []) for line in joined if line and not line.startswith(("#", "pip install ")))


def words_of(command: str) -> list[str] | None:
    """The words of a command that is `meshgen` and nothing for a shell to do; None for any other."""
    split = shlex.shlex(command, posix=True, punctuation_chars=True)
    split.whitespace_split = True
    words = list(split)
    is_plain = words[0] == "meshgen" and not any(set(word) <= set("();<>|&") for word in words)
    return words[1:] if is_plain else None


def done_here(words: list[str]) -> subprocess.CompletedProcess[str]:
    """What a command does, without a process of its own, which would import everything again."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def done_by_shell(command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=300)


def run_command(command: str, shown: list[str], place: str) -> None:
    words = words_of(command)
    done = done_by_shell(command) if words is None else done_here(words)
    if done.returncode == MissingError.exit_code:
        pytest.skip(f"{place}: {done.stderr}")
    is_refused = any(line.startswith("error") for line in shown)  # as the page says
    assert (done.returncode != 0) == is_refused, f"{place}: {command}\n{done.stderr}"
    missing = not_printed(shown, (done.stdout + done.stderr).splitlines())
    assert missing is None, f"{place}: {command} does not print\n{missing}\nbut\n{done.stdout}{done.stderr}"


def not_printed(shown: list[str], printed: list[str]) -> str | None:
    """The first shown line that is not where it should be."""
    places, skipping = [line.rstrip() for line in printed], True
    for line in map(str.rstrip, shown):
        if line == "...":
            skipping = True
            continue
        found = line in places if skipping else places[:1] == [line]
        if not found:
            return line
        places, skipping = places[places.index(line) + 1 :], False
    return None


def test_shown_lines_are_compared() -> None:
    printed = ["a", "b ", "c", "d"]
    assert not_printed(["b", "c"], printed) is None
    assert not_printed(["a", "...", "d"], printed) is None
    assert not_printed(["a", "c"], printed) == "c"
    assert not_printed(["x"], printed) == "x"
    assert not_printed(["c", "...", "a"], printed) == "a"


def test_commands_are_found() -> None:
    assert list(commands("$ a \\\n  -b\nsaid\n$ c\n")) == [("a   -b", ["said"]), ("c", [])]
    assert list(lines("pip install x\na \\\n  -b\n# c\n\nd\n")) == [("a   -b", []), ("d", [])]


def test_words_of_commands_without_a_shell() -> None:
    assert words_of("meshgen run m.mgx --mesh 'dp=2|4'   --arg f32[8] # why") == [
        "run",
        "m.mgx",
        "--mesh",
        "dp=2|4",
        "--arg",
        "f32[8]",
    ]
    assert [words_of(each) for each in ("meshgen run m.mgx | tail", "meshgen doctor > f", "python -c 'x'")] == [
        None
    ] * 3


def test_blocks_have_languages_that_are_known() -> None:
    unknown = [
        f"{page.name}:{line}: {name}" for page in PAGES for line, name, _ in blocks(page) if name not in LANGUAGES
    ]
    assert unknown == [], "`console` runs; what cannot run in a test is `text`"
