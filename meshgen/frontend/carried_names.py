"""Names of the values that loops carry: that of the argument which the loop begins with, in place of JAX's `iterArg_206`.

before   stablehlo.while(%iterArg_3 = %params.w, %iterArg_4 = %sum)
after    stablehlo.while(%params.w_0 = %params.w, %iterArg_4 = %sum)
"""

from __future__ import annotations

import re
from collections.abc import Collection

from meshgen.ir.graph import Graph, Value
from meshgen.ir.predicates import is_annotation, is_loop
from meshgen.ir.regions import program_regions

_GENERATED = re.compile(r"(iterArg|arg)(_?\d+)?")  # by JAX


def name_carried_values(graph: Graph, arguments: Collection[Value] | None = None) -> None:
    """Name the values of loops that begin as named arguments of the program, also in loops inside of loops.

    Args:
        arguments: values outside of the graph that have the names of arguments; default: the inputs of the graph.
    """
    known = {*(graph.inputs if arguments is None else arguments)}
    for node in graph.nodes:
        if is_annotation(node) and node.operands[0] in known:
            known.update(node.results)
        inside = set(known)
        for region in node.regions if is_loop(node) else ():
            for carried, operand in zip(region.inputs, node.operands, strict=True):
                if operand in known and operand.name and not _GENERATED.fullmatch(operand.name):
                    inside.add(carried)
                    carried.name = operand.name if _GENERATED.fullmatch(carried.name) else carried.name
        for region in program_regions(node):
            name_carried_values(region, inside)
