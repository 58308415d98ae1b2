"""The table of supported custom call targets, with their importers.

Supported are CHLO functions in the spelling of older programs, hints to XLA's partitioner, LAPACK routines, and
operations that the user defines with `@mg.op_rule`. Any other target is reported by its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.ir import Operation

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Node
from meshgen.ir.inline import copy_nodes
from meshgen.mlir.attributes import string_of
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import quoted
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.stablehlo import mhlo_sharding
from meshgen.mlir.stablehlo.calls import call_text, target_of
from meshgen.mlir.stablehlo.custom_calls import cudnn_attention, lapack, threefry, top_k
from meshgen.mlir.stablehlo.dynamic import import_called_reduce_window
from meshgen.ops.user_ops import USER_OPS

Target = Callable[[Importer, Operation], None]


def _pass_operands_through(importer: Importer, operation: Operation) -> None:
    """Bind the results of a call to its operands. If it has no results, it only inspects its operands and is dropped."""
    if operation.results and len(operation.operands) != len(operation.results):
        raise Refused("MG0104", "needs as many results as operands")
    importer.bind_results(operation, importer.values(operation.operands))


def _import_older_sharding(importer: Importer, operation: Operation) -> None:
    """Import `@Sharding`, a sharding annotation in XLA's older form."""
    if mhlo_sharding.NAME in operation.attributes and len(operation.operands) == len(operation.results) == 1:
        mhlo_sharding.constrain(importer, operation)
    else:
        _pass_operands_through(importer, operation)


def _function_target(op: str) -> Target:
    def import_function(importer: Importer, operation: Operation) -> None:
        importer.convert(operation, op)

    return import_function


def _shape_assertion(importer: Importer, operation: Operation) -> None:
    """Import a check of symbolic sizes, which is evaluated once the sizes are specified."""
    message = string_of(operation.attributes.get("error_message"))
    importer.convert(operation, "shape_assertion", {"message": message})


def _write_shape_assertion(printer: TextPrinter, node: Node) -> str:
    message = quoted(node.attrs.message)
    attributes = {"api_version": "2 : i32", "has_side_effect": "true", "error_message": message}
    return call_text(printer, node, "shape_assertion", attributes)


def _refuse_conversion(importer: Importer, operation: Operation) -> None:
    """Reject a conversion between global and local values that `mlir/sdy/gspmd.py` has not rewritten.

    It has several operands or results.
    """
    raise Refused("MG0104", "needs one operand and one result")


# Targets that return their operands: hints about memory spaces and layouts, which have no effect here, and a callback
# that inspects a sharding during compilation.
_IDENTITIES = ("annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint", "InspectSharding")

TARGETS: dict[str, Target] = {
    "shape_assertion": _shape_assertion,
    "Sharding": _import_older_sharding,
    **dict.fromkeys(("SPMDFullToShardShape", "SPMDShardToFullShape"), _refuse_conversion),
    **dict.fromkeys(_IDENTITIES, _pass_operands_through),
    # The attribute `sdy.sharding` of the call annotates its result.
    "xla.sdy.FuncResultSharding": _pass_operands_through,
    "stablehlo.dynamic_reduce_window": import_called_reduce_window,
    **cudnn_attention.TARGETS,
    **top_k.TARGETS,
    **threefry.TARGETS,
    **lapack.TARGETS,
    **{
        f"mhlo.{op}": _function_target(op)
        for op in ("erf", "tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh")
    },
}


def _import_custom_call(importer: Importer, operation: Operation) -> None:
    target = target_of(operation)
    if fault := call_fault(target):
        message, hint = fault
        importer.fault("MG0103", message, operation, hint)
        return
    try:
        if target in USER_OPS:
            _inline(importer, operation, target)
        else:
            TARGETS[target](importer, operation)
    except Refused as error:
        importer.fault(error.code, f"@{target}: {error}", operation, error.hint)


def call_fault(target: str) -> tuple[str, str] | None:
    """Return the error message and the hint for an unsupported custom call target, or None for a supported target."""
    if target in USER_OPS or target in TARGETS:
        return None
    if _CALLBACK.search(target):
        return f"the program calls back into Python ('@{target}')", _CALLBACK_HINT
    hint = _LINALG_HINT if target.startswith(_LIBRARIES) else _HINT if target.isidentifier() else _UNNAMED_HINT
    return f"unknown custom_call target '@{target}'", _HINTS.get(target, hint).format(target)


_CALLBACK = re.compile(r"python\w*_callback")  # The callback targets of JAX, one per platform
_CALLBACK_HINT = (
    "leave out jax.debug.print, jax.debug.callback, pure_callback and io_callback, and checks of values at run time: "
    "for error_if of equinox, set EQX_ON_ERROR=nan before it is imported"
)
_LIBRARIES = ("lapack_", "cusolver", "cublas", "hipsolver", "Qr", "Eigh", "LuDecomposition", "ProductOfElementary")
_HINT = "define a function {} in Python with @mg.op_rule before the program is read, or replace the call by other operations"
_UNNAMED_HINT = "replace the call by other operations before the program is lowered"
_RAGGED_HINT = "send tiles of equal size with all_to_all, padded, or write the exchange with global arrays, as ragged_dot and gathers"
_HINTS = {
    "ragged_all_to_all": _RAGGED_HINT,
    "CustomSPMDPartitioning": "JAX hides a function behind a callback where it lowers for several devices: lower without a mesh, "
    "and give mesh and shardings to meshgen",
}
_LINALG_HINT = (
    "a factorization by a library of the platform that the program was lowered for; only those of CPUs are supported: lower it "
    'with lowering_platforms=("cpu",)'
)


def _inline(importer: Importer, operation: Operation, target: str) -> None:
    """Inline the body of the operation `target` that the user has defined."""
    operands = importer.values(operation.operands)
    try:
        body = USER_OPS[target]([value.type for value in operands])
    except MeshgenError as error:
        importer.reading.faults += error.diagnostics
        return
    expected, actual = [importer.type(r) for r in operation.results], [value.type for value in body.outputs]
    if expected != actual:
        texts = (", ".join(map(str, types)) for types in (actual, expected))
        raise Refused("MG0104", "returns ({}), but the call has result types ({})".format(*texts))
    first = len(importer.graph.nodes)
    loc = importer.reading.source.locate(operation)
    importer.bind_results(operation, copy_nodes(body, operands, importer.graph))
    for node in importer.graph.nodes[first:]:
        node.loc = loc


PART = Dialect(
    writers={"shape_assertion": _write_shape_assertion}, importers={"stablehlo.custom_call": _import_custom_call}
)
