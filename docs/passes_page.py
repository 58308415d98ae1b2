"""Write the page on passes: what each pass does, and its gain on the programs that `python -m bench.passes` measured."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from meshgen.passes import BY_STAGE, PASSES

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "bench" / "results" / "passes.json"
HEAD = """A pass rewrites a program into one that computes the same results. Passes run inside the stages, in the order of the tables.
`tests/passes/<name>.mlir` shows the rewrite of each pass on a small program.

| command | effect |
| --- | --- |
| `meshgen opt IN --passes NAME` | run one pass by itself |
| `--skip NAME` (`opt`, `compile`, `explain`, `check`) | leave a pass out |
| `--print-after NAME` | print the program after the pass |
| `compile --timing` | say how often each pass changed the program, with the cost before and after |

The column *applies* says when a rewrite is kept:

- *always*: without a comparison of costs.
- *unless more expensive*: the rewrite is rejected if a device then sends more bytes.
- *if cheaper*: the changed program is planned to the end, and is kept if its predicted step is clearly shorter.

Passes before code generation always apply. Without some of them a program has no code for GPUs (MG0301); such a pass says which programs it *enables*.
"""


def passes_page(note: str) -> str:
    """Return the page, which starts with `note` about its generator."""
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
        stage_pass
        for earlier_stage in itertools.takewhile(lambda name: name != stage, BY_STAGE)
        for stage_pass in BY_STAGE[earlier_stage]
    ]
    new_passes = dict.fromkeys(stage_pass for stage_pass in BY_STAGE[stage] if stage_pass not in earlier)
    rows = [
        f"| `{stage_pass.name}` | {stage_pass.applies} | {stage_pass.summary}.{_enables(stage_pass.enables)} |\n"
        for stage_pass in new_passes
    ]
    return f"## {titles[stage]}\n\n| pass | applies | what it does |\n| --- | --- | --- |\n{''.join(rows)}"


def _enables(programs: str) -> str:
    return f" Enables {programs}." if programs else ""


def _gains() -> str:
    figures = json.loads(FIGURES.read_text())
    folder_gains, test_program_gains = figures["given"], figures["gains"]
    text = f"""## The gain of each pass

`python -m bench.passes` measures each gain as a ratio: the bytes that a device sends, or the predicted step on `cuda:sm_90`, without the pass and with it. *Best, given* is
the largest ratio of the programs that the pass changes.

- *Changed, given* counts the changed programs among {folder_gains["programs"]}: JAX programs at small and realistic sizes, programs in upstream's dialects, and the models of
  `python -m bench.models.texts --small`.
- *Changed, random* counts the changed programs among {folder_gains["random"]} random ones. An empty cell means that the pass was not measured.
- *Shown by* names a program of `tests/passes/gains` on which the pass gains. If the gain is not a prediction, the cell has the smallest gain that its test accepts:
  in compiled kernels, or in bytes of touched sectors.

| pass | changed, given | changed, random | best, given | shown by |
| --- | --- | --- | --- | --- |
"""
    return text + "".join(_row(name, folder_gains, test_program_gains) for name in PASSES)


def _row(name: str, folder_gains: dict[str, Any], test_program_gains: dict[str, Any]) -> str:
    gains = folder_gains["passes"].get(name)
    changed = ["", ""] if gains is None else [str(len(gains)), str(folder_gains["changed"].get(name, 0))]
    cells = [
        f"`{name}`",
        *changed,
        _best(gains or []),
        _best(test_program_gains["passes"].get(name, [])) or _required_gain(name),
    ]
    return f"| {' | '.join(cells)} |\n"


def _best(gains: list[dict[str, Any]]) -> str:
    """Return the largest gain of a pass in bytes or step time, with the program that has this gain."""
    figures = [
        (gain[figure], figure, gain["program"]) for gain in gains for figure in ("ring_bytes", "step") if gain[figure]
    ]
    if without_bytes := next((gain["program"] for gain in gains if gain["ring_bytes"] is None), ""):
        return f"sends nothing instead of something: {_file(without_bytes)}"
    if not figures or max(figures)[0] < 1.0005:
        return ""
    ratio, figure, program = max(figures)
    return f"{'bytes' if figure == 'ring_bytes' else 'step'} x {ratio:.3g}: {_file(program)}"


def _required_gain(name: str) -> str:
    """Return the gain that the test program of pass `name` requires."""
    program = ROOT / "tests" / "passes" / "gains" / f"{name}.mlir"
    text = program.read_text() if program.exists() else ""
    assert "// GAIN: " in text, (
        f"write {program.relative_to(ROOT)}, a program on which the pass gains: docs/extending.md"
    )
    figure, least = text.partition("// GAIN: ")[2].split()[:2]
    return f"{figure.replace('_', ' ')} x {least}: `gains/{name}`"


def _file(program: str) -> str:
    return f"`{program.removesuffix('.mlir').removesuffix('.shardy')}`"
