"""Writes what follows from the code: pages on the Python interface, operations, functions, diagnostics, command line, cost model, passes; types of names.

python docs/generate.py          writes them; `tests/test_docs.py` fails while they are out of date
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

from meshgen.cli import COMMANDS, add_common, main
from meshgen.errors import CODES
from meshgen.mlir.families import dialects
from meshgen.ops.registry import OPS, with_meaning
from meshgen.reports.cost_model import COLUMNS, cost_model_rows
from meshgen.sharding import partition
from meshgen.sharding.partitioners.registry import PARTITIONERS

PLACE = Path(__file__).parent
sys.path.insert(0, str(PLACE))
from api_page import api_page  # noqa: E402
from architecture_pictures import pictures  # noqa: E402
from decisions_page import decisions_page  # noqa: E402
from faults import FAULTS, Fault  # noqa: E402  (files beside this one, which is no package)
from functions_page import functions_page, stub  # noqa: E402
from kernel_examples import kernels_of  # noqa: E402
from passes_page import passes_page  # noqa: E402
from questions import questions_page  # noqa: E402
from stage_excerpts import with_excerpts  # noqa: E402
from trend_page import records, trend_chart, trend_page  # noqa: E402
from types_page import types_page  # noqa: E402

NOTE = "<!-- written by docs/generate.py: change the code, then run `make docs` -->\n"
CONTROL = ("case", "if", "while")  # partitioned by `partition` itself
_CONTROL_NOTE = (
    "`case`, `if` and `while` are run by the schedule, with kernels inside their regions; loops of a known number of trips become `scan`. "
    "The regions of `reduce_region`, `reduce_window`, `scatter`, `select_and_scatter` and `sort` may have element-wise operations only. "
    "A `scatter` combines the updates of one place in the order in which they are given, or, where more than 4,096 are of few rows, as a reduction does, and a "
    "`sort` is stable: all are the same bits on every run. "
    "On a GPU complex numbers are pairs of real ones; programs that factorise complex matrices (`lapack`) are refused (MG0301), and so are Fourier transforms "
    "along a dim with a prime factor above 2,048.\n"
)
_NUMBERS_NOTE = """
Kernels compute with subnormal numbers, signed zeros, infinities and NaN as IEEE 754 has them, and bf16, f16 and 8-bit floats in f32, rounded once per
operation that is not fused with the next. What is not exact is right to 4 units in the last place of the type, which is what `check` allows
(`meshgen/ops/tolerance`), and tested as PTX over the whole range (`tests/codegen/test_device_functions.py`): f32 quotients are `div.full` (2 units), functions
of f32 correct what the device's approximations lose, and `power`, the inverse and hyperbolic functions, `lgamma`, `digamma`, `polygamma`, `zeta` and `bessel_i1e` are computed
in f64 whatever the type. For f64 the last five are right to 128 unit roundoffs of the terms that they add up, and powers to as many units as the result's
logarithm has. `zeta` is NaN for q below -12. Remainders are exact for every quotient; integers divided by 0, and the least by -1, give what XLA defines.

Dots and convolutions of f32 have StableHLO's `precision` as XLA has it on GPUs, where the higher one of both operands counts: DEFAULT multiplies in tf32
on tensor cores (operands are cut to 11 bits of significand, so each is off by up to 2^-10 of itself), HIGH adds up three products of tf32 (2^-22), HIGHEST is f32 on
the FMA pipes. Sums are in f32. Mixed operands are converted to f32 first, from which tf32 takes no bits of bf16 or f16. An `algorithm` of `dot_general` rounds
the operands to the types that it names, f32 is HIGHEST, and several primitive operations are HIGH or HIGHEST. What comes from `linalg` and `tosa` is HIGHEST, as these say f32. `precision=` of
`compile` and `--precision` set one for the whole program, by the names of JAX's `jax_default_matmul_precision`; `multiplied_as` of `explain --json` and of a module's
report says what was taken. sm_90 keeps about 14 bits of sums of products of 8-bit floats: those of at most 128 elements of the contracted dims are added in
f32. The CPU multiplies f32 whatever `precision` says, and so does Triton's interpreter: the tolerance of what emulated and real GPUs compute (`run --kernels`,
`run --expect`) follows from their roundings, that of the others from f32's.
"""
UPSTREAM = ("arith", "bufferization", "linalg", "math", "scf", "tensor", "tosa")
AREAS = {
    "00": "How meshgen was called",
    "01": "Reading a program",
    "02": "Mesh and shardings",
    "03": "Code generation",
    "04": "Schedule",
    "05": "The module file",
    "06": "Running",
}


def operations() -> str:
    """A row per payload operation: which parts of meshgen know it."""
    assert partition.partition is not None  # importing it fills the table of partitioners
    rules = {name for name, op in OPS.items() if op.rule is not None}
    names = sorted({*with_meaning(), *rules} - {"annotate"})
    known = {
        "types and checks": set(OPS),
        "NumPy reference": set(with_meaning()),
        "sharding rule": {*rules, *CONTROL, "optimization_barrier"},
        "partition": {*PARTITIONERS, *CONTROL},
    }
    columns = {title: {name: "yes" for name in names if name in ops} for title, ops in known.items()}
    columns["kernels"] = {name: said for name in names if (said := kernels_of(name))}
    rows = [[f"`{name}`", *(cells.get(name, "") for cells in columns.values())] for name in names]
    counts = ", ".join(f"{column}: {len(cells)}" for column, cells in columns.items())
    table = _table(["operation", *columns], rows)
    return f"# Operations\n\n{NOTE}\nStableHLO mnemonics. {counts}.\n\n{table}\n{_CONTROL_NOTE}{_NUMBERS_NOTE}\n{_upstream()}"


def _upstream() -> str:
    """What is read of upstream's payload dialects."""
    parts = [
        "## Upstream's dialects\n\nThese are read as the operations above; any other one is refused with its place.\n"
    ]
    for dialect in UPSTREAM:
        names = sorted(name.partition(".")[2] for name in dialects().importers if name.startswith(f"{dialect}."))
        parts.append(f"**{dialect}** ({len(names)}): {', '.join(f'`{name}`' for name in names)}.\n")
    return "\n".join(parts)


def diagnostics() -> str:
    """The numbers of all faults: what each means, an example, what to do."""
    parts = [f"# Diagnostics\n\n{NOTE}\nEvery fault has a number, a place in the program, the figures and a way out.\n"]
    for area, title in AREAS.items():
        numbers = [code for code in CODES if code[2:4] == area]
        parts.append(f"## {title}\n\n" + _table(["number", "fault"], [[f"`{code}`", CODES[code]] for code in numbers]))
        parts += [_fault(code, FAULTS[code]) for code in numbers]
    return "\n".join(parts)


def _fault(code: str, fault: Fault) -> str:
    text = f"### {code}: {CODES[code]}\n\n{fault.meaning}\n\n"
    for file, content in fault.files.items():
        text += f"`{file}`:\n```\n{content}```\n"
    if fault.commands:
        shown = "\n".join(f"$ {command}" for command in fault.commands)
        text += f"```\n{shown}\n{refusal(code, fault)}```\n"
    return f"{text}**What to do.** {fault.remedy}\n"


def refusal(code: str, fault: Fault) -> str:
    """What the last command of an example says, in a directory with its files."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        for file, content in fault.files.items():
            Path(file).write_text(content)
        for command in fault.commands:
            said = io.StringIO()
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                main(command.split()[1:])
    assert Path.cwd() == here and code in said.getvalue(), f"the example of {code} says: {said.getvalue()}"
    return said.getvalue()


def command_line() -> str:
    """The options of every command."""
    codes = (import_module("meshgen.cli").__doc__ or "").split("\n\n")[1].replace("\n", " ")
    parts = [f"# Command line\n\n{NOTE}\n{codes}\n"]
    for name, purpose in COMMANDS.items():
        parser = ArgumentParser(prog=f"meshgen {name}", description=purpose)
        import_module(f"meshgen.commands.{name}").add_arguments(parser)
        add_common(parser)
        parts.append(
            f"## meshgen {name}\n\n{purpose[:1].upper() + purpose[1:]}.\n\n"
            + (f"```text\n{parser.epilog}\n```\n\n" if parser.epilog else "")
            + _table(["argument", "meaning"], _options(parser))
        )
    return "\n".join(parts)


_MODEL = """What decides between plans: every weight, rate, threshold and limit of a search, with its unit and where its value comes
from. Passes read it from `DEFAULT` (`meshgen/cost_model/model.py`); bandwidths and latencies that a mesh or a machine profile says override
`links`. Limits that protect against absurd input decide nothing and stand where they are checked, and shapes of tiles with their kernels.
Other numbers that one file reads may be private constants of that file, each with a comment that says where its value comes from.

The last column has how many of {programs} programs are planned differently with half and with twice the value: of a ratio about 1
its distance from 1 is halved and doubled, of a list each number. A field with `0, 0` decides none of these programs (`python -m bench.sensitivity`, raw figures in
[sensitivity.jsonl](../bench/results/sensitivity.jsonl)).
"""


def cost_model() -> str:
    """A row per field, with the plans that other values of it change."""
    lines = (PLACE.parent / "bench" / "results" / "sensitivity.jsonl").read_text().splitlines()
    found: dict[str, list[str]] = {}
    for record in map(json.loads, lines):
        found.setdefault(record["field"], []).append(str(len(record["changed"])))
    rows = [[f"`{name}`", *cells, ", ".join(found.get(name, ["-"]))] for name, *cells in cost_model_rows()]
    programs = json.loads(lines[0])["programs"]
    table = _table([*COLUMNS, "plans"], [[cell.replace("|", "\\|") for cell in row] for row in rows])
    return f"# Cost model\n\n{NOTE}\n{_MODEL.format(programs=programs)}\n{table}"


def _options(parser: ArgumentParser) -> list[list[str]]:
    """A row per argument. `argparse` lays its help out differently from one Python to the next; this does not."""
    rows: list[list[str]] = []
    for action in parser._actions[1:]:  # the first is --help
        values = "" if action.nargs == 0 else action.metavar or ",".join(action.choices or ()) or action.dest.upper()
        words = " ".join(filter(None, ("/".join(action.option_strings), str(values))))
        meaning = (action.help or "").replace("%(default)s", str(action.default)).replace("%%", "%").replace("|", "\\|")
        rows.append([f"`{words}`".replace("|", "\\|"), meaning])
    return rows


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def pages() -> dict[Path, str]:
    """The text of each generated page."""
    return {
        PLACE / "api.md": api_page(NOTE),
        PLACE / "ops.md": operations(),
        PLACE / "functions.md": functions_page(NOTE),
        PLACE.parent / "meshgen" / "__init__.pyi": stub(),
        PLACE / "diagnostics.md": diagnostics(),
        PLACE / "cli.md": command_line(),
        PLACE / "passes.md": passes_page(NOTE),
        PLACE / "cost-model.md": cost_model(),
        PLACE / "questions.md": questions_page(NOTE),
        PLACE / "element-types.md": types_page(NOTE),
        PLACE / "architecture.md": with_excerpts((PLACE / "architecture.md").read_text()),
        PLACE / "decisions" / "index.md": decisions_page(NOTE),
        **{PLACE / "images" / name: picture for name, picture in pictures().items()},
        PLACE / "performance.md": trend_page(NOTE),
        PLACE / "images" / "trend.svg": trend_chart(records()),
    }


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
