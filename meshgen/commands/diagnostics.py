"""Machine-readable diagnostics: `--diagnostics json` and `--diagnostics sarif` write one document to stderr."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from meshgen.commands.streams import write_err
from meshgen.errors import CODES, Diagnostic, Location, MeshgenError

if TYPE_CHECKING:
    from meshgen.commands.output import Output

FORMATS = ("text", "json", "sarif")
HELP = "how warnings and faults are written to stderr: text, or one document for editors and CI (default: text)"
LeveledDiagnostic = tuple[str, Diagnostic]  # the level (`error`, `warning` or `note`), and the diagnostic


def run_with_diagnostics(form: str, output: Output, run: Callable[[], int], as_refusal: Callable[[BaseException], MeshgenError | None]) -> int:  # fmt: skip
    """Run a command, write its warnings, notes and error as one document in format `form`, and return the exit code.

    Args:
        as_refusal: converts an exception to an error for the user. For an internal error it returns None, and the
            exception is raised again.
    """
    diagnostics: list[LeveledDiagnostic] = []
    output.collected = diagnostics
    try:
        code = run()
    except Exception as error:
        refusal = as_refusal(error)
        if refusal is None:
            raise
        diagnostics += [("error", diagnostic) for diagnostic in refusal.diagnostics]
        code = refusal.exit_code
        if output.as_json:
            output.document(
                {
                    "ok": False,
                    "exit_code": code,
                    "diagnostics": [record(diagnostic) for diagnostic in refusal.diagnostics],
                }
            )
    document = (
        sarif(diagnostics)
        if form == "sarif"
        else {"diagnostics": [{"level": level} | record(diagnostic) for level, diagnostic in diagnostics]}
    )
    write_err(json.dumps(document, indent=1) + "\n")
    return code


def record(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as a JSON-serializable dict."""
    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        "location": asdict(diagnostic.loc) if diagnostic.loc else None,
        "notes": [{"message": text, "location": asdict(loc) if loc else None} for text, loc in diagnostic.notes],
        "hint": diagnostic.hint,
    }


def sarif(diagnostics: Sequence[LeveledDiagnostic]) -> dict[str, Any]:
    """Return diagnostics as a document in SARIF 2.1.0 (Static Analysis Results Interchange Format, OASIS, 2020)."""
    from meshgen import __version__

    codes = dict.fromkeys(diagnostic.code for _, diagnostic in diagnostics if diagnostic.code in CODES)
    rules = [{"id": code, "shortDescription": {"text": CODES[code]}} for code in codes]
    driver = {"name": "meshgen", "version": __version__, "rules": rules}
    return {
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": [_result(*diagnostic) for diagnostic in diagnostics]}],
    }


def _result(level: str, diagnostic: Diagnostic) -> dict[str, Any]:
    text = f"{diagnostic.message}. {diagnostic.hint}" if diagnostic.hint else diagnostic.message
    result: dict[str, Any] = {"level": level, "message": {"text": text}}
    if diagnostic.code in CODES:
        result["ruleId"] = diagnostic.code
    if diagnostic.loc:
        result["locations"] = [_location(diagnostic.loc)]
    notes = [_location(loc) | {"message": {"text": text}} for text, loc in diagnostic.notes if loc]
    return result | ({"relatedLocations": notes} if notes else {})


def _location(loc: Location) -> dict[str, Any]:
    """Return a source location in SARIF form. Lines and columns count from 1. An unknown line or column (0) is
    omitted.
    """
    region = {name: position for name, position in (("startLine", loc.line), ("startColumn", loc.column)) if position}
    physical_location: dict[str, Any] = {"artifactLocation": {"uri": loc.file}} | (
        {"region": region} if loc.line else {}
    )
    return {"physicalLocation": physical_location}
