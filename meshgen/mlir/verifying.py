"""Checks of an xDSL module before conversion, which report all faults at once."""

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
from meshgen.mlir.reading import Reading

_STRUCTURE = ("builtin.module", "func.func", "func.return", "stablehlo.return", "sdy.return")

_LOOK_OUTSIDE = IsolatedFromAbove.verify


def raise_faults(reading: Reading) -> None:
    if reading.faults:
        raise ProgramError(*grouped(reading.faults))


def refuse_unknown(top: Operation, reading: Reading) -> None:
    """Report each unsupported operation name at its first location, and each undefined operand."""
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
    """Check all operations against their definitions: operand and result counts, properties, regions."""
    if any(block.args for region in top.regions for block in region.blocks):
        reading.fault("MG0104", "builtin.module: its region must have no arguments", top)
    with visible_once():
        _verify_inside(top, reading, set())
    raise_faults(reading)


@contextmanager
def visible_once() -> Generator[None]:
    """Disable xDSL's search for captured values in functions: `_verify_with_regions` does it in one pass and reports
    the operation.
    """
    trait: Any = IsolatedFromAbove
    trait.verify = lambda *_: None
    try:
        yield
    finally:
        trait.verify = _LOOK_OUTSIDE  # not the previous value: another thread may be inside this context


def _verify_inside(parent: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    """Verify all operations in the regions of `parent`, given the SSA values that are `visible` there."""
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
    """Whether an operation repeats a verified one and is self-contained, so that it needs no verification."""
    return reading.source.like(operation) in reading.sound and operation.name in reading.dialects.self_contained


def _verify_with_regions(parent: Operation, operation: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    fault_count = len(reading.faults)
    _verify_place(parent, operation, reading)
    if reading.source.like(operation) not in reading.sound:
        _verify_one(operation, reading)
    _verify_operands(operation, reading, visible)
    if len(reading.faults) == fault_count and (verify := reading.dialects.verifiers.get(operation.name)):
        verify(reading, operation)
    if len(reading.faults) == fault_count:  # Checks of nested operations may rely on what the malformed parent lacks.
        _verify_inside(operation, reading, set() if isinstance(operation, func.FuncOp) else visible)
    if len(reading.faults) == fault_count:
        reading.sound.add(operation)


def _verify_operands(operation: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    """Check that every operand is defined before its use."""
    for index, operand in enumerate(operation.operands):
        if operand not in visible:
            reading.fault("MG0104", f"{operation.name}: operand {index} is used before it is defined", operation)


def _verify_place(parent: Operation, operation: Operation, reading: Reading) -> None:
    """Check that functions and declarations are in a module, and other operations in a function.

    Some are allowed in both.
    """
    dialects = reading.dialects
    if operation.name in dialects.module_ops and operation.name in dialects.importers:
        return
    is_declaration = isinstance(operation, func.FuncOp | builtin.ModuleOp) or operation.name in dialects.module_ops
    if isinstance(parent, builtin.ModuleOp) != is_declaration:
        parent_name = "a module" if isinstance(parent, builtin.ModuleOp) else "a function"
        reading.fault("MG0104", f"{operation.name} is not allowed in {parent_name}", operation)


def _verify_one(operation: Operation, reading: Reading) -> None:
    """Verify an operation against its definition and its signature."""
    try:
        if not isinstance(operation, func.CallOp):  # A call is checked when its callee is inlined.
            verify_definition(operation)
        _verify_indices(operation)
    except Exception as error:  # xDSL's verifiers raise VerifyException, some of them also other exceptions.
        message = (str(error).strip() or type(error).__name__).splitlines()[-1]
        reading.fault("MG0104", f"{operation.name}: {message}", operation)
    signature = reading.dialects.signature_of(type(operation))
    for message in signature.faults(operation) if signature is not None else ():
        reading.fault("MG0104", f"{operation.name}: {message}", operation)


def verify_definition(operation: Operation) -> None:
    """Run xDSL's verifier. Raises its exception without the text of the whole program, which xDSL would append."""
    vars(operation)["emit_error"] = _raise_alone
    try:
        operation.verify(verify_nested_ops=False)
    finally:
        del vars(operation)["emit_error"]


def _raise_alone(_message: str, fault: Exception) -> NoReturn:
    raise fault


def _verify_indices(operation: Operation) -> None:
    """Check that `tensor.extract` has one index per dim. Raises VerifyException."""
    if operation.name == "tensor.extract" and isinstance(kind := operation.operands[0].type, builtin.TensorType):
        index_count, rank = len(operation.operands) - 1, kind.get_num_dims()
        if index_count != rank:
            raise VerifyException(f"it has {index_count} indices for {rank} dims")
