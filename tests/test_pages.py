"""Every block of every page runs: README.md and docs/*.md. A page has an empty folder, in which its blocks run in
order.

- A block whose first line is a comment with a file name (`# model.py`, `// block.mlir`) is written to that file.
- `python` blocks of a page share one namespace; `>>>` is not used.
- `console` blocks have commands after `$ `, each followed by its output. bash runs them with the installed `meshgen` (a
  command that needs no shell runs in this process). The shown lines must occur in the output in this order, and `...`
  stands for any number of lines. Output that differs from run to run, such as measured seconds, is not shown.
- `sh` blocks have only commands, one per line. Packages that they install must be installed already.
- Blocks in other languages are not run: output, and code that needs hardware or programs that tests lack.
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
OPTIONAL = {Requirement(text).name.replace("-", "_") for extra in EXTRAS.values() for text in extra} - {"pytest"}


def blocks(page: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the number of the first line, the language and the text of each block."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start(2)), match[1], match[2]


def save_file(arrays: dict[str, np.ndarray], path: str) -> None:
    """Stand in for `safetensors.numpy.save_file`, because that package is optional."""
    Path(path).write_bytes(tensors.encode(arrays))


def has_programs(page: Path) -> bool:
    return any(language in ("python", "console", "sh") for _, language, _ in blocks(page))


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch copies a class of its own that is deprecated
@pytest.mark.filterwarnings("ignore:::torch")
@pytest.mark.parametrize("page", [page for page in PAGES if has_programs(page)], ids=lambda page: page.stem)
def test_every_block_of_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    """Forget the imported module of this name, so that the page imports its own file, and forget that file after the
    test.
    """
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    del sys.modules[module]


def run_python(page: Path, line: int, text: str, space: ModuleType) -> None:
    """Run a block such that tracebacks have the line of the page."""
    try:
        exec(compile("\n" * line + text, str(page), "exec"), space.__dict__)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in OPTIONAL:
            raise
        pytest.skip(f"{page.name} needs {missing.name}")


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a `console` block with the output lines that are shown below it."""
    assert text.startswith("$ "), text
    for entry in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        joined = entry.replace("\\\n", "")
        command, *shown = joined.splitlines()
        yield command, shown


def lines(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of an `sh` block, with no output lines."""
    joined = text.replace("\\\n", "").splitlines()
    yield from ((line, []) for line in joined if line and not line.startswith(("#", "pip install ")))


def words_of(command: str) -> list[str] | None:
    """Return the words of a `meshgen` command that needs no shell, or None for other commands."""
    split = shlex.shlex(command, posix=True, punctuation_chars=True)
    split.whitespace_split = True
    words = list(split)
    is_plain = words[0] == "meshgen" and not any(set(word) <= set("();<>|&") for word in words)
    return words[1:] if is_plain else None


def run_in_process(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, because a new process would import everything again."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def run_in_shell(command: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)}
    return subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=300)


def run_command(command: str, shown: list[str], location: str) -> None:
    words = words_of(command)
    completed = run_in_shell(command) if words is None else run_in_process(words)
    if completed.returncode == MissingError.exit_code:
        pytest.skip(f"{location}: {completed.stderr}")
    is_refused = any(line.startswith("error") for line in shown)  # the page shows an error, so the command must fail
    assert (completed.returncode != 0) == is_refused, f"{location}: {command}\n{completed.stderr}"
    missing = not_printed(shown, (completed.stdout + completed.stderr).splitlines())
    assert missing is None, (
        f"{location}: {command} does not print\n{missing}\nbut\n{completed.stdout}{completed.stderr}"
    )


def not_printed(shown: list[str], printed: list[str]) -> str | None:
    """Return the first line of `shown` that `printed` lacks after the lines before it, or None if all lines are in
    order.
    """
    remaining, skipping = [line.rstrip() for line in printed], True
    for line in map(str.rstrip, shown):
        if line == "...":
            skipping = True
            continue
        is_printed = line in remaining if skipping else remaining[:1] == [line]
        if not is_printed:
            return line
        remaining, skipping = remaining[remaining.index(line) + 1 :], False
    return None


def test_shown_lines_must_occur_in_order() -> None:
    printed = ["a", "b ", "c", "d"]
    assert not_printed(["b", "c"], printed) is None
    assert not_printed(["a", "...", "d"], printed) is None
    assert not_printed(["a", "c"], printed) == "c"
    assert not_printed(["x"], printed) == "x"
    assert not_printed(["c", "...", "a"], printed) == "a"


def test_commands_are_split_from_shown_output() -> None:
    assert list(commands("$ a \\\n  -b\nsaid\n$ c\n")) == [("a   -b", ["said"]), ("c", [])]
    assert list(lines("pip install x\na \\\n  -b\n# c\n\nd\n")) == [("a   -b", []), ("d", [])]


def test_words_are_returned_only_for_commands_without_shell() -> None:
    assert words_of("meshgen run m.mgx --mesh 'dp=2|4'   --arg f32[8] # why") == [
        "run",
        "m.mgx",
        "--mesh",
        "dp=2|4",
        "--arg",
        "f32[8]",
    ]
    assert [words_of(command) for command in ("meshgen run m.mgx | tail", "meshgen doctor > f", "python -c 'x'")] == [
        None
    ] * 3


def test_blocks_have_known_languages() -> None:
    unknown = [
        f"{page.name}:{line}: {name}" for page in PAGES for line, name, _ in blocks(page) if name not in LANGUAGES
    ]
    assert unknown == [], "`console` runs; what cannot run in a test is `text`"
