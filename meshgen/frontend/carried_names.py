"""Name loop-carried values after the argument that initializes them, in place of JAX's `iterArg_206`.

    before   stablehlo.while(%iterArg_3 = %params.w, %iterArg_4 = %sum)
    after    stablehlo.while(%params.w_0 = %params.w, %iterArg_4 = %sum)

A carried value whose name JAX did not generate keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from meshgen.ir.graph import Graph, Value
from meshgen.ir.predicates import is_annotation, is_loop
from meshgen.ir.regions import program_regions

_GENERATED = re.compile(r"(iterArg|arg)(_?\d+)?")  # Names that JAX generates for loop-carried values.


def name_carried_values(graph: Graph, arguments: Collection[Value] | None = None) -> None:
    """Name the values that loops carry after the named program arguments that initialize them, in nested loops too.

    Args:
        arguments: values from outside `graph` whose names loops may adopt; by default, the inputs of `graph`.
    """
    named_values = {*(graph.inputs if arguments is None else arguments)}
    for node in graph.nodes:
        if is_annotation(node) and node.operands[0] in named_values:
            named_values.update(node.results)
        named_in_loop = set(named_values)
        for region in node.regions if is_loop(node) else ():
            for carried, operand in zip(region.inputs, node.operands, strict=True):
                if operand in named_values and operand.name and not _GENERATED.fullmatch(operand.name):
                    named_in_loop.add(carried)
                    carried.name = operand.name if _GENERATED.fullmatch(carried.name) else carried.name
        for region in program_regions(node):
            name_carried_values(region, named_in_loop)
