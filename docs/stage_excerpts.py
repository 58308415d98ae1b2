"""Write the text of one program at every stage into docs/architecture.md, between the marks `stages` and `end of
stages`.
"""

from __future__ import annotations

import re

import meshgen as mg
from meshgen.mlir.text import print_text
from meshgen.pipeline import STAGES

PROGRAM = re.compile(r"```mlir\n(// mlp\.mlir\n.*?)```", re.DOTALL)
EXCERPT = re.compile(r"(<!-- stages -->\n).*?(<!-- end of stages -->)", re.DOTALL)
SHOWN = re.compile(r" *(%(?:y|y_reduced) = .*)")
# Patterns of parts that the excerpts omit (provenance, operand types, predicted seconds, source locations), and their
# replacements.
CUTS = (
    (re.compile(r", why = \[\".*?\"\]"), ""),
    (re.compile(r"\{why = \".*?\", edges = array<i64: \d+>(?:, )?"), "{"),
    (re.compile(r" ?(?:seconds|start|source|hidden|exposed) = \"[^\"]*\""), ""),
    (re.compile(r" ?\{\}"), ""),
    (re.compile(r"contracting_dims = (\S+) x (\S+?)(?=[ ,])"), r"..."),
    (re.compile(r" : \(.*\) ->"), " : ... ->"),
    (re.compile(r" : tensor<[^:]*> -> "), " : ... -> "),
)
WIDTH = 110  # columns; longer lines are broken before attributes and result types
BREAKS = re.compile(r" (\{(?:meshgen|sched)\.|: \.\.\. ->|sched\.buffers)")


def with_excerpts(page: str) -> str:
    """Return `page` with current lines of the program `mlp.mlir` (which is in the page) at every stage."""
    program = PROGRAM.search(page)
    assert program and EXCERPT.search(page), "the page has a program mlp.mlir and the two marks"
    parts, before = list[str](), list[str]()
    for stage in ("import", *STAGES):
        lines = lines_at(stage, program[1])
        parts.append(
            "\n".join([f"// {stage}" + ": unchanged" * (lines == before), *(lines if lines != before else ())])
        )
        before = lines
    block = "```text\n" + "\n\n".join(parts) + "\n```\n"
    return EXCERPT.sub(lambda marks: f"{marks[1]}{block}{marks[2]}", page)


def lines_at(stage: str, program: str) -> list[str]:
    """Return the lines that define `%y` and `%y_reduced` in the program at a stage, without the parts in `CUTS`."""
    module = mg.lower(program, {"tp": 2}, stage=stage, in_specs={"w1": mg.P(None, "tp")}, target="cuda:sm_90")
    main, *_ = print_text(module).partition("func.func private")
    return [shortened(match[1]) for line in main.splitlines() if (match := SHOWN.match(line))]


def shortened(line: str) -> str:
    for pattern, replacement in CUTS:
        line = pattern.sub(replacement, line)
    return line if len(line) <= WIDTH else BREAKS.sub(r"\n    \1", line)
