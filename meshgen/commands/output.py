"""The output of a command: text or one document, notes, progress."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from meshgen.commands.streams import write_err, write_out
from meshgen.errors import Diagnostic
from meshgen.printable import printable

if TYPE_CHECKING:  # `meshgen doctor` runs where packages are missing
    from meshgen.pipeline import Progress
    from meshgen.reports.tables import Table

_CLEARED = "\r\x1b[K"  # the line of a terminal, with the cursor at its start


class Output:
    """The output streams of a command: text and tables, or with `--json` one document; progress only on a terminal.

    Names and texts of a program or module are untrusted: control characters are escaped.
    """

    def __init__(self, as_json: bool, *, is_silent: bool = False) -> None:
        """`is_silent`: write nothing, because another process of the program reports for this one."""
        self.as_json, self.is_silent = as_json, is_silent
        self.collected: list[tuple[str, Diagnostic]] | None = None  # with --diagnostics: they are written at the end

    def text(self, text: str) -> None:
        """Write text to stdout, unless with `--json`."""
        if not (self.as_json or self.is_silent):
            write_out(printable(text if text.endswith("\n") else text + "\n"))

    def tables(self, *tables: Table) -> None:
        """Write tables to stdout with an empty line after each, unless with `--json`."""
        if self.as_json or self.is_silent:
            return
        from meshgen.reports.tables import render

        for table in tables:
            self.text(render(table, width=self.width) + "\n\n")

    @property
    def width(self) -> int:
        """The columns of the terminal, or of a file."""
        from meshgen.reports.tables import WIDTH

        is_terminal = not sys.stdout.closed and sys.stdout.isatty()  # the program that was read may have closed it
        return shutil.get_terminal_size().columns if is_terminal else WIDTH

    def document(self, value: Mapping[str, Any]) -> None:
        """With `--json`, write the document to stdout."""
        if self.as_json and not self.is_silent:
            write_out(document_text(value) + "\n")

    def note(self, text: str) -> None:
        """Write a line to stderr."""
        if self.collected is not None:
            self.collected.append(("note", Diagnostic("", text.removeprefix("note: "))))
        elif not self.is_silent:
            write_err(printable(text + "\n"))

    def warnings(self, found: Sequence[Diagnostic]) -> None:
        """Write warnings to stderr, each with its location."""
        if self.collected is not None:
            self.collected += [("warning", each) for each in found]
            return
        for each in found:
            self.note(each.text("warning"))

    @contextmanager
    def progress(self) -> Generator[Progress | None]:
        """A status line on a terminal; None elsewhere."""
        if not sys.stderr.isatty():
            yield None
            return
        try:
            yield lambda what, done, total: write_err(f"{_CLEARED}{printable(what)} ({done}/{total})")
        finally:
            write_err(_CLEARED)


def document_text(value: Mapping[str, Any]) -> str:
    """The document as JSON; numbers that are not finite become `null`."""
    try:
        return json.dumps(value, indent=1, default=plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(json.loads(json.dumps(value, default=plain))), indent=1)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
