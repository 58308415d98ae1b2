"""Checks of one xDSL operation before it is converted: its types, regions and properties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Attribute, Block, Operation, SSAValue

from meshgen.ir.graph import TensorType
from meshgen.mlir.reader_state import Reading
from meshgen.ops.types.site import types_agree


class Checked(NamedTuple):
    """An xDSL operation with methods that check it. They report faults to `reading`."""

    reading: Reading
    operation: Operation

    def require(self, holds: bool, message: str, hint: str = "") -> bool:
        """Report `message` as a fault of the operation unless `holds` is true. Returns `holds`."""
        if not holds:
            self.reading.fault("MG0104", f"{self.operation.name}: {message}", self.operation, hint)
        return holds

    def types(self, values: Sequence[SSAValue]) -> list[TensorType]:
        return [self.reading.type(value.type, value) for value in values]

    @property
    def operands(self) -> list[TensorType]:
        return self.types(self.operation.operands)

    @property
    def results(self) -> list[TensorType]:
        return self.types(self.operation.results)

    def property(self, name: str) -> Attribute | None:
        return self.operation.properties.get(name)

    def region(self, index: int, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """Check that region `index` has arguments of types `inputs` and terminator operands of types `outputs`.

        Reports a fault and returns False if they differ.
        """
        block: Block = self.operation.regions[index].block
        yielded = block.last_op.operands if block.last_op is not None else ()
        is_valid = True
        for verb, values, expected in (("takes", block.args, inputs), ("returns", yielded, outputs)):
            actual = self.types(list(values))
            is_match = len(actual) == len(expected) and all(map(types_agree, actual, expected))
            texts = (", ".join(map(str, types)) for types in (actual, expected))
            is_valid &= self.require(is_match, "region {} {} ({}) instead of ({})".format(index, verb, *texts))
        return is_valid


def scalar(kind: TensorType) -> TensorType:
    return kind.with_shape(())
