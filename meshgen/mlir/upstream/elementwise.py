"""Element-wise nodes as `linalg.map`, which partition and fusion of upstream know:

%1 = linalg.map { math.tanh } ins(%0 : tensor<8x16xf32>) outs(%e : tensor<8x16xf32>)
%3 = linalg.map ins(%1, %2 : tensor<8xf32>, tensor<8xf32>) outs(%f : tensor<8xi1>) (%4: f32, %5: f32, %6: i1) {
  %7 = arith.cmpf ogt, %4, %5 : f32
  linalg.yield %7 : i1
}
"""

from __future__ import annotations

from meshgen.ir.graph import Node, is_float
from meshgen.mlir.upstream.element_types import element
from meshgen.mlir.upstream.inexpressible import Inexpressible
from meshgen.mlir.upstream.printer import UpstreamPrinter, Write
from meshgen.mlir.upstream.scalar_operands import is_scalar_operand
from meshgen.mlir.upstream.scalars import ELEMENTWISE, plain_operation, write_scalar


def write_elementwise(printer: UpstreamPrinter, node: Node) -> None:
    whole = [number for number in range(len(node.operands)) if not is_scalar_operand(node, number)]
    names = [printer.operand(node, number) for number in whole]
    if node.op == "convert" and printer.type(node.operands[0]) == printer.type(node.result):
        printer.alias(node, names[0])
        return
    scalars = {number: printer.scalar(v) for number, v in enumerate(node.operands) if number not in whole}
    ins = f"ins({', '.join(names)} : {', '.join(printer.type(node.operands[number]) for number in whole)})"
    outs = f"outs({printer.empty(node)} : {printer.type(node.result)})"
    plain = plain_operation(node.op, node.operands[0].type.dtype)
    if plain and not scalars:
        text = f"linalg.map {{ {plain} }} {ins} {outs}{printer.discardable(node)}"
    else:
        text = f"linalg.map {ins} {outs}{printer.discardable(node)} {_body(printer, node, whole, scalars)}"
    printer.assign(node, text)


def _body(printer: UpstreamPrinter, node: Node, whole: list[int], scalars: dict[int, str]) -> str:
    """Return the arguments and the body of a map, `(%4: f32, %5: f32) {...}`."""
    inside = {number: f"%{printer.new_name('')}" for number in whole}
    arguments = [f"{name}: {element(node.operands[number].type.dtype)}" for number, name in inside.items()]
    kind = element(node.result.type.dtype)
    arguments.append(f"%{printer.new_name('')}: {kind}")

    def lines() -> None:
        operands = [(inside | scalars)[number] for number in range(len(node.operands))]
        printer.emit(f"linalg.yield {write_scalar(printer, node, operands)} : {kind}")

    return f"({', '.join(arguments)}) {printer.scope(lines)}"


def write_logistic(printer: UpstreamPrinter, node: Node) -> None:
    kind = printer.type(node.result)
    if not is_float(node.result.type.dtype):
        raise Inexpressible("it is for floats")
    printer.assign(node, f"tosa.sigmoid {printer.operand(node, 0)}{printer.discardable(node)} : ({kind}) -> {kind}")


WRITERS: dict[str, Write] = {**dict.fromkeys(ELEMENTWISE, write_elementwise), "logistic": write_logistic}
