"""Hints for errors about values that are only known at run time: they name the model inputs that determine the value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic
from meshgen.frontend.tracer.recording import Trace, current
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import transitive_operands


def source_inputs(x: Tensor, names: Collection[str]) -> list[str]:
    """Return those inputs in `names` that `x` is computed from, in the trace under construction or in one around it."""
    producers: dict[Value, Node] = {}
    trace: Trace | None = current()
    while trace is not None:
        producers |= {result: node for node in trace.graph.nodes for result in node.results}
        trace = trace.around
    ancestors = {value.name for value in transitive_operands([x.value], producers.get) if value not in producers}
    return [name for name in names if name in ancestors]


def remedy(x: Tensor, names: Collection[str], gain: str) -> str:
    """Return a hint to make the inputs that determine `x` constants, or "" if there are none.

    `gain` says what that changes.
    """
    inputs = source_inputs(x, names)
    if not inputs:
        return ""
    args = ", ".join(f"'{name}': mg.constant(...)" for name in inputs)
    options = " ".join(f"--constant {name}=VALUE" for name in inputs)
    return f"{gain} once {' and '.join(f'input {name!r}' for name in inputs)} has a value: args={{{args}}}, on the command line {options}"


def with_hint(faults: Sequence[Diagnostic], hint: str) -> list[Diagnostic]:
    """Return the diagnostics with `hint` in front of the hint of each."""
    return (
        [replace(fault, hint="; ".join(filter(None, (hint, fault.hint)))) for fault in faults] if hint else list(faults)
    )
