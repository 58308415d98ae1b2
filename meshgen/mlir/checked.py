"""An operation as xDSL has read it, under inspection: its types, regions and properties, and the faults found in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Attribute, Block, Operation, SSAValue

from meshgen.ir.graph import TensorType
from meshgen.mlir.reading import Reading
from meshgen.ops.types.site import types_agree


class Checked(NamedTuple):
    """An operation, of which faults are collected."""

    reading: Reading
    operation: Operation

    def require(self, holds: bool, message: str, hint: str = "") -> bool:
        """Collect a fault unless `holds`; returns `holds`."""
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

    def region(self, number: int, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
        """Whether a region has arguments and yields of these types."""
        block: Block = self.operation.regions[number].block
        ends = block.last_op.operands if block.last_op is not None else ()
        sound = True
        for what, values, wanted in (("takes", block.args, inputs), ("gives", ends, outputs)):
            found = self.types(list(values))
            same = len(found) == len(wanted) and all(map(types_agree, found, wanted))
            texts = (", ".join(map(str, types)) for types in (found, wanted))
            sound &= self.require(same, "region {} {} ({}) instead of ({})".format(number, what, *texts))
        return sound


def scalar(kind: TensorType) -> TensorType:
    return kind.with_shape(())
