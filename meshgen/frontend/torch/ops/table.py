"""The table of PyTorch operations: it maps each operation to a function on traced tensors with the same arguments.

    @aten("glu")
    def glu(x, dim=-1): ...

    enter_rows({"leaky_relu": lambda x, negative_slope=0.01: nn.leaky_relu(x, negative_slope)})
    enter_traced("exp log special_psi=digamma", in_floats)

Arguments are passed by position or keyword as in the program, except that arguments about the device and the layout
are dropped. Dtypes are the IR's (`f32`). A name without an overload covers all overloads. Operations of other libraries
have their namespace in the name, as in `transformers.grouped_mm_fallback`. `mutates` has the indices of mutated
arguments: the function returns their new values after its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from meshgen.frontend.tracer import OPS

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class TorchOp:
    """An operation in the table: the function that computes it, and the indices of the arguments that it mutates."""

    function: Callable[..., Any]
    mutates: tuple[int, ...] = ()


TORCH_OPS: dict[str, TorchOp] = {}


def aten(*names: str, mutates: tuple[int, ...] = ()) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function for operations of the namespace `aten`.

    A name means all overloads (`max`) or a single one (`max.dim`).
    """

    def register(function: _Function) -> _Function:
        TORCH_OPS.update(dict.fromkeys(names, TorchOp(function, mutates)))
        return function

    return register


def _identity(function: _Function) -> _Function:
    return function


def enter_rows(rows: Mapping[str, Callable[..., Any]], how: Callable[..., Any] = _identity) -> None:
    """Register functions by operation name, or by several names separated by spaces.

    `how` adapts each function, for example to convert operands first.
    """
    for names, function in rows.items():
        aten(*names.split())(how(function))


def enter_traced(names: str, how: Callable[..., Any] = _identity) -> None:
    """Register functions of the tracer by name. `sgn=sign` registers the tracer's `sign` for the operation `sgn`."""
    for name, _, function in (item.partition("=") for item in names.split()):
        aten(name)(how(OPS[function or name]))


def find_op(target: str) -> TorchOp | None:
    """Return the entry for a node's target (`torch.ops.aten.add.Tensor`), or None if the operation is unknown.

    An in-place operation (`add_`) gets the entry of `add`, changed to mutate the first argument.
    """
    family, name, overload = (*target.removeprefix("torch.ops.").split("."), "", "")[:3]
    name = name if family == "aten" else f"{family}.{name}"
    if op := TORCH_OPS.get(f"{name}.{overload}") or TORCH_OPS.get(name):
        return op
    if not name.endswith("_") or name.endswith("__"):
        return None
    plain = TORCH_OPS.get(f"{name[:-1]}.{overload}") or TORCH_OPS.get(name[:-1])
    return plain and TorchOp(lambda x, *args, **options: (plain.function(x, *args, **options),) * 2, (0,))
