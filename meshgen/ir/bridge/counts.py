"""How many operands and results the operations take and give that are defined with any number of both."""

from __future__ import annotations

from xdsl.ir import Operation

from meshgen.ir.bridge.checked import Checked
from meshgen.ir.bridge.reading import Reading
from meshgen.ir.bridge.registries import verifies
from meshgen.ir.bridge.scalar import COUNTS as OF_SCALARS
from meshgen.ir.dialects.chlo import functions
from meshgen.ir.dialects.stablehlo.base import OPERATIONS
from meshgen.ir.dialects.upstream.index import AS_ARITH, INDEX
from meshgen.ir.dialects.upstream.plain import Plain
from meshgen.ir.dialects.upstream.scalar import ARITH, MATH
from meshgen.ir.dialects.upstream.tosa import TOSA

# Operands at least and at most. Behind those of TOSA's 1.0 stand zero points, or what was an attribute before.
_OPERANDS: dict[str, tuple[int, int]] = {
    "tosa.const": (0, 0), "tosa.negate": (1, 3), "tosa.mul": (2, 3), "tosa.matmul": (2, 4), "tosa.conv2d": (3, 5),
    "tosa.conv3d": (3, 5), "tosa.depthwise_conv2d": (3, 5), "tosa.transpose_conv2d": (3, 5), "tosa.avg_pool2d": (1, 3),
    "tosa.fully_connected": (3, 5), "tosa.transpose": (1, 2), "tosa.reshape": (1, 2), "tosa.concat": (1, 1 << 20),
    "tosa.slice": (1, 3), "tosa.pad": (1, 3), "tosa.tile": (1, 2), "tosa.gather": (2, 2), "tosa.scatter": (3, 3),
    "tosa.rescale": (1, 5), "tosa.resize": (1, 4), "tosa.table": (1, 2), "tosa.fft2d": (2, 2),
    "chlo.polygamma": (2, 2), "chlo.zeta": (2, 2), "chlo.next_after": (2, 2), "chlo.mulhi": (2, 2),
    "chlo.broadcast_select": (3, 3),
}  # fmt: skip
_TWO_RESULTS = (
    "arith.addui_extended", "arith.mulsi_extended", "arith.mului_extended", "math.sincos", "tosa.fft2d", "tosa.rfft2d",
)  # fmt: skip


def _operands(name: str) -> tuple[int, int]:
    dialect, _, word = name.partition(".")
    count = OF_SCALARS.get(AS_ARITH.get(word, word) if dialect == "index" else word, 1)
    return _OPERANDS.get(name, (2, 2) if name.startswith("chlo.broadcast_") else (count, count))


def _names() -> list[str]:
    upstream = [operation for dialect in (ARITH, MATH, INDEX, TOSA) for operation in dialect.operations]
    return [
        operation.name for operation in (*upstream, *OPERATIONS) if issubclass(operation, Plain | functions.Function)
    ]


@verifies(*_names())
def _verify_counts(reading: Reading, operation: Operation) -> None:
    found, (least, most) = Checked(reading, operation), _operands(operation.name)
    count, results = len(operation.operands), 2 if operation.name in _TWO_RESULTS else 1
    wanted = str(least) if least == most else f"{least} to {most}"
    found.require(least <= count <= most, f"has {count} operands instead of {wanted}")
    found.require(len(operation.results) == results, f"has {len(operation.results)} results instead of {results}")
