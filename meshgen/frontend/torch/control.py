"""Graphs inside the nodes of an exported program: loops, and regions with types of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.frontend.torch.document import Json
from meshgen.frontend.tracer import control_flow
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor


@dataclass(frozen=True)
class Part:
    """A graph inside a node: a branch, a body of a loop, or the inside of a context such as `torch.no_grad()`."""

    graph: Json
    run: Callable[..., list[Any]]

    def __call__(self, *operands: Any) -> list[Any]:
        return self.run(self.graph, operands)


def in_autocast(device: str, dtype: Any, enabled: bool, cache: Any, part: Part, *operands: Any) -> list[Any]:
    """The types of a region are those that its operations were exported with, so only the switched-off context has no effect."""
    if enabled:
        refuse("a region of torch.autocast chooses types while it runs", "export the model with its parameters in the wanted type", "MG0103")  # fmt: skip
    return part(*operands)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    return [tensor(each) for each in values]


def while_loop(test: Part, step: Part, carried: Sequence[Any], more: Sequence[Any] = ()) -> list[Any]:
    """Results are what the loop carries."""
    found = control_flow.while_loop(lambda held: test(*held, *more)[0], lambda held: tuple(step(*held, *more)), tuple(tensors(carried)))  # fmt: skip
    return list(found)


def scan(step: Part, carried: Sequence[Any], rows: Sequence[Any], more: Sequence[Any] = ()) -> list[Any]:
    """Results are what the loop carries, then stacks of what each trip gives."""
    count = len(carried)

    def once(held: Any, row: Any) -> tuple[Any, Any]:
        found = step(*held, *row, *more)
        return tuple(found[:count]), tuple(found[count:])

    last, stacks = control_flow.scan(once, tuple(tensors(carried)), tuple(tensors(rows)))
    return [*last, *stacks]


# Control flow, and contexts, whose inside is part of the program.
HIGHER_ORDER: Mapping[str, Callable[..., Any]] = {
    "cond": lambda flag, yes, no, operands=(): control_flow.cond(flag, lambda *xs: yes(*xs), lambda *xs: no(*xs), *operands),
    "while_loop": while_loop,
    "scan": scan,
    "map_impl": lambda part, rows, more=(): scan(part, (), rows, more),
    "wrap_with_set_grad_enabled": lambda _enabled, part, *operands: part(*operands),
    "wrap_with_autocast": in_autocast,
}  # fmt: skip
