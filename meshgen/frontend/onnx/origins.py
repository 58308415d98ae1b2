"""Hints for errors about data-dependent values, with the model inputs that determine the value."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic
from meshgen.frontend.tracer.recording import Trace, current
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import values_behind


def source_inputs(x: Tensor, names: Collection[str]) -> list[str]:
    """Return the inputs among `names` from which `x` is computed, in the current trace and its enclosing traces."""
    producers: dict[Value, Node] = {}
    trace: Trace | None = current()
    while trace is not None:
        producers |= {result: node for node in trace.graph.nodes for result in node.results}
        trace = trace.around
    ancestors = {value.name for value in values_behind([x.value], producers.get) if value not in producers}
    return [name for name in names if name in ancestors]


def remedy(x: Tensor, names: Collection[str], gain: str) -> str:
    """Return a hint to make the inputs that determine `x` constants, or an empty string if `x` has no such inputs."""
    inputs = source_inputs(x, names)
    if not inputs:
        return ""
    args = ", ".join(f"'{name}': mg.constant(...)" for name in inputs)
    options = " ".join(f"--constant {name}=VALUE" for name in inputs)
    return f"{gain} once {' and '.join(f'input {name!r}' for name in inputs)} has a value: args={{{args}}}, on the command line {options}"


def with_hint(faults: Sequence[Diagnostic], hint: str) -> list[Diagnostic]:
    """Prepend a hint to the hints of the diagnostics."""
    return (
        [replace(fault, hint="; ".join(filter(None, (hint, fault.hint)))) for fault in faults] if hint else list(faults)
    )
