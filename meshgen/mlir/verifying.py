"""Checks of a program as xDSL has read it, with all faults at once."""

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
    """A fault for each kind of unsupported operation, at its first location, and for undefined operands."""
    first: dict[str, Operation] = {}
    for operation in reading.originals(top):
        known = reading.dialects.is_read(operation.name) or operation.name in _STRUCTURE
        if not known and operation.name not in first:
            first[operation.name] = operation
        if any(isinstance(operand, ForwardDeclaredValue) for operand in operation.operands):
            reading.fault("MG0104", f"{operation.name}: an operand is used where it is not defined", operation)
    for name, operation in first.items():
        reading.fault("MG0103", f"operation {name} is not supported", operation)
    raise_faults(reading)


def verify_operations(top: Operation, reading: Reading) -> None:
    """Verify the definitions of the operations: counts of operands and results, properties, regions."""
    if any(block.args for region in top.regions for block in region.blocks):
        reading.fault("MG0104", "builtin.module: its region must have no arguments", top)
    with visible_once():
        _verify_inside(top, reading, set())
    raise_faults(reading)


@contextmanager
def visible_once() -> Generator[None]:
    """Within it, xDSL does not look for what functions use from outside: `_verify_with_regions` does, and names the operation."""
    trait: Any = IsolatedFromAbove
    trait.verify = lambda *_: None
    try:
        yield
    finally:
        trait.verify = _LOOK_OUTSIDE  # not what it was before: another thread may be in here


def _verify_inside(parent: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    """Every operation in the regions of `parent`, around which values are `visible`, and what is in those that are well-formed."""
    for block in (block for region in parent.regions for block in region.blocks):
        own: list[SSAValue] = list(block.args)
        visible.update(own)
        for operation in block.ops:
            if not _is_sound(operation, reading):
                _verify_with_regions(parent, operation, reading, visible)
            elif not visible.issuperset(operation.operands):
                _verify_operands(operation, reading, visible)
            own += operation.results
            visible.update(operation.results)
        visible.difference_update(own)


def _is_sound(operation: Operation, reading: Reading) -> bool:
    """Whether an operation is like one in which nothing is wrong, and all that can be is in what they have in common."""
    return reading.source.like(operation) in reading.sound and operation.name in reading.dialects.self_contained


def _verify_with_regions(parent: Operation, operation: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    count = len(reading.faults)
    _verify_place(parent, operation, reading)
    if reading.source.like(operation) not in reading.sound:
        _verify_one(operation, reading)
    _verify_operands(operation, reading, visible)
    if len(reading.faults) == count and (verify := reading.dialects.verifiers.get(operation.name)):
        verify(reading, operation)
    if len(reading.faults) == count:  # what is in a malformed one may ask for what that lacks
        _verify_inside(operation, reading, set() if isinstance(operation, func.FuncOp) else visible)
    if len(reading.faults) == count:
        reading.sound.add(operation)


def _verify_operands(operation: Operation, reading: Reading, visible: set[SSAValue]) -> None:
    """What an operation takes is made before it."""
    for number, operand in enumerate(operation.operands):
        if operand not in visible:
            reading.fault("MG0104", f"{operation.name}: operand {number} is used before it is defined", operation)


def _verify_place(parent: Operation, operation: Operation, reading: Reading) -> None:
    """A module holds functions and declarations, a function operations; some operations are allowed in both."""
    dialects = reading.dialects
    if operation.name in dialects.module_ops and operation.name in dialects.importers:
        return
    is_declaration = isinstance(operation, func.FuncOp | builtin.ModuleOp) or operation.name in dialects.module_ops
    if isinstance(parent, builtin.ModuleOp) != is_declaration:
        place = "a module" if isinstance(parent, builtin.ModuleOp) else "a function"
        reading.fault("MG0104", f"{operation.name} is not allowed in {place}", operation)


def _verify_one(operation: Operation, reading: Reading) -> None:
    """Verify the definition of an operation, and its signature."""
    try:
        if not isinstance(operation, func.CallOp):  # what it calls is checked when it is inlined
            verify_definition(operation)
        _verify_indices(operation)
    except Exception as error:  # xDSL's verifiers raise VerifyException, some of them also plain ones
        message = (str(error).strip() or type(error).__name__).splitlines()[-1]
        reading.fault("MG0104", f"{operation.name}: {message}", operation)
    signature = reading.dialects.signature_of(type(operation))
    for message in signature.faults(operation) if signature is not None else ():
        reading.fault("MG0104", f"{operation.name}: {message}", operation)


def verify_definition(operation: Operation) -> None:
    """Raises what xDSL finds wrong, without the text of the whole program that it would add to every fault."""
    vars(operation)["emit_error"] = _raise_alone
    try:
        operation.verify(verify_nested_ops=False)
    finally:
        del vars(operation)["emit_error"]


def _raise_alone(_message: str, fault: Exception) -> NoReturn:
    raise fault


def _verify_indices(operation: Operation) -> None:
    """An element is at one place per dim. Raises VerifyException."""
    if operation.name == "tensor.extract" and isinstance(kind := operation.operands[0].type, builtin.TensorType):
        have, rank = len(operation.operands) - 1, kind.get_num_dims()
        if have != rank:
            raise VerifyException(f"it has {have} indices for {rank} dims")
