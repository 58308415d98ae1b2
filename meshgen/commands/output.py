"""The output of a command: text or one JSON document, notes, and progress."""

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

if TYPE_CHECKING:  # imported for types only: `meshgen doctor` must run although packages are missing
    from meshgen.pipeline import Progress
    from meshgen.reports.tables import Table

_CLEARED = "\r\x1b[K"  # clears the line of the terminal and moves the cursor to its start


class Output:
    """Writes the output of a command: text and tables, or with `--json` one document. Progress is shown on a terminal
    only.

    Names and texts from programs and modules are untrusted, so control characters are escaped.
    """

    def __init__(self, as_json: bool, *, is_silent: bool = False) -> None:
        """Create the output of one command.

        Args:
            as_json: write one document instead of text and tables.
            is_silent: write nothing, because another process of the run writes the report.
        """
        self.as_json, self.is_silent = as_json, is_silent
        # with --diagnostics: collects the diagnostics, which are written as one document at the end
        self.collected: list[tuple[str, Diagnostic]] | None = None

    def text(self, text: str) -> None:
        """Write text to stdout, except with `--json`."""
        if not (self.as_json or self.is_silent):
            write_out(printable(text if text.endswith("\n") else text + "\n"))

    def tables(self, *tables: Table) -> None:
        """Write tables to stdout with an empty line after each, except with `--json`."""
        if self.as_json or self.is_silent:
            return
        from meshgen.reports.tables import render

        for table in tables:
            self.text(render(table, width=self.width) + "\n\n")

    @property
    def width(self) -> int:
        """Return the width of the terminal in columns, or a default width if stdout is not a terminal."""
        from meshgen.reports.tables import WIDTH

        is_terminal = not sys.stdout.closed and sys.stdout.isatty()  # the user's program may have closed stdout
        return shutil.get_terminal_size().columns if is_terminal else WIDTH

    def document(self, value: Mapping[str, Any]) -> None:
        """Write the document to stdout if `--json` was given."""
        if self.as_json and not self.is_silent:
            write_out(document_text(value) + "\n")

    def note(self, text: str) -> None:
        """Write a line to stderr."""
        if self.collected is not None:
            self.collected.append(("note", Diagnostic("", text.removeprefix("note: "))))
        elif not self.is_silent:
            write_err(printable(text + "\n"))

    def warnings(self, diagnostics: Sequence[Diagnostic]) -> None:
        """Write warnings with their locations to stderr."""
        if self.collected is not None:
            self.collected += [("warning", diagnostic) for diagnostic in diagnostics]
            return
        for diagnostic in diagnostics:
            self.note(diagnostic.text("warning"))

    @contextmanager
    def progress(self) -> Generator[Progress | None]:
        """Yield a function that updates the status line on stderr, or None if stderr is not a terminal."""
        if not sys.stderr.isatty():
            yield None
            return
        try:
            yield lambda activity, done, total: write_err(f"{_CLEARED}{printable(activity)} ({done}/{total})")
        finally:
            write_err(_CLEARED)


def document_text(value: Mapping[str, Any]) -> str:
    """Return the document as JSON, in which numbers that are not finite become `null`."""
    try:
        return json.dumps(value, indent=1, default=plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(json.loads(json.dumps(value, default=plain))), indent=1)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain(value: Any) -> Any:
    """Convert NumPy scalars to Python scalars, for `json.dumps`."""
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} has no JSON form")
