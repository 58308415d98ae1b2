"""`python -m bench.sensitivity [GROUP | FIELD ... | --table FILE]`: which fields of the cost model decide the plans of
this repository's programs. No GPU is needed.

Each number of the cost model is halved and doubled, one at a time, and all programs are planned again in another
process. Of a ratio near 1, its distance from 1 is halved and doubled; of a tuple, its elements. Data sheets of devices
are not changed.

The output is one JSON record per line: the number of programs whose plan changes (its collectives, kernels, launch
order or buffers; predicted times do not count), and the changes of their moved bytes and predicted steps. `--table`
prints the records in FILE as a Markdown table. Groups are those of the cost model (`links`, `propagation`, ...); fields
have the form `links.peer_seconds`; the default is all fields.

The programs are `examples`, `tests/data`, seeds 0 to 39 of `meshgen check --random`, and transformers
(`meshgen/benchmarks/transformers.py`, `meshgen/benchmarks/stack.py`).
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from meshgen.cost_model import model
from meshgen.cost_model.fields import Entry, entries

ROOT = Path(__file__).resolve().parents[1]
TARGET = "cuda:sm_90"
SEEDS = 40
SHOWN = 4  # chosen: the most programs that a row of the table names
JOBS = 2
TRANSFORMERS = (
    "forward_tp_4096_8",
    "forward_tp_sp_4096_8",
    "forward_fsdp_4096_64",
    "forward_ep_4096_8",
    "train_dp_tp_4096_8",
)
# Slow modules that do not read the cost model. They are imported once, before processes are forked.
SLOW_IMPORTS = ("numpy", "ml_dtypes", "xdsl.dialects.builtin", "xdsl.dialects.func", "xdsl.parser", "xdsl.printer")
# Parts of a schedule's text that differ between equal plans: predicted times and reasons.
NOT_THE_PLAN = re.compile(r'why = (?:"[^"]*"|\[[^\]]*\])|source = "[^"]*"|\d+\.\d+(?:e[-+]?\d+)?')


class Plan(NamedTuple):
    """The plan of a program: a digest of its text without times, the bytes that a device sends, and the predicted step
    in seconds.
    """

    digest: str
    ring_bytes: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """The changes of plans if a field has another value. `bytes` and `step` are the smallest and largest relative
    change among the programs in `changed`.
    """

    field: str
    value: Any
    tried: Any
    programs: int
    changed: tuple[str, ...]
    bytes: tuple[float, float]
    step: tuple[float, float]


def other_values(entry: Entry) -> tuple[Any, ...]:
    """Return half and twice the value of a field, or nothing if the value is not a number."""
    if isinstance(entry.value, tuple):
        return tuple(tuple(_times(element, factor, "") for element in entry.value) for factor in (0.5, 2))
    if not isinstance(entry.value, (int, float)):
        return ()
    candidates = (_times(entry.value, factor, entry.unit) for factor in (0.5, 2))
    return tuple(element for element in candidates if element != entry.value)


def _times(value: float, factor: float, unit: str) -> float:
    if unit == "ratio":
        return 1 + (value - 1) * factor
    return max(1, int(value * factor)) if isinstance(value, int) else value * factor


def texts() -> dict[str, str]:
    """Return the texts of the programs by name. They do not depend on the cost model."""
    from meshgen.benchmarks.stack import stack
    from meshgen.mlir.text import print_text
    from meshgen.testing.random_programs import program_of

    paths = [*sorted((ROOT / "examples").glob("*.mlir")), *sorted((ROOT / "tests" / "data").rglob("*.mlir"))]
    programs_by_name = {str(path.relative_to(ROOT)): path.read_text() for path in paths}
    programs_by_name |= {f"seed {seed}": print_text(program_of(seed)) for seed in range(SEEDS)}
    return programs_by_name | {
        "gpt_stack": stack(2, 2, 4),
        **{program.name: program.text() for program in _transformers()},
    }


def _transformers() -> list[Any]:
    from meshgen.benchmarks.transformers import programs

    return [program for program in programs() if program.name in TRANSFORMERS]


def planned(programs: Mapping[str, str]) -> dict[str, Plan | str]:
    """Return the plan of each program, or the diagnostic code of a refused program."""
    from meshgen import api
    from meshgen.errors import MeshgenError

    meshes = {program.name: program.mesh for program in _transformers()}
    plans: dict[str, Plan | str] = {}
    for name, text in programs.items():
        try:
            executable = api.plan(text, meshes.get(name), target=TARGET)
            # without the first line, which has the module's attributes
            schedule = executable.as_text("schedule").partition("\n")[2]
            digest = hashlib.sha256(NOT_THE_PLAN.sub("", schedule).encode()).hexdigest()
            plans[name] = Plan(digest, executable.cost.ring_bytes, executable.plan.step_seconds)
        except MeshgenError as error:
            plans[name] = error.diagnostics[0].code
    return plans


def _with_values(values: Mapping[str, Any], programs: Mapping[str, str]) -> dict[str, Plan | str]:
    """Plan the programs with `values` for fields of the cost model. Call this in a forked process that has imported no
    pass yet, because passes read the cost model at import.
    """
    assert "meshgen.mesh" not in sys.modules, "passes have read the cost model already"
    model.DEFAULT = model.DEFAULT.with_values(values)
    return planned(programs)


def rows(groups: Sequence[str]) -> Iterator[Row]:
    for name in SLOW_IMPORTS:
        import_module(name)
    tried = [
        (entry, value)
        for entry in entries(model.DEFAULT)
        if entry.name.count(".") == 1
        and (not groups or not {entry.name, entry.name.partition(".")[0]}.isdisjoint(groups))
        for value in other_values(entry)
    ]
    with multiprocessing.get_context("fork").Pool(JOBS, maxtasksperchild=1) as pool:
        programs = pool.apply(texts)
        usual = pool.apply(_with_values, ({}, programs))
        programs = {name: text for name, text in programs.items() if not isinstance(usual[name], str)}
        pending = [pool.apply_async(_with_values, ({entry.name: value}, programs)) for entry, value in tried]
        for (entry, value), plans in zip(tried, pending, strict=True):
            yield _row(entry, value, usual, plans.get())


def _row(entry: Entry, value: Any, usual: Mapping[str, Plan | str], plans: Mapping[str, Plan | str]) -> Row:
    changed = {
        name: (before, after) for name, after in plans.items() if _digest(before := usual[name]) != _digest(after)
    }
    pairs = [pair for pair in changed.values() if isinstance(pair[0], Plan) and isinstance(pair[1], Plan)]
    moved = [after.ring_bytes / max(before.ring_bytes, 1) - 1 for before, after in pairs]
    steps = [after.seconds / before.seconds - 1 for before, after in pairs if before.seconds]
    return Row(entry.name, entry.value, value, len(plans), tuple(changed), _ends(moved), _ends(steps))


def _digest(plan: Plan | str) -> str:
    return plan if isinstance(plan, str) else plan.digest


def _ends(changes: Sequence[float]) -> tuple[float, float]:
    return round(min(changes, default=0.0), 4), round(max(changes, default=0.0), 4)


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table of the fields and values that change at least one plan."""
    from meshgen.reports.cost_model import value_text

    lines = ["| field | value | tried | plans | bytes moved | predicted step | programs |", "| --- " * 7 + "|"]
    for record in records:
        if record["changed"]:
            changes = [" to ".join(f"{end:+.1%}" for end in sorted({*record[name]})) for name in ("bytes", "step")]
            programs = ", ".join(record["changed"][:SHOWN]) + (", ..." if len(record["changed"]) > SHOWN else "")
            values = [value_text(record[name]) for name in ("value", "tried")]
            cells = [f"`{record['field']}`", *values, len(record["changed"]), *changes, programs]
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main(*words: str) -> int:
    if words[:1] == ("--table",):
        records = [json.loads(line) for line in Path(words[1]).read_text().splitlines()]
        sys.stdout.write(table(records) + "\n")
        return 0
    for row in rows(words):
        sys.stdout.write(json.dumps(asdict(row)) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
