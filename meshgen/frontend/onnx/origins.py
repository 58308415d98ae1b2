"""Hints that name the inputs of a model whose values would decide what is data now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from meshgen.errors import Diagnostic
from meshgen.frontend.tracer.recording import Trace, current
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Node, Value
from meshgen.ir.matchers import values_behind


def inputs_behind(x: Tensor, names: Collection[str]) -> list[str]:
    """The inputs with these names that a tensor is computed from, in the current trace and those around it."""
    producers: dict[Value, Node] = {}
    trace: Trace | None = current()
    while trace is not None:
        producers |= {result: node for node in trace.graph.nodes for result in node.results}
        trace = trace.around
    behind = {value.name for value in values_behind([x.value], producers.get) if value not in producers}
    return [name for name in names if name in behind]


def remedy(x: Tensor, names: Collection[str], gain: str) -> str:
    """The hint to give the inputs behind a tensor a value at compile time; empty if it depends on none."""
    inputs = inputs_behind(x, names)
    if not inputs:
        return ""
    args = ", ".join(f"'{name}': mg.constant(...)" for name in inputs)
    words = " ".join(f"--constant {name}=VALUE" for name in inputs)
    return f"{gain} once {' and '.join(f'input {name!r}' for name in inputs)} has a value: args={{{args}}}, on the command line {words}"


def with_hint(faults: Sequence[Diagnostic], hint: str) -> list[Diagnostic]:
    """The faults with a hint beside their own."""
    return [replace(each, hint="; ".join(filter(None, (hint, each.hint)))) for each in faults] if hint else list(faults)
