"""Warnings: what a program's author should know although the program is valid. They have codes like errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meshgen.codegen.communicating import communicates
from meshgen.errors import Diagnostic, place_text
from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Graph, Module, Value
from meshgen.ir.loops import always_ends
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_annotation, is_branching
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import ARRANGING, MADE, OF_RANKS
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_trait
from meshgen.ops.uniform import Varying
from meshgen.reports.donations import donation_warnings
from meshgen.reports.interface import Compiled
from meshgen.reports.repeated import repetition_warnings

_MAPS = with_trait(Trait.BROADCASTS) | ARRANGING | {*ANNOTATIONS} | MADE - OF_RANKS


def warnings_of(executable: Compiled) -> list[Diagnostic]:
    """The warnings about a program, those of each mesh in program order."""
    stages = [part.stages for part in executable.parts]
    entered = [warning for each in stages if "import" in each for warning in _reductions(each["import"])]
    entered += [warning for each in stages if "partition" in each for warning in _branches(each["partition"])]
    return [*entered, *repetition_warnings(executable), *donation_warnings(executable)]


def warning_records(found: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """For `--json`."""
    return [
        {"code": each.code, "message": each.message, "hint": each.hint, "location": place_text(each.loc)}
        for each in found
    ]


def _reductions(module: Module) -> Iterator[Diagnostic]:
    """Shardy's reductions of values that are not unreduced: arguments, constants and element-wise ops on them."""
    makers = {value: node for node in all_nodes(module.graph) for value in node.results}
    said = dict(zip(module.graph.inputs, module.in_annotations, strict=False))
    whole: dict[Value, bool] = {}

    def is_whole(value: Value) -> bool:
        """Whether neither an annotation nor an op can make devices hold parts of a sum."""
        node = makers.get(value)
        if value not in whole:
            whole[value] = False  # nothing is known of values of regions
            if node is None:
                annotation = said.get(value)
                whole[value] = value in said and (annotation is None or not annotation.sharding.partial)
            elif is_annotation(node):
                whole[value] = not node.attrs.sharding.partial and is_whole(node.operands[0])
            else:
                whole[value] = node.op in _MAPS and all(map(is_whole, node.operands))
        return whole[value]

    for value in makers:  # in program order, so that recursion stays shallow
        is_whole(value)
    for node in all_nodes(module.graph):
        axes = node.notes.reduces
        if axes and is_whole(node.operands[0]):
            text = f"a reduction over {', '.join(axes)} of a value that nothing says is unreduced: it is taken as it is, equal copies are not added up"
            hint = "say unreduced={...} where the value is made, or leave the reduction out"
            yield Diagnostic("MG0109", text, node.loc, (), hint)


def _branches(module: Module) -> Iterator[Diagnostic]:
    """Branches with collectives: they become selects, so all of them are computed."""
    found = [
        node
        for node in all_nodes(module.graph)
        if is_branching(node) and any(map(communicates, node.regions)) and all(map(always_ends, node.regions))
    ]
    varying = Varying(module) if found else None
    for node in found:
        assert varying is not None, "there are branches"
        axes = sorted({axis for region in node.regions for axis in _axes_used_in(region)}, key=module.mesh.order)
        alike = varying.is_uniform(node.operands[0], axes)
        which = "" if alike else f", also those of one group over {', '.join(axes)}, which may choose differently"
        text = f"the branches of '{node.op}' hold collectives: all are computed, and each device takes the results of its own{which}"
        hint = "move the collectives out of the branches, or select between their results"
        yield Diagnostic("MG0403", text, node.loc, (), hint)


def _axes_used_in(graph: Graph) -> Iterator[str]:
    for node in all_nodes(graph):
        yield from axes_of(node.attrs)
