"""Print loops and branches as operations of scf.

The regions of nodes take all values as inputs, whereas regions of scf use outer values directly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from meshgen.ir.graph import Graph, Node, Value
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write


def _lines_with_terminator(
    printer: UpstreamPrinter, graph: Graph, end: Callable[[list[str]], str]
) -> Callable[[], None]:
    def lines() -> None:
        printer.write_nodes(graph)
        printer.emit(end(printer.names(graph.outputs)))

    return lines


def _yield(printer: UpstreamPrinter, values: Sequence[Value]) -> Callable[[list[str]], str]:
    types = ", ".join(printer.types(values))
    return lambda names: f"scf.yield {', '.join(names)} : {types}"


def write_while(printer: UpstreamPrinter, node: Node) -> None:
    condition, body = node.regions
    types = ", ".join(printer.types(node.operands))
    initial_values = [printer.operand(node, index) for index in range(len(node.operands))]
    carried = [printer.define(value) for value in condition.inputs]
    pairs = ", ".join(f"{inner} = {outer}" for inner, outer in zip(carried, initial_values, strict=True))

    def decide() -> None:
        printer.write_nodes(condition)
        printer.emit(f"scf.condition({printer.scalar(condition.outputs[0])}) {', '.join(carried)} : {types}")

    def step() -> None:
        printer.emit(f"^bb0({', '.join(map(printer.argument, body.inputs))}):")
        _lines_with_terminator(printer, body, _yield(printer, body.outputs))()

    text = f"scf.while ({pairs}) : ({types}) -> ({types}) {printer.scope(decide)} do {printer.scope(step)}"
    printer.assign(node, text)


def _branches(printer: UpstreamPrinter, node: Node) -> list[str]:
    """Return the text of the regions of a branch. Their inputs are the node's operands after the first."""
    captured = [printer.operand(node, index) for index in range(1, len(node.operands))]
    texts: list[str] = []
    for region in node.regions:
        for value, name in zip(region.inputs, captured, strict=True):
            printer.share_name(value, name)
        texts.append(printer.scope(_lines_with_terminator(printer, region, _yield(printer, region.outputs))))
    return texts


def write_if(printer: UpstreamPrinter, node: Node) -> None:
    condition = printer.scalar(node.operands[0])
    first, second = _branches(printer, node)
    printer.assign(node, f"scf.if {condition} -> ({', '.join(printer.types(node.results))}) {first} else {second}")


def write_case(printer: UpstreamPrinter, node: Node) -> None:
    """Print a `case` as an `scf.index_switch`. Its default is the last branch, which StableHLO takes for an invalid
    index.
    """
    selector = printer.index(node.operands[0])
    *branches, last = _branches(printer, node)
    cases = " ".join(f"case {position} {text}" for position, text in enumerate(branches))
    types = ", ".join(printer.types(node.results))
    printer.assign(node, f"scf.index_switch {selector} -> {types} {cases} default {last}")


WRITERS: dict[str, Write] = {"while": write_while, "if": write_if, "case": write_case}
