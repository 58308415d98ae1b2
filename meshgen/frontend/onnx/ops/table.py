"""The table of import rules for ONNX operators, and the `Call` that a rule receives.

    @op("Reshape", known=(1,))
    def reshape(call, x, shape): ...

    enter_rows({"Flatten": lambda call, x: flattened(x, call["axis"])})
    enter_traced("Abs=abs Neg=negative")

A rule gets the call and its operands: tensors, or None for an omitted operand. Operands whose indices are in `known`,
`constant` or `plain` may be arrays. A rule returns one or several results; trailing results may be unused.

One rule covers all opsets: `opset_conversion.py` converts attributes that became operands later.
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
# Elements of the largest array (such as a table of row indices) that the importer computes. Chosen to bound memory and
# import time.
MAX_ARRAY_ELEMENTS = 1 << 25
Function = Callable[..., Any]
Numbers = Sequence[int]
ALL: Numbers = range(1 << 16)  # Marks all operands of an operator, however many there are.
MICROSOFT = "com.microsoft"


@dataclass(frozen=True)
class Operator:
    """The import rule of an operator.

    Attributes:
        function: imports a call; gets the `Call` and its operands.
        known: indices of operands that determine shapes. The function gets arrays; a tensor is an error.
        constant: indices of operands that the function gets as arrays if they are initializers or other compile-time
            values, else as tensors.
        plain: indices of operands that the function gets as arrays if they are compile-time values other than
            initializers, else as tensors.
    """

    function: Function
    known: Numbers = ()
    constant: Numbers = ()
    plain: Numbers = ()

    def __call__(self, call: Call, operands: Sequence[Any]) -> Any:
        """Call the function. Arrays are converted to tensors except for operands that the function accepts as arrays."""
        return self.function(call, *(self._taken(index, operand) for index, operand in enumerate(operands)))

    def _taken(self, index: int, operand: Any) -> Any:
        takes_array = any(index in indices for indices in (self.known, self.constant, self.plain))
        return tensor(operand) if isinstance(operand, np.ndarray) and not takes_array else operand


class Elements(list[Any]):
    """An ONNX sequence: a list of tensors that is a single value in the model."""


TABLE: dict[tuple[str, str], Operator] = {}


def op(*names: str, domain: str = "", **operands: Numbers) -> Callable[[Function], Function]:
    """Return a decorator that registers a function for the operators `names`; `operands` are fields of `Operator`."""

    def enter(function: Function) -> Function:
        TABLE.update({(domain, name): Operator(function, **operands) for name in names})
        return function

    return enter


def enter_rows(rows: Mapping[str, Function], how: Callable[[Function], Function] = lambda function: function,
               domain: str = "", **operands: Numbers) -> None:  # fmt: skip
    """Register functions by operator name, or by several names separated by spaces.

    `how` converts each function of `rows` to one that takes the call and its operands.
    """
    for names, function in rows.items():
        op(*names.split(), domain=domain, **operands)(how(function))


def enter_traced(names: str) -> None:
    """Register functions of the tracer, which take the operands only. `Neg=negative` registers `negative` for `Neg`."""
    pairs = (item.split("=") for item in names.split())
    enter_rows({name: OPS[function] for name, function in pairs}, lambda function: lambda call, *operands: function(*operands))  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A node of a model, as the functions in the table receive it.

    Attributes:
        op: the operator's name.
        name: the node's name, or empty.
        version: the opset of the operator's domain.
        attributes: the node's attributes, and default values from the schema.
        results: the number of results up to the last one that is used.
        run: imports a subgraph: `run(graph, operands)` returns the subgraph's results.
    """

    op: str
    name: str
    version: int
    attributes: Mapping[str, Any]
    results: int
    run: Callable[[Any, Sequence[Any]], list[Any]]

    def __getitem__(self, name: str) -> Any:
        """Return the value of the attribute `name`, or None if it has neither a value nor a default."""
        return self.attributes.get(name)


class DataOperandError(ProgramError):
    """Error for an operand whose elements must be known at import but are computed by the program."""

    def __init__(self, operand: Tensor, operand_name: str, purpose: str) -> None:
        self.operand = operand
        hint = "make it a constant or an initializer of the model"
        super().__init__(
            Diagnostic("MG0104", f"'{operand_name}' {purpose}, but is data here", user_location(), hint=hint)
        )


def array_of(operand: Any, operand_name: str, purpose: str = "decides shapes") -> Array:
    """Return the elements of an operand.

    Raises DataOperandError for a tensor; `purpose` says why the elements must be known.
    """
    if isinstance(operand, Tensor):
        raise DataOperandError(operand, operand_name, purpose)
    return np.asarray(operand)


def require_small_array(operator: str, *sizes: int) -> None:
    """Raise ProgramError MG0108 if an array of these sizes has more than `MAX_ARRAY_ELEMENTS` elements."""
    if (count := math.prod(map(int, sizes))) > MAX_ARRAY_ELEMENTS:
        hint = f"the limit is {MAX_ARRAY_ELEMENTS:,}"
        refuse(f"{operator} needs an array of {about(count)} numbers at import", hint, "MG0108")


def dim_of(axis: Any, rank: int) -> int:
    """Return a dim counted from the front. Raises ProgramError MG0104 if `axis` is out of range."""
    if not -rank <= int(axis) < max(rank, 1):
        refuse(f"axis {int(axis)} is out of range for a tensor of rank {rank}")
    return int(axis) % max(rank, 1)


def dims_of(axes: Array, rank: int) -> list[int]:
    """Return dims counted from the front."""
    return [dim_of(axis, rank) for axis in np.atleast_1d(axes)]


def kind_of(x: Operand) -> str:
    """Return the IR dtype of an operand."""
    return x.type.dtype if isinstance(x, Tensor) else dtype_of(np.asarray(x).dtype)
