"""Operations of StableHLO for control flow, sorting and random bits.

The regions of nodes are closed: values that a region captures become operands of the node. At stage `import` a loop
carries such operands unchanged, so its node has results that the operation in the text lacks.
"""

from __future__ import annotations

from typing import Self

from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import Node
from meshgen.ir.loops import capture_arguments
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.fields import flag, number
from meshgen.mlir.literals import function_type
from meshgen.mlir.parser import TextParser
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo.attributes import RngAlgorithm
from meshgen.mlir.stablehlo.base import (
    GenericOperation,
    HloOperation,
    as_nodes,
    closed_regions,
    generic_text,
    writers_of,
)
from meshgen.mlir.stablehlo.fields import word
from meshgen.mlir.stablehlo.types import SAME
from meshgen.mlir.text_operation import assignments, define, values_of


class While(GenericOperation):
    """A loop: `stablehlo.while(%i = %a, %s = %b) : types cond {...} do {...}`. Both regions take the arguments %i and
    %s.

    If the encodings of the operands differ from those of the results, the types are written `(types) -> (types)`.
    """

    @classmethod
    def read(cls, parser: TextParser) -> Self:
        names, operands = assignments(parser)
        types: list[Attribute] = []
        operand_types: list[Attribute] = []
        start = parser.pos
        if names:
            parser.parse_punctuation(":")
            if (function := parser.parse_optional_function_type()) is not None:
                operand_types, types = list(function.inputs.data), list(function.outputs.data)
            else:
                operand_types = types = list(
                    parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
                )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        values = parser.resolve_operands(operands, operand_types, start)
        arguments = list(zip(names, types, strict=True))
        parser.parse_keyword("cond")
        cond = parser.parse_named_region(arguments)
        parser.parse_keyword("do")
        body = parser.parse_named_region(arguments)
        attrs = dict(attributes.data) if attributes is not None else {}
        return cls.of(values, types, attrs, regions=[cond, body])

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """Return the text of a `while` node."""
        results, (condition, body) = printer.results(node), node.regions
        pairs = [(printer.define(x), printer.name(y)) for x, y in zip(body.inputs, node.operands, strict=True)]
        operand_types, result_types = printer.types(node.operands), printer.types(node.results)
        types = (
            ", ".join(operand_types) if operand_types == result_types else function_type(operand_types, result_types)
        )
        attributes = printer.attributes(node)
        head = f"{cls.name}({', '.join(f'{x} = {y}' for x, y in pairs)}){' : ' if pairs else ''}{types}"
        names, line = [x for x, _ in pairs], f"{results}{head}{' attributes' if attributes else ''}{attributes}"
        regions = " do ".join(printer.region(region, names=names) for region in (condition, body))
        return f"{line}{printer.newline}    cond {regions}"


class Case(GenericOperation):
    """A `case` or `if`. The first operand selects the region that computes the results."""

    @classmethod
    def write(cls, printer: TextPrinter, node: Node) -> str:
        """Return the text of a `case` or `if` node. In the text, the regions have no arguments and use the operands by
        name.
        """
        outside = printer.names(node.operands[1:])
        return generic_text(printer, node, cls.name, {}, operands=node.operands[:1], region=lambda region: printer.region(region, names=outside))  # fmt: skip


_BRANCHING = (
    *define(While, "stablehlo", {"n -> n {n -> 1} {n -> n}": "while"}),
    *define(Case, "stablehlo", {"1 -> n {0 -> n}+": "case", "1 -> n {0 -> n} {0 -> n}": "if"}),
)
_NODES = (
    *define(GenericOperation, "stablehlo", {"1+n -> 1+n {2+2n -> 1}": "sort"}, FIELDS=(
        number("dimension", "dim", default=-1), flag("is_stable", "is_stable"),
    )),
    # Example: `%state, %bits = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (...) -> (...)`
    *define(HloOperation, "stablehlo", {"1 -> 2": "rng_bit_generator"}, FIELDS=(
        word("rng_algorithm", RngAlgorithm, "algorithm", "algorithm"),
    )),
    # Example: `%0, %1 = stablehlo.optimization_barrier %a, %b : tensor<..>, tensor<..>`
    *define(HloOperation, "stablehlo", {"n -> n": "optimization_barrier"}, TYPES=SAME),
)  # fmt: skip


def _import_while(importer: Importer, operation: Operation) -> None:
    """Import a loop. At stage `import` the loop carries the values that it captures, so that propagation can shard
    them.

    In later stages they are captured, as in the text.
    """
    (condition, body), captured = importer.blocks([region.block for region in operation.regions])
    operands, outside = importer.values(operation.operands), importer.values(captured)
    if importer.reading.module.stage != "import":
        replacements = [dict(zip(region.inputs[len(operands) :], outside, strict=True)) for region in (condition, body)]
        condition, body = (
            capture_arguments(region, mapping) for region, mapping in zip((condition, body), replacements, strict=True)
        )
    else:
        body.outputs += body.inputs[len(operands) :]
        operands += outside
    types = [value.type for value in operands]
    results = importer.emit("while", operands, types, {}, operation, (condition, body))
    importer.bind_results(operation, results)


def _import_branches(importer: Importer, operation: Operation) -> None:
    graphs, captured = importer.blocks([region.block for region in operation.regions])
    operands = [*operation.operands, *captured]
    importer.convert(operation, operation.name.partition(".")[2], operands=operands, regions=tuple(graphs))


def _import_sort(importer: Importer, operation: Operation) -> None:
    attrs = values_of(operation)
    rank = importer.type(operation.operands[0]).rank if operation.operands else 0
    attrs["dim"] += rank if attrs["dim"] < 0 else 0
    importer.convert(operation, "sort", attrs, regions=closed_regions(importer, operation))


PART = merged(
    as_nodes(*_NODES, importers={"stablehlo.sort": _import_sort}),
    Dialect(
        operations=_BRANCHING,
        importers={
            "stablehlo.while": _import_while,
            "stablehlo.case": _import_branches,
            "stablehlo.if": _import_branches,
        },
        writers=writers_of(_BRANCHING),
    ),
)
