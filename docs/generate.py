"""Write the documentation pages that are generated from the code, and the type stub `meshgen/__init__.pyi`.

`python docs/generate.py` writes all of them; `pages` lists them. `tests/test_docs.py` fails if a committed file differs
from its generated text.
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
from meshgen.ops.registry import OPS, evaluable_ops
from meshgen.reports.cost_model import COLUMNS, cost_model_rows
from meshgen.sharding import partition
from meshgen.sharding.partitioners.registry import PARTITIONERS

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from api_page import api_page  # noqa: E402
from architecture_pictures import pictures  # noqa: E402
from decisions_page import decisions_page  # noqa: E402
from faults import FAULTS, Fault  # noqa: E402  (docs/ is not a package)
from functions_page import functions_page, stub  # noqa: E402
from kernel_examples import kernels_of  # noqa: E402
from passes_page import passes_page  # noqa: E402
from questions import questions_page  # noqa: E402
from stage_excerpts import with_excerpts  # noqa: E402
from trend_page import records, trend_chart, trend_page  # noqa: E402
from types_page import types_page  # noqa: E402

NOTE = "<!-- written by docs/generate.py: change the code, then run `make docs` -->\n"
CONTROL = ("case", "if", "while")  # `partition` has code of its own for these ops, not a registered partitioner
_CONTROL_NOTE = """
- The schedule runs `case`, `if` and `while`, with kernels inside their regions. Loops with a known trip count become `scan`.
- The regions of `reduce_region`, `reduce_window`, `scatter`, `select_and_scatter` and `sort` may contain element-wise operations only.
- `scatter` and `sort` give the same bits in every run. A `scatter` combines the updates of one element in their order. If more than 4,096
  updates go to few rows, it combines them like a reduction. `sort` is stable.
- On a GPU a complex number is a pair of real numbers. Factorizations of complex matrices (`lapack`) are refused (MG0301), and so are Fourier
  transforms along a dim with a prime factor above 2,048.
"""
_NUMBERS_NOTE = """
## Accuracy

Kernels treat subnormal numbers, signed zeros, infinities and NaN as IEEE 754 does. Kernels compute bf16, f16 and 8-bit floats in f32, and round
once per operation that is not fused with the next one. All inexact results are accurate to 4 units in the last place of the type, with the exceptions
below. `check` allows this error (`meshgen/ops/tolerance`), and `tests/codegen/test_device_functions.py` tests it as PTX over the whole range.

| operation | computation and accuracy |
| --- | --- |
| f32 quotients | `div.full` (2 units) |
| functions of f32 | the device's approximations, with a correction of their error |
| `power`, inverse and hyperbolic functions, `lgamma`, `digamma`, `polygamma`, `zeta`, `bessel_i1e` | computed in f64 for every type |
| `lgamma`, `digamma`, `polygamma`, `zeta`, `bessel_i1e` of f64 | 128 unit roundoffs of the terms of their sum |
| `power` of f64 | as many units as the absolute value of the result's logarithm |
| `zeta` with q below -12 | NaN |
| remainders | exact for every quotient |
| integers divided by 0, and the smallest integer divided by -1 | the values that XLA defines |

## Precision of dots and convolutions

`precision` of f32 dots and convolutions has the meaning of XLA on GPUs. If the two operands differ, the higher precision counts.

| precision | multiplication of f32 | error of each operand |
| --- | --- | --- |
| DEFAULT | tf32 on tensor cores: operands are cut to 11 bits of significand | up to 2^-10 of its value |
| HIGH | the sum of three tf32 products | 2^-22 |
| HIGHEST | f32 on the FMA pipes | none |

- Accumulators are f32.
- Mixed operands are converted to f32 first. The conversion to tf32 then removes no bits of bf16 or f16.
- An `algorithm` of `dot_general` rounds the operands to the types that it names. f32 means HIGHEST, and several primitive operations mean HIGH or HIGHEST.
- Operations of `linalg` and `tosa` are HIGHEST, because these dialects prescribe f32.
- `precision=` of `compile` and `--precision` set one precision for the whole program, with the names of JAX's `jax_default_matmul_precision`.
  `multiplied_as` in `explain --json` and in a module's report shows the precision in use.
- On sm_90 tensor cores keep about 14 bits of a sum of products of 8-bit floats. Kernels therefore add partial sums of at most 128 contracted elements in f32.
- The CPU and Triton's interpreter multiply in f32 whatever `precision` says. The tolerance of results from emulated and real GPUs (`run --kernels`,
  `run --expect`) follows from their roundings; the tolerance of other results follows from f32.
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
    """Return ops.md: a row per operation, with a column for each part of meshgen that may support it."""
    assert partition.partition is not None  # importing it fills the table of partitioners
    rules = {name for name, op in OPS.items() if op.rule is not None}
    names = sorted({*evaluable_ops(), *rules} - {"annotate"})
    supported = {
        "types and checks": set(OPS),
        "NumPy reference": set(evaluable_ops()),
        "sharding rule": {*rules, *CONTROL, "optimization_barrier"},
        "partition": {*PARTITIONERS, *CONTROL},
    }
    columns = {title: {name: "yes" for name in names if name in ops} for title, ops in supported.items()}
    columns["kernels"] = {name: kernels for name in names if (kernels := kernels_of(name))}
    rows = [[f"`{name}`", *(cells.get(name, "") for cells in columns.values())] for name in names]
    counts = ", ".join(f"{column} {len(cells)}" for column, cells in columns.items())
    table = _table(["operation", *columns], rows)
    return f"# Operations\n\n{NOTE}\nThe table lists operations by their StableHLO mnemonics. Each column counts the supported ones: {counts}.\n\n{table}{_CONTROL_NOTE}{_NUMBERS_NOTE}\n{_upstream()}"


def _upstream() -> str:
    """Return the section of ops.md on MLIR's upstream dialects that payload code may use."""
    parts = [
        "## Upstream's dialects\n\nmeshgen reads these operations as the operations above. It refuses other operations with their place (MG0103).\n"
    ]
    for dialect in UPSTREAM:
        names = sorted(name.partition(".")[2] for name in dialects().importers if name.startswith(f"{dialect}."))
        parts.append(f"**{dialect}** ({len(names)}): {', '.join(f'`{name}`' for name in names)}.\n")
    return "\n".join(parts)


def diagnostics() -> str:
    """Return diagnostics.md: the meaning, an example and the remedy of each number."""
    parts = [
        f"# Diagnostics\n\n{NOTE}\nEvery diagnostic has a number, a place in the program, the relevant figures and a hint.\n"
    ]
    for area, title in AREAS.items():
        numbers = [code for code in CODES if code[2:4] == area]
        parts.append(
            f"## {title}\n\n" + _table(["number", "diagnostic"], [[f"`{code}`", CODES[code]] for code in numbers])
        )
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
    """Run the commands of an example in a temporary directory with its files. Return stderr of the last command."""
    here, err = Path.cwd(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for file, content in fault.files.items():
            Path(file).write_text(content)
        for command in fault.commands:
            err = io.StringIO()
            with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
                main(command.split()[1:])
    assert Path.cwd() == here and code in err.getvalue(), f"the example of {code} printed: {err.getvalue()}"
    return err.getvalue()


def command_line() -> str:
    """Return cli.md: the options of every command."""
    parts = [f"# Command line\n\n{NOTE}\n{_exit_codes()}"]
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


_MODEL = """The cost model decides between plans. This page lists every weight, rate, threshold and search limit, with its unit and the source of its value.
Passes read the values from `DEFAULT` (`meshgen/cost_model/model.py`). Bandwidths and latencies of a mesh or a machine profile override `links`.

Some numbers are elsewhere. Limits that protect against absurd input are in the code that checks the limits, and tile shapes are in the code of the kernels.
A number that only one file reads may be a private constant of that file, with a comment that gives the source.

The last column counts how many of {programs} programs get another plan with half and with twice the value. For a ratio near 1 its distance from 1 is halved
and doubled; for a list each number is. `0, 0` means that the value decides none of these programs. `python -m bench.sensitivity` measures
the column; the raw figures are in [sensitivity.jsonl](../bench/results/sensitivity.jsonl).
"""


def cost_model() -> str:
    """Return cost-model.md: a row per field, with the number of measured plans that change if the field has another
    value.
    """
    lines = (FOLDER.parent / "bench" / "results" / "sensitivity.jsonl").read_text().splitlines()
    changed_plans: dict[str, list[str]] = {}
    for record in map(json.loads, lines):
        changed_plans.setdefault(record["field"], []).append(str(len(record["changed"])))
    rows = [[f"`{name}`", *cells, ", ".join(changed_plans.get(name, ["-"]))] for name, *cells in cost_model_rows()]
    programs = json.loads(lines[0])["programs"]
    table = _table([*COLUMNS, "plans"], [[cell.replace("|", "\\|") for cell in row] for row in rows])
    return f"# Cost model\n\n{NOTE}\n{_MODEL.format(programs=programs)}\n{table}"


def _exit_codes() -> str:
    """Return the table of exit codes, from the docstring of `meshgen.cli`."""
    paragraph = (import_module("meshgen.cli").__doc__ or "").split("\n\n")[1]
    text = " ".join(paragraph.split()).removeprefix("Exit codes: ").removesuffix(".")
    rows = [[code, meaning] for code, _, meaning in (entry.partition(" ") for entry in text.split("; "))]
    return _table(["exit code", "meaning"], rows)


def _options(parser: ArgumentParser) -> list[list[str]]:
    """Return a row per argument. The rows are built here, because the layout of `argparse` depends on the version of
    Python.
    """
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
    """Return the text of each generated page."""
    return {
        FOLDER / "api.md": api_page(NOTE),
        FOLDER / "ops.md": operations(),
        FOLDER / "functions.md": functions_page(NOTE),
        FOLDER.parent / "meshgen" / "__init__.pyi": stub(),
        FOLDER / "diagnostics.md": diagnostics(),
        FOLDER / "cli.md": command_line(),
        FOLDER / "passes.md": passes_page(NOTE),
        FOLDER / "cost-model.md": cost_model(),
        FOLDER / "questions.md": questions_page(NOTE),
        FOLDER / "element-types.md": types_page(NOTE),
        FOLDER / "architecture.md": with_excerpts((FOLDER / "architecture.md").read_text()),
        FOLDER / "decisions" / "index.md": decisions_page(NOTE),
        **{FOLDER / "images" / name: picture for name, picture in pictures().items()},
        FOLDER / "performance.md": trend_page(NOTE),
        FOLDER / "images" / "trend.svg": trend_chart(records()),
    }


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text)
