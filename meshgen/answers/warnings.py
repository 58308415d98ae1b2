"""What a program's author should know though nothing is wrong: numbered like faults, and no reason to refuse it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meshgen.answers.compiled import Compiled
from meshgen.codegen.unroll import communicates
from meshgen.errors import Diagnostic, place_text
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.loops import always_ends
from meshgen.ir.regions import all_nodes
from meshgen.ir.uniform import Varying


def warnings_of(executable: Compiled) -> list[Diagnostic]:
    """The warnings about a program, those of each mesh in program order."""
    modules = [part.stages["partition"] for part in executable.parts if "partition" in part.stages]
    return [warning for module in modules for warning in _branches(module)]


def warning_records(found: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [
        {"code": each.code, "message": each.message, "hint": each.hint, "location": place_text(each.loc)}
        for each in found
    ]


def _branches(module: Module) -> Iterator[Diagnostic]:
    """Branches that communicate and are written out: all of them are computed."""
    found = [
        node
        for node in _control(module.graph)
        if any(map(communicates, node.regions)) and all(map(always_ends, node.regions))
    ]
    varying = Varying(module) if found else None
    for node in found:
        assert varying is not None, "there are branches"
        axes = sorted({axis for region in node.regions for axis in _axes(region)}, key=module.mesh.order)
        alike = varying.is_uniform(node.operands[0], axes)
        which = "" if alike else f", also those of one group over {', '.join(axes)}, which may choose differently"
        text = f"the branches of '{node.op}' hold collectives: all are computed, and each device takes the results of its own{which}"
        hint = "move the collectives out of the branches, or select between their results"
        yield Diagnostic("MG0403", text, node.loc, (), hint)


def _control(graph: Graph) -> Iterator[Node]:
    return (node for node in all_nodes(graph) if node.op in ("if", "case"))


def _axes(graph: Graph) -> Iterator[str]:
    for node in all_nodes(graph):
        yield from node.attrs.get("axes", ())
