"""StableHLO's constraints on collectives, sends and device ids; sizes and groups are checked on conversion to nodes."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import TensorType
from meshgen.mlir.checked import Checked, scalar
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.reading import Reading
from meshgen.mlir.stablehlo.collectives import is_across

_GROUPED = tuple(
    f"stablehlo.{name}" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_broadcast")
)
_REDUCING = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")


def _verify_grouped(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    groups = found.property("replica_groups")
    found.require(
        _is_matrix(groups), "replica_groups must be a matrix of device numbers, as dense<[[0, 1]]> : tensor<1x2xi64>"
    )
    is_global = found.property("use_global_device_ids") is not None
    found.require(not is_global or is_across(operation), "use_global_device_ids needs a channel id of at least 1")
    if operation.name in _REDUCING:
        dtypes = dict.fromkeys(kind.dtype for kind in found.operands)
        if found.require(len(dtypes) == 1, f"its operands differ in element type: {', '.join(dtypes)}"):
            element = scalar(found.operands[0])
            found.region(0, [element, element], [element])


def _verify_permute(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    pairs = found.property("source_target_pairs")
    found.require(
        _is_matrix(pairs, 2), "source_target_pairs must be a list of pairs, as dense<[[0, 1]]> : tensor<1x2xi64>"
    )


def _is_matrix(attribute: Attribute | None, columns: int | None = None) -> bool:
    """Whether an attribute is a matrix of integers; those of the dialect itself have other readers."""
    if not isinstance(attribute, DenseElements):
        return attribute is not None and attribute.name.startswith("stablehlo.")
    array = attribute.data.array
    return array.ndim == 2 and array.dtype.kind in "iu" and columns in (None, array.shape[1])


def _verify_crossing(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    tokens = operation.operands if operation.name == "stablehlo.recv" else operation.operands[-1:]
    is_token = len(tokens) == 1 and tokens[0].type.name == "stablehlo.token"
    found.require(is_token, "its last operand must be a token")
    ends = operation.results[-1:]
    found.require(len(ends) == 1 and ends[0].type.name == "stablehlo.token", "its last result must be a token")


def _verify_number(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    found.require(found.results == [TensorType((), "ui32")], f"its result must be ui32[], got {found.results[0]}")


def _verify_tokens(reading: Reading, operation: Operation) -> None:
    found = Checked(reading, operation)
    found.require(
        all(value.type.name == "stablehlo.token" for value in operation.operands), "its operands must be tokens"
    )


PART = Dialect(
    verifiers={
        **dict.fromkeys(_GROUPED, _verify_grouped),
        "stablehlo.collective_permute": _verify_permute,
        "stablehlo.send": _verify_crossing,
        "stablehlo.recv": _verify_crossing,
        "stablehlo.partition_id": _verify_number,
        "stablehlo.replica_id": _verify_number,
        "stablehlo.after_all": _verify_tokens,
    }
)
