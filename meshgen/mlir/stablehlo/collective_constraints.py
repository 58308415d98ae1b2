"""Checks of collectives, sends and device ids before conversion. The importers check sizes and groups."""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from meshgen.ir.graph import TensorType
from meshgen.mlir.dense import DenseElements
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.operation_checks import Checked, scalar
from meshgen.mlir.reader_state import Reading
from meshgen.mlir.stablehlo.collectives import is_across

_GROUPED = tuple(
    f"stablehlo.{name}" for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_broadcast")
)
_REDUCING = ("stablehlo.all_reduce", "stablehlo.reduce_scatter")


def _verify_grouped(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    groups = checks.property("replica_groups")
    checks.require(
        _is_matrix(groups), "replica_groups must be a matrix of device numbers, as dense<[[0, 1]]> : tensor<1x2xi64>"
    )
    is_global = checks.property("use_global_device_ids") is not None
    checks.require(not is_global or is_across(operation), "use_global_device_ids needs a channel id of at least 1")
    if operation.name in _REDUCING:
        dtypes = dict.fromkeys(kind.dtype for kind in checks.operands)
        if checks.require(len(dtypes) == 1, f"its operands differ in element type: {', '.join(dtypes)}"):
            element = scalar(checks.operands[0])
            checks.region(0, [element, element], [element])


def _verify_permute(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    pairs = checks.property("source_target_pairs")
    checks.require(
        _is_matrix(pairs, 2), "source_target_pairs must be a list of pairs, as dense<[[0, 1]]> : tensor<1x2xi64>"
    )


def _is_matrix(attribute: Attribute | None, columns: int | None = None) -> bool:
    """Whether an attribute is a matrix of integers, with `columns` columns if that is not None.

    Also true for attributes of StableHLO itself, since the functions that read them check them.
    """
    if not isinstance(attribute, DenseElements):
        return attribute is not None and attribute.name.startswith("stablehlo.")
    array = attribute.data.array
    return array.ndim == 2 and array.dtype.kind in "iu" and columns in (None, array.shape[1])


def _verify_send_or_recv(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    tokens = operation.operands if operation.name == "stablehlo.recv" else operation.operands[-1:]
    is_token = len(tokens) == 1 and tokens[0].type.name == "stablehlo.token"
    checks.require(is_token, "its last operand must be a token")
    last_results = operation.results[-1:]
    checks.require(
        len(last_results) == 1 and last_results[0].type.name == "stablehlo.token", "its last result must be a token"
    )


def _verify_device_id(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    checks.require(checks.results == [TensorType((), "ui32")], f"its result must be ui32[], got {checks.results[0]}")


def _verify_tokens(reading: Reading, operation: Operation) -> None:
    checks = Checked(reading, operation)
    checks.require(
        all(value.type.name == "stablehlo.token" for value in operation.operands), "its operands must be tokens"
    )


PART = Dialect(
    verifiers={
        **dict.fromkeys(_GROUPED, _verify_grouped),
        "stablehlo.collective_permute": _verify_permute,
        "stablehlo.send": _verify_send_or_recv,
        "stablehlo.recv": _verify_send_or_recv,
        "stablehlo.partition_id": _verify_device_id,
        "stablehlo.replica_id": _verify_device_id,
        "stablehlo.after_all": _verify_tokens,
    }
)
