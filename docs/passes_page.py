"""The page on passes: what each does, and what it gains on the programs that `python -m bench.passes` measured."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from meshgen.passes import BY_STAGE, PASSES

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "bench" / "results" / "passes.json"
HEAD = """A pass takes a program to one that computes the same. Passes run inside the stages, in the order of the table;
`meshgen opt --passes NAME` runs one by itself, `--skip NAME` (of `opt`, `compile`, `explain` and `check`) leaves one out, `--print-after NAME` shows the
program after it, and `compile --timing` and the HTML report say how often each changed something and what that cost before and after.

A pass applies *always*; *unless dearer*: a change after which a device sends more bytes is rejected; or *if cheaper*: of the rewrites before
propagation each makes a candidate that is planned to the end, and the cheapest is taken if it is clearly cheaper; larger messages and chunks are kept
where the predicted step is shorter. Passes before kernels are made apply always; without them numbers stay right, but some programs have no code for
GPUs (MG0301: no kernel is generated for windows, say, or for a scatter at a loop's counter, before they are slices and plain writes); a pass that
*enables* programs says which have no kernels without it. `tests/passes/<name>.mlir` shows what each makes of a small program.
"""


def passes_page(note: str) -> str:
    """The page; `note` says who wrote it."""
    parts = [f"# Passes\n\n{note}\n{HEAD}", *map(_stage, BY_STAGE), _gains()]
    return "\n".join(parts)


def _stage(stage: str) -> str:
    titles = {
        "propagate": "Before propagation",
        "optimize": "After materialize, and again after partition",
        "partition": "After partition",
        "fuse": "Before kernels are made",
    }
    earlier = [
        each for before in itertools.takewhile(lambda name: name != stage, BY_STAGE) for each in BY_STAGE[before]
    ]
    own = dict.fromkeys(each for each in BY_STAGE[stage] if each not in earlier)
    rows = [f"| `{each.name}` | {each.applies} | {each.summary}.{_enables(each.enables)} |\n" for each in own]
    return f"## {titles[stage]}\n\n| pass | applies | what it does |\n| --- | --- | --- |\n{''.join(rows)}"


def _enables(programs: str) -> str:
    return f" Enables {programs}." if programs else ""


def _gains() -> str:
    found = json.loads(FIGURES.read_text())
    given, own = found["given"], found["gains"]
    text = f"""## What each gains

Measured by `python -m bench.passes` (predictions for `cuda:sm_90`): what a device sends, and how long the step is, when the pass is left out, over what it
is with all passes; the best of the programs that the pass changes. *Changed* counts {given["programs"]} given programs (JAX programs at small and realistic
sizes, programs in upstream's dialects, models that `python -m bench.models.texts --small` writes) and {given["random"]} random ones; nothing stands there where a pass was not measured. *Shown by* is a program of `tests/passes/gains` on which the pass gains: where
the gain is not one of prediction, the least that its test asks for in kernels to compile, or bytes of the sectors that kernels touch.

| pass | changed, given | changed, random | best, given | shown by |
| --- | --- | --- | --- | --- |
"""
    return text + "".join(_row(name, given, own) for name in PASSES)


def _row(name: str, given: dict[str, Any], own: dict[str, Any]) -> str:
    gains = given["passes"].get(name)
    changed = ["", ""] if gains is None else [str(len(gains)), str(given["changed"].get(name, 0))]
    cells = [f"`{name}`", *changed, _best(gains or []), _best(own["passes"].get(name, [])) or _asked(name)]
    return f"| {' | '.join(cells)} |\n"


def _best(gains: list[dict[str, Any]]) -> str:
    """The largest gain in bytes or in the step, and where."""
    figures = [(gain[what], what, gain["program"]) for gain in gains for what in ("ring_bytes", "step") if gain[what]]
    if none := next((gain["program"] for gain in gains if gain["ring_bytes"] is None), ""):
        return f"sends nothing instead of something: {_file(none)}"
    if not figures or max(figures)[0] < 1.0005:
        return ""
    ratio, what, program = max(figures)
    return f"{'bytes' if what == 'ring_bytes' else 'step'} x {ratio:.3g}: {_file(program)}"


def _asked(name: str) -> str:
    """The gain that the program of a pass asks for."""
    program = ROOT / "tests" / "passes" / "gains" / f"{name}.mlir"
    text = program.read_text() if program.exists() else ""
    assert "// GAIN: " in text, (
        f"write {program.relative_to(ROOT)}, a program on which the pass gains: docs/extending.md"
    )
    figure, least = text.partition("// GAIN: ")[2].split()[:2]
    return f"{figure.replace('_', ' ')} x {least}: `gains/{name}`"


def _file(program: str) -> str:
    return f"`{program.removesuffix('.mlir').removesuffix('.shardy')}`"
