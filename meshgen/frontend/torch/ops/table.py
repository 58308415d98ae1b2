"""The table of PyTorch's operations: a function on traced tensors for each, which takes what the operation's schema says.

    @aten("glu")
    def glu(x, dim=-1): ...

    enter_rows({"leaky_relu": lambda x, negative_slope=0.01: nn.leaky_relu(x, negative_slope)})
    enter_traced("exp log special_psi=digamma", in_floats)

Arguments come by position and by keyword as in the program, without those that say where a tensor is (device, layout, ...); element
types are those of the IR (`f32`). A name without an overload stands for all of them. Those of other libraries have
their namespace in the name (`transformers.grouped_mm_fallback`). `mutates` are the positions of arguments
that the operation changes: the function gives their new values after its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from meshgen.frontend.tracer import OPS

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class TorchOp:
    """What an operation computes, and the arguments that it changes."""

    function: Callable[..., Any]
    mutates: tuple[int, ...] = ()


TORCH_OPS: dict[str, TorchOp] = {}


def aten(*names: str, mutates: tuple[int, ...] = ()) -> Callable[[_Function], _Function]:
    """Register a function for operations of the namespace `aten`: `max`, or an overload of it, `max.dim`."""

    def register(function: _Function) -> _Function:
        TORCH_OPS.update(dict.fromkeys(names, TorchOp(function, mutates)))
        return function

    return register


def _as_given(function: _Function) -> _Function:
    return function


def enter_rows(rows: Mapping[str, Callable[..., Any]], how: Callable[..., Any] = _as_given) -> None:
    """Register functions by the names of their operations, which spaces separate; `how` converts the operands of each."""
    for names, function in rows.items():
        aten(*names.split())(how(function))


def enter_traced(names: str, how: Callable[..., Any] = _as_given) -> None:
    """Register the tracer's functions of these names; `sgn=sign` is the operation `sgn`, which the function `sign` computes."""
    for name, _, function in (each.partition("=") for each in names.split()):
        aten(name)(how(OPS[function or name]))


def find_op(target: str) -> TorchOp | None:
    """The operation that a node of a program calls (`torch.ops.aten.add.Tensor`); None for an unknown one.

    One that works in place (`add_`) is the operation without the underscore, whose result its first argument becomes.
    """
    family, name, overload = (*target.removeprefix("torch.ops.").split("."), "", "")[:3]
    name = name if family == "aten" else f"{family}.{name}"
    if found := TORCH_OPS.get(f"{name}.{overload}") or TORCH_OPS.get(name):
        return found
    if not name.endswith("_") or name.endswith("__"):
        return None
    plain = TORCH_OPS.get(f"{name[:-1]}.{overload}") or TORCH_OPS.get(name[:-1])
    return plain and TorchOp(lambda x, *args, **options: (plain.function(x, *args, **options),) * 2, (0,))
