"""Importer of the custom call for JAX's Threefry hash, which CUDA builds of JAX emit."""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.ir.graph import Value
from meshgen.mlir.arith.builder import Builder
from meshgen.mlir.conversion import Importer, Refused


def _threefry(importer: Importer, operation: Operation) -> None:
    """Import the Threefry hash, which maps two key words and two counters to two random words."""
    if len(operation.operands) != 4 or len(operation.results) != 2:
        raise Refused("MG0104", "needs 4 operands and 2 results")
    b = Builder(importer, operation)
    key_1, key_2, x, y = b.together(importer.values(operation.operands))

    def rotated(value: Value, count: int) -> Value:
        left = b.apply("shift_left", value, b.constant(count, value.type))
        return b.apply("or", left, b.apply("shift_right_logical", value, b.constant(32 - count, value.type)))

    keys = (key_1, key_2, b.apply("xor", b.apply("xor", key_1, key_2), b.constant(0x1BD11BDA, key_1.type)))
    x, y = b.apply("add", x, key_1), b.apply("add", y, key_2)
    for group in range(5):
        for count in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = b.apply("add", x, y)
            y = b.apply("xor", rotated(y, count), x)
        x = b.apply("add", x, keys[(group + 1) % 3])
        y = b.apply("add", b.apply("add", y, keys[(group + 2) % 3]), b.constant(group + 1, y.type))
    importer.bind_results(operation, (x, y))


TARGETS = dict.fromkeys(("cu_threefry2x32", "cu_threefry2x32_ffi"), _threefry)
