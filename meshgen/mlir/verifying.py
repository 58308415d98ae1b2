"""Checks of a whole xDSL module before conversion. They collect all faults, where xDSL's verifier stops at the first."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

from xdsl.dialects import builtin, func
from xdsl.ir import Operation, SSAValue
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from meshgen.errors import ProgramError, grouped
from meshgen.mlir.reader_state import Reading

_STRUCTURE = ("builtin.module", "func.func", "func.return", "stablehlo.return", "sdy.return")

_LOOK_OUTSIDE = IsolatedFromAbove.verify


def raise_faults(reading: Reading) -> None:
    if reading.faults:
        raise ProgramError(*grouped(reading.faults))


def refuse_unknown(top: Operation, reading: Reading) -> None:
    """Raise ProgramError if the module has operations that are unsupported, or operands that are never defined.

    Each unsupported operation name is reported once, at its first location.
    """
    first: dict[str, Operation] = {}
    for operation in reading.originals(top):
        is_supported = reading.dialects.is_read(operation.name) or operation.name in _STRUCTURE
        if not is_supported and operation.name not in first:
            first[operation.name] = operation
        if any(isinstance(operand, ForwardDeclaredValue) for operand in operation.operands):
            reading.fault("MG0104", f"{operation.name}: an operand is used where it is not defined", operation)
    for name, operation in first.items():
        reading.fault("MG0103", f"operation {name} is not supported", operation)
    raise_faults(reading)


def verify_operations(top: Operation, reading: Reading) -> None:
    """Check all operations against their definitions: counts of operands and results, properties, and regions.

    Raises ProgramError with all faults.
    """
    if any(block.args for region in top.regions for block in region.blocks):
        reading.fault("MG0104", "builtin.module: its region must have no arguments", top)
    with visible_once():
        _verify_inside(top, reading, set())
    raise_faults(reading)


@contextmanager
def visible_once() -> Generator[None]:
    """Disable xDSL's check that functions use no values from outside, which searches each function again.

    `_verify_with_regions` does the same check in one pass and reports the operation.
    """
    trait: Any = IsolatedFromAbove
    trait.verify = lambda *_: None
    try:
        yield
    finally:
        # Do not restore the previous value: another thread may also be inside this context.
        trait.verify = _LOOK_OUTSIDE


def _verify_inside(parent: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    """Verify all operations in the regions of `parent`. `visible` are the SSA values that are defined before it."""
    for block in (block for region in parent.regions for block in region.blocks):
        defined_here: list[SSAValue] = list(block.args)
        visible.update(defined_here)
        for operation in block.ops:
            if not _repeats_verified(operation, reading):
                _verify_with_regions(parent, operation, reading, visible)
            elif not visible.issuperset(operation.operands):
                _verify_operands(operation, reading, visible)
            defined_here += operation.results
            visible.update(operation.results)
        visible.difference_update(defined_here)


def _repeats_verified(operation: Operation, reading: Reading) -> bool:
    """Whether an operation needs no verification, since it repeats a line whose operation is valid in any context."""
    return reading.source.like(operation) in reading.sound and operation.name in reading.dialects.self_contained


def _verify_with_regions(parent: Operation, operation: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    fault_count = len(reading.faults)
    _verify_place(parent, operation, reading)
    if reading.source.like(operation) not in reading.sound:
        _verify_one(operation, reading)
    _verify_operands(operation, reading, visible)
    if len(reading.faults) == fault_count and (verify := reading.dialects.verifiers.get(operation.name)):
        verify(reading, operation)
    # Checks of nested operations may read parts that a malformed parent lacks, so skip them then.
    if len(reading.faults) == fault_count:
        _verify_inside(operation, reading, set() if isinstance(operation, func.FuncOp) else visible)
    if len(reading.faults) == fault_count:
        reading.sound.add(operation)


def _verify_operands(operation: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    """Report a fault for each operand that is used before it is defined."""
    for index, operand in enumerate(operation.operands):
        if operand not in visible:
            reading.fault("MG0104", f"{operation.name}: operand {index} is used before it is defined", operation)


def _verify_place(parent: Operation, operation: Operation, reading: Reading) -> None:
    """Report a fault if a function or declaration is not directly in a module, or another operation is not in a
    function.

    Some operations are allowed in both.
    """
    dialects = reading.dialects
    if operation.name in dialects.module_ops and operation.name in dialects.importers:
        return
    is_declaration = isinstance(operation, func.FuncOp | builtin.ModuleOp) or operation.name in dialects.module_ops
    if isinstance(parent, builtin.ModuleOp) != is_declaration:
        parent_name = "a module" if isinstance(parent, builtin.ModuleOp) else "a function"
        reading.fault("MG0104", f"{operation.name} is not allowed in {parent_name}", operation)


def _verify_one(operation: Operation, reading: Reading) -> None:
    """Verify an operation, without its regions, against its xDSL definition and its signature."""
    try:
        if not isinstance(operation, func.CallOp):  # The importer of a call checks it when it inlines the callee.
            verify_definition(operation)
        _verify_indices(operation)
    except Exception as error:  # Most of xDSL's verifiers raise VerifyException, but some raise other exceptions.
        message = (str(error).strip() or type(error).__name__).splitlines()[-1]
        reading.fault("MG0104", f"{operation.name}: {message}", operation)
    signature = reading.dialects.signature_of(type(operation))
    for message in signature.faults(operation) if signature is not None else ():
        reading.fault("MG0104", f"{operation.name}: {message}", operation)


def verify_definition(operation: Operation) -> None:
    """Run xDSL's verifier on one operation.

    Raises the exception of the verifier alone: xDSL would append the text of the whole program to the message.
    """
    vars(operation)["emit_error"] = _raise_alone
    try:
        operation.verify(verify_nested_ops=False)
    finally:
        del vars(operation)["emit_error"]


def _raise_alone(_message: str, fault: Exception) -> NoReturn:
    raise fault


def _verify_indices(operation: Operation) -> None:
    """Raise VerifyException unless `tensor.extract` has one index per dim of its operand, which xDSL does not check."""
    if operation.name == "tensor.extract" and isinstance(kind := operation.operands[0].type, builtin.TensorType):
        index_count, rank = len(operation.operands) - 1, kind.get_num_dims()
        if index_count != rank:
            raise VerifyException(f"it has {index_count} indices for {rank} dims")
