"""Matrix factorisations and Fourier transforms of StableHLO."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, operand_def, opt_prop_def, prop_def, result_def
from xdsl.parser import UnresolvedOperand
from xdsl.printer import Printer

from meshgen.ir.bridge import Exporter, Importer, exports, imports
from meshgen.ir.dialects.stablehlo_attributes import FftType, Transpose, array, boolean_of, integers, word_of
from meshgen.ir.dialects.stablehlo_base import HloOperation, Properties, define
from meshgen.ir.graph import Node
from meshgen.ir.parser import TextParser

_FLAGS = ("left_side", "lower", "unit_diagonal")


class Cholesky(HloOperation):
    """`stablehlo.cholesky %a, lower = true : tensor<6x6xf32>`"""

    a = operand_def()
    lower = opt_prop_def()
    result = result_def()
    ONE_TYPE: ClassVar[bool] = True

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        if parser.parse_optional_punctuation(",") is None:
            return [operand], {}
        parser.parse_keyword("lower")
        parser.parse_punctuation("=")
        return [operand], {"lower": flag(parser.parse_identifier() == "true")}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        if self.lower is not None:
            printer.print_string(f", lower = {str(boolean_of(self.lower)).lower()}")


class TriangularSolve(IRDLOperation):
    a = operand_def()
    b = operand_def()
    left_side = prop_def()
    lower = prop_def()
    unit_diagonal = prop_def()
    transpose_a = prop_def()
    result = result_def()


class Fft(HloOperation):
    """`stablehlo.fft %x, type = FFT, length = [30] : (...) -> ...`"""

    operand = operand_def()
    fft_type = prop_def(FftType)
    fft_length = prop_def()
    result = result_def()

    @classmethod
    def read_head(cls, parser: TextParser) -> tuple[list[UnresolvedOperand], Properties]:
        operand = parser.parse_unresolved_operand()
        parser.parse_clause("type")
        kind = FftType(parser.parse_identifier())
        parser.parse_clause("length")
        return [operand], {"fft_type": kind, "fft_length": array(parser.parse_integers())}

    def head(self, printer: Printer) -> None:
        super().head(printer)
        printer.print_string(f", type = {self.fft_type.data}, length = {list(integers(self.fft_length))}")


def flag(value: bool) -> Attribute:
    return builtin.IntegerAttr(int(value), builtin.i1)


CHOLESKY = define(Cholesky, "stablehlo.cholesky")
TRIANGULAR_SOLVE = define(TriangularSolve, "stablehlo.triangular_solve")
FFT = define(Fft, "stablehlo.fft")


@imports("stablehlo.cholesky")
def _import_cholesky(importer: Importer, operation: Operation) -> None:
    importer.convert(operation, "cholesky", {"lower": boolean_of(operation.properties.get("lower"))})


@exports("cholesky")
def _export_cholesky(exporter: Exporter, node: Node) -> Operation:
    properties = {"lower": flag(node.attrs["lower"])}
    types = exporter.types(node.results)
    return CHOLESKY.create(operands=exporter.operands(node), result_types=types, properties=properties)


@imports("stablehlo.triangular_solve")
def _import_triangular_solve(importer: Importer, operation: Operation) -> None:
    attrs: dict[str, object] = {name: boolean_of(operation.properties[name]) for name in _FLAGS}
    attrs["transpose_a"] = word_of(operation.properties["transpose_a"])
    importer.convert(operation, "triangular_solve", attrs)


@exports("triangular_solve")
def _export_triangular_solve(exporter: Exporter, node: Node) -> Operation:
    properties: Properties = {name: flag(node.attrs[name]) for name in _FLAGS}
    properties["transpose_a"] = Transpose(node.attrs["transpose_a"])
    types = exporter.types(node.results)
    return TRIANGULAR_SOLVE.create(operands=exporter.operands(node), result_types=types, properties=properties)


@imports("stablehlo.fft")
def _import_fft(importer: Importer, operation: Operation) -> None:
    properties = operation.properties
    attrs = {"kind": word_of(properties["fft_type"]), "length": integers(properties["fft_length"])}
    importer.convert(operation, "fft", attrs)


@exports("fft")
def _export_fft(exporter: Exporter, node: Node) -> Operation:
    properties = {"fft_type": FftType(node.attrs["kind"]), "fft_length": array(node.attrs["length"])}
    types = exporter.types(node.results)
    return FFT.create(operands=exporter.operands(node), result_types=types, properties=properties)
