"""The table of ONNX operators, and one call of an operator as its function sees it.

    @op("Reshape", known=(1,))
    def reshape(call, x, shape): ...

    enter_rows({"Flatten": lambda call, x: flattened(x, call["axis"])})
    enter_traced("Abs=abs Neg=negative")

A function takes the operands as tensors, None where one is left out, and returns the result, or the results, of which the last ones may
not be read. Where it asks for the numbers of an operand, the operand is an array. It is written for all opsets: what was an attribute
and has become an operand is one (`older.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, ProgramError, about
from meshgen.frontend.tracer import OPS
from meshgen.frontend.tracer.operands import dtype_of, tensor
from meshgen.frontend.tracer.recording import refuse, user_location
from meshgen.frontend.tracer.tensor import Operand, Tensor

Array = np.ndarray[Any, Any]
MOST_NUMBERS = 1 << 25  # of an array that is computed while a model is read, such as the numbers of rows
Function = Callable[..., Any]
Numbers = Sequence[int]
ALL: Numbers = range(1 << 16)  # the numbers of all operands
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Operator:
    """How an operator is imported.

    Attributes:
        function: called with the call and its operands.
        known: numbers of operands whose elements decide shapes: arrays for the function, refused where they are data.
        constant: numbers of operands that are arrays for the function where they are initializers, and may be data.
        plain: numbers of operands that are arrays for the function where they are known; initializers are tensors.
    """

    function: Function
    known: Numbers = ()
    constant: Numbers = ()
    plain: Numbers = ()

    def __call__(self, call: Call, operands: Sequence[Any]) -> Any:
        """Return what the function returns for operands that are tensors, sequences, arrays where they are known, and None."""
        return self.function(call, *(self._taken(number, each) for number, each in enumerate(operands)))

    def _taken(self, number: int, operand: Any) -> Any:
        takes_array = any(number in each for each in (self.known, self.constant, self.plain))
        return tensor(operand) if isinstance(operand, np.ndarray) and not takes_array else operand


class Elements(list[Any]):
    """A sequence of ONNX: one value that holds several tensors."""


TABLE: dict[tuple[str, str], Operator] = {}


def op(*names: str, domain: str = "", **operands: Numbers) -> Callable[[Function], Function]:
    """Enter a function for operators of a domain; `operands` are fields of `Operator`."""

    def enter(function: Function) -> Function:
        TABLE.update({(domain, name): Operator(function, **operands) for name in names})
        return function

    return enter


def enter_rows(rows: Mapping[str, Function], how: Callable[[Function], Function] = lambda function: function,
               domain: str = "", **operands: Numbers) -> None:  # fmt: skip
    """Enter functions by the names of their operators, which spaces separate; `how` makes each a function of the call and its operands."""
    for names, function in rows.items():
        op(*names.split(), domain=domain, **operands)(how(function))


def enter_traced(names: str) -> None:
    """Enter the tracer's functions of operands alone: `Neg=negative` is the operator `Neg`, which the function `negative` computes."""
    pairs = (each.split("=") for each in names.split())
    enter_rows({name: OPS[function] for name, function in pairs}, lambda function: lambda call, *operands: function(*operands))  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One node of a model.

    Attributes:
        op, name: its operator, and its own name; empty where it has none.
        version: the opset of its domain.
        attributes: what it says, over the defaults of its schema.
        results: how many results are read; the last ones may be left out.
        run: runs a graph of its attributes: `run(graph, operands)` gives the results.
    """

    op: str
    name: str
    version: int
    attributes: Mapping[str, Any]
    results: int
    run: Callable[[Any, Sequence[Any]], list[Any]]

    def __getitem__(self, name: str) -> Any:
        """An attribute; None where it has neither a value nor a default."""
        return self.attributes.get(name)


class DataOperandError(ProgramError):
    """An operand whose numbers must be known while the model is read is data."""

    def __init__(self, operand: Tensor, what: str, why: str) -> None:
        self.operand = operand
        hint = "make it a constant or an initializer of the model"
        super().__init__(Diagnostic("MG0104", f"'{what}' {why}, but is data here", user_location(), hint=hint))


def array_of(given: Any, what: str, why: str = "decides shapes") -> Array:
    """The elements of an operand. Raises DataOperandError where they are data; the message says why they must be known."""
    if isinstance(given, Tensor):
        raise DataOperandError(given, what, why)
    return np.asarray(given)


def require_few(what: str, *sizes: int) -> None:
    """Raise ProgramError MG0108 for an array of these sizes that is too large to be computed while the model is read."""
    if (count := math.prod(map(int, sizes))) > MOST_NUMBERS:
        hint = f"the limit is {MOST_NUMBERS:,}"
        refuse(f"{what} needs {about(count)} numbers that are computed while the model is read", hint, "MG0108")


def dim_of(axis: Any, rank: int) -> int:
    """A dim counted from the front. Raises ProgramError MG0104 if it is out of range."""
    if not -rank <= int(axis) < max(rank, 1):
        refuse(f"axis {int(axis)} is out of range for a tensor of rank {rank}")
    return int(axis) % max(rank, 1)


def dims_of(axes: Array, rank: int) -> list[int]:
    """Dims counted from the front."""
    return [dim_of(each, rank) for each in np.atleast_1d(axes)]


def kind_of(x: Operand) -> str:
    """The element type of an operand, as the IR names it."""
    return x.type.dtype if isinstance(x, Tensor) else dtype_of(np.asarray(x).dtype)
