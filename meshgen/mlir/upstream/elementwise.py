"""Print element-wise nodes as `linalg.map`, which upstream's passes can partition and fuse.

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
    tensor_operands = [index for index in range(len(node.operands)) if not is_scalar_operand(node, index)]
    names = [printer.operand(node, index) for index in tensor_operands]
    if node.op == "convert" and printer.type(node.operands[0]) == printer.type(node.result):
        printer.alias(node, names[0])
        return
    scalars = {
        index: printer.scalar(value) for index, value in enumerate(node.operands) if index not in tensor_operands
    }
    ins = f"ins({', '.join(names)} : {', '.join(printer.type(node.operands[index]) for index in tensor_operands)})"
    outs = f"outs({printer.empty(node)} : {printer.type(node.result)})"
    plain = plain_operation(node.op, node.operands[0].type.dtype)
    if plain and not scalars:
        text = f"linalg.map {{ {plain} }} {ins} {outs}{printer.discardable(node)}"
    else:
        text = f"linalg.map {ins} {outs}{printer.discardable(node)} {_body(printer, node, tensor_operands, scalars)}"
    printer.assign(node, text)


def _body(printer: UpstreamPrinter, node: Node, tensor_operands: list[int], scalars: dict[int, str]) -> str:
    """Return the text of the arguments and the body of a map, such as `(%4: f32, %5: f32) {...}`."""
    elements = {index: f"%{printer.new_name('')}" for index in tensor_operands}
    arguments = [f"{name}: {element(node.operands[index].type.dtype)}" for index, name in elements.items()]
    kind = element(node.result.type.dtype)
    arguments.append(f"%{printer.new_name('')}: {kind}")

    def lines() -> None:
        operands = [(elements | scalars)[index] for index in range(len(node.operands))]
        printer.emit(f"linalg.yield {write_scalar(printer, node, operands)} : {kind}")

    return f"({', '.join(arguments)}) {printer.scope(lines)}"


def write_logistic(printer: UpstreamPrinter, node: Node) -> None:
    kind = printer.type(node.result)
    if not is_float(node.result.type.dtype):
        raise Inexpressible("tosa.sigmoid needs floats")
    printer.assign(node, f"tosa.sigmoid {printer.operand(node, 0)}{printer.discardable(node)} : ({kind}) -> {kind}")


WRITERS: dict[str, Write] = {**dict.fromkeys(ELEMENTWISE, write_elementwise), "logistic": write_logistic}
