"""Warnings about valid programs. They have codes like errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meshgen.codegen.collective_predicates import communicates
from meshgen.errors import Diagnostic, location_text
from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Graph, Module, Value
from meshgen.ir.loops import has_bounded_loops
from meshgen.ir.op_names import ANNOTATIONS
from meshgen.ir.predicates import is_annotation, is_branching
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import ARRANGING, MADE, OF_RANKS
from meshgen.ops.op import Trait
from meshgen.ops.registry import with_trait
from meshgen.ops.uniformity import Varying
from meshgen.reports.donations import donation_warnings
from meshgen.reports.interface import Compiled
from meshgen.reports.repeated import repetition_warnings

_MAPS = with_trait(Trait.BROADCASTS) | ARRANGING | {*ANNOTATIONS} | MADE - OF_RANKS


def warnings_of(executable: Compiled) -> list[Diagnostic]:
    """Return the warnings about a program, mesh by mesh in program order."""
    stages = [part.stages for part in executable.parts]
    found_warnings = [
        warning
        for stages_of_part in stages
        if "import" in stages_of_part
        for warning in _reductions(stages_of_part["import"])
    ]
    found_warnings += [
        warning
        for stages_of_part in stages
        if "partition" in stages_of_part
        for warning in _branches(stages_of_part["partition"])
    ]
    return [*found_warnings, *repetition_warnings(executable), *donation_warnings(executable)]


def warning_records(warnings: Sequence[Diagnostic]) -> list[dict[str, Any]]:
    """Return the warnings as JSON-serializable dicts, for `--json`."""
    return [
        {"code": warning.code, "message": warning.message, "hint": warning.hint, "location": location_text(warning.loc)}
        for warning in warnings
    ]


def _reductions(module: Module) -> Iterator[Diagnostic]:
    """Yield a warning for each Shardy reduction whose operand cannot hold partial sums.

    Such operands are arguments, constants and element-wise results without a partial annotation.
    """
    producers = {value: node for node in all_nodes(module.graph) for value in node.results}
    annotation_by_input = dict(zip(module.graph.inputs, module.in_annotations, strict=False))
    is_reduced: dict[Value, bool] = {}

    def is_whole(value: Value) -> bool:
        """Whether `value` cannot hold partial sums: neither an annotation nor the op that produces it makes them."""
        node = producers.get(value)
        if value not in is_reduced:
            # the operands of region inputs are unknown, so assume that they can hold partial sums
            is_reduced[value] = False
            if node is None:
                annotation = annotation_by_input.get(value)
                is_reduced[value] = value in annotation_by_input and (
                    annotation is None or not annotation.sharding.partial
                )
            elif is_annotation(node):
                is_reduced[value] = not node.attrs.sharding.partial and is_whole(node.operands[0])
            else:
                is_reduced[value] = node.op in _MAPS and all(map(is_whole, node.operands))
        return is_reduced[value]

    for value in producers:  # in program order, so that the recursion stays shallow
        is_whole(value)
    for node in all_nodes(module.graph):
        axes = node.notes.reduces
        if axes and is_whole(node.operands[0]):
            text = f"a reduction over {', '.join(axes)} of a value that is not unreduced: the value is used as it is, and equal copies are not added up"
            hint = "annotate the value with unreduced={...}, or leave out the reduction"
            yield Diagnostic("MG0109", text, node.loc, (), hint)


def _branches(module: Module) -> Iterator[Diagnostic]:
    """Yield a warning for each branch op with collectives. It is lowered to selects, so all branches are computed."""
    branchings = [
        node
        for node in all_nodes(module.graph)
        if is_branching(node) and any(map(communicates, node.regions)) and all(map(has_bounded_loops, node.regions))
    ]
    varying = Varying(module) if branchings else None
    for node in branchings:
        assert varying is not None, "there are branches"
        axes = sorted({axis for region in node.regions for axis in _axes_used_in(region)}, key=module.mesh.order)
        chosen_uniformly = varying.is_uniform(node.operands[0], axes)
        addition = (
            ""
            if chosen_uniformly
            else f", also those of one group over {', '.join(axes)}, which may choose differently"
        )
        text = f"the branches of '{node.op}' contain collectives: all branches are computed, and each device selects the results of its own branch{addition}"
        hint = "move the collectives out of the branches, or select between their results"
        yield Diagnostic("MG0403", text, node.loc, (), hint)


def _axes_used_in(graph: Graph) -> Iterator[str]:
    for node in all_nodes(graph):
        yield from axes_of(node.attrs)
