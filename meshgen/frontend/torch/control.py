"""Torch's higher-order operators, whose operands include subgraphs.

They are control flow, and contexts such as `torch.no_grad()`.
"""

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
    """A subgraph of a node, such as a branch, a loop body, or the body of a context.

    Calling it with operands traces the subgraph and returns the results.
    """

    graph: Json
    run: Callable[..., list[Any]]

    def __call__(self, *operands: Any) -> list[Any]:
        return self.run(self.graph, operands)


def run_autocast(device: str, dtype: Any, enabled: bool, cache: Any, part: Part, *operands: Any) -> list[Any]:
    """Trace the body of `torch.autocast`. Raises ProgramError MG0103 if autocast is enabled.

    If it is disabled, the body is traced as it is: torch exports the operations with the dtypes that they use.
    """
    if enabled:
        refuse("a region of torch.autocast chooses types while it runs", "export the model with parameters of the target type", "MG0103")  # fmt: skip
    return part(*operands)


def tensors(values: Sequence[Any]) -> list[Tensor]:
    return [tensor(value) for value in values]


def while_loop(test: Part, step: Part, carried: Sequence[Any], invariants: Sequence[Any] = ()) -> list[Any]:
    """Trace `while test(...): carried = step(...)` and return the final values of `carried`.

    Both subgraphs also get the loop-invariant values `invariants`.
    """
    final_values = control_flow.while_loop(lambda values: test(*values, *invariants)[0], lambda values: tuple(step(*values, *invariants)), tuple(tensors(carried)))  # fmt: skip
    return list(final_values)


def scan(step: Part, carried: Sequence[Any], rows: Sequence[Any], invariants: Sequence[Any] = ()) -> list[Any]:
    """Trace a scan over the first dim of `rows`. The subgraph `step` also gets the loop-invariant values `invariants`.

    Returns:
        The final values of `carried`, then the outputs of all iterations, stacked along a new first dim.
    """
    num_carried = len(carried)

    def body(state: Any, row: Any) -> tuple[Any, Any]:
        results = step(*state, *row, *invariants)
        return tuple(results[:num_carried]), tuple(results[num_carried:])

    last, stacks = control_flow.scan(body, tuple(tensors(carried)), tuple(tensors(rows)))
    return [*last, *stacks]


# Implementations of torch's higher-order operators, by name.
HIGHER_ORDER: Mapping[str, Callable[..., Any]] = {
    "cond": lambda flag, yes, no, operands=(): control_flow.cond(flag, lambda *xs: yes(*xs), lambda *xs: no(*xs), *operands),
    "while_loop": while_loop,
    "scan": scan,
    "map_impl": lambda part, rows, more=(): scan(part, (), rows, more),
    "wrap_with_set_grad_enabled": lambda _enabled, part, *operands: part(*operands),
    "wrap_with_autocast": run_autocast,
}  # fmt: skip
