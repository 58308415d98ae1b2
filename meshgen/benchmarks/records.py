"""Records of all suites, with the one writer and reader of their files.

A record is a flat JSON object. The fields in `IDENTITY` say what was measured: two records of different runs are
compared if these are equal. All other numbers are figures, and their names end in the unit (`us`, `seconds`, `bytes`,
`gbs`).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from meshgen.budget import read_file
from meshgen.errors import Diagnostic, UsageError, system_reason
from meshgen.reports.tables import Table
from meshgen.runtime.module_file.files import write_text

FORMAT = "meshgen-bench/1"
FORMATS = ("json", "csv", "markdown")
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown"}
# bytes of the largest file that is read (chosen: a run has some thousand records of some hundred bytes)
MOST_FILE_BYTES = 1 << 26
IDENTITY = (
    "suite", "what", "program", "kernel", "target", "engine", "group", "ranks", "per_host", "size", "count", "type",
    "redop", "root", "layers", "devices", "cache", "by",
)  # fmt: skip
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Run:
    """The records of one run, and the origin of the figures: hardware, versions, command."""

    environment: Mapping[str, Any]
    records: Sequence[Record]


def columns_of(records: Sequence[Record]) -> list[str]:
    """Return the fields of all records, in the order in which they first occur."""
    return list(dict.fromkeys(key for record in records for key in record))


def cell(value: Any) -> str:
    """Format a value with four digits. Returns an empty text for None, which means not measured."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "NO"
        case float():
            return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
        case Mapping():
            return " ".join(f"{count} {name}" for name, count in cast("Mapping[str, Any]", value).items())
        case _:
            return str(value)


def tables(records: Sequence[Record], titles: Mapping[str, str]) -> Table:
    """Return a table of the fields that have a title and occur in `records`, in the order of `titles`."""
    shown = [key for key in titles if any(record.get(key) is not None for record in records)]
    rows = [[cell(record.get(key)) for key in shown] for record in records]
    is_text = [any(isinstance(record.get(key), str | Mapping) for record in records) for key in shown]
    left = [titles[key] for key, is_left_aligned in zip(shown, is_text, strict=True) if is_left_aligned]
    return Table("", [titles[key] for key in shown], rows, left)


def text_of(run: Run, form: str, titles: Mapping[str, str]) -> str:
    """Format a run as `json`, `csv` (the environment in lines that start with `#`) or `markdown`."""
    if form == "json":
        return json.dumps({"format": FORMAT, "environment": run.environment, "records": run.records}, indent=1) + "\n"
    facts = [f"{key}: {cell(value)}" for key, value in run.environment.items()]
    if form == "csv":
        out = io.StringIO()
        out.writelines(f"# {fact}\n" for fact in facts)
        writer = csv.DictWriter(out, columns_of(run.records), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _flat(value) for key, value in record.items()} for record in run.records)
        return out.getvalue()
    table = tables(run.records, titles)
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    head = [*(f"- {fact}" for fact in facts), ""]
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def _flat(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, Mapping) else value


def write(run: Run, path: Path, form: str, titles: Mapping[str, str]) -> None:
    """Write a run to a file. Without `form`, the suffix of the file decides, or else JSON. Raises UsageError MG0003."""
    write_text(path, text_of(run, form or _SUFFIXES.get(path.suffix, "json"), titles))


def read(path: Path) -> Run:
    """Read a JSON file of `write`. Raises UsageError: MG0002 if it cannot be read, MG0001 if it contains no run of this
    version.
    """
    try:
        content = read_file(path, MOST_FILE_BYTES)
    except (OSError, ValueError) as error:
        raise UsageError(Diagnostic("MG0002", f"cannot read {path}: {system_reason(error)}")) from error
    try:
        value: Any = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    run = cast("Mapping[str, Any]", value if isinstance(value, dict) else {})
    environment, records = run.get("environment") or {}, cast("list[Any]", run.get("records"))
    is_run = run.get("format") == FORMAT and all(isinstance(*pair) for pair in ((environment, dict), (records, list)))
    if not is_run or not all(_is_record(record) for record in records):
        hint = "meshgen bench SUITE --output RUN.json writes them"
        raise UsageError(Diagnostic("MG0001", f"{path} has no measurements of this version", hint=hint))
    return Run(environment, records)


def _is_record(value: Any) -> bool:
    """Whether `value` is a record whose fields have the types that comparisons need."""
    if not isinstance(value, dict):
        return False
    record = cast("Record", value)
    is_named = all(isinstance(record.get(key), str | int | float | None) for key in IDENTITY)
    return is_named and all(type(record[key]) in (int, float) for key in record if key.endswith(("spread", "samples")))


def identity(record: Record) -> tuple[tuple[str, Any], ...]:
    """Return the identity of a record as pairs of field and value."""
    return tuple((key, record[key]) for key in IDENTITY if record.get(key) is not None)
