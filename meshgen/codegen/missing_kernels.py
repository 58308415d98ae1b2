"""Diagnostics for all ops and element types of a program that kernels do not support, with frequency and location."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from meshgen.codegen.emit.regions import non_elementwise_nodes
from meshgen.codegen.fusion.attention_loops import has_kernel
from meshgen.errors import CodegenError, Diagnostic, Location, further_locations
from meshgen.ir.graph import COMPLEX_PARTS, Graph
from meshgen.ops.classes import ATTENTIONS, GENERATED, NESTS
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.runtime.plan import Schedule

_SHOWN = 3  # most operand types that a diagnostic lists per op (chosen: they fit on a line)
_HOLDS = "kernels cannot hold elements of type {}"
_OF_COMPLEX = {_HOLDS.format(dtype) for dtype in COMPLEX_PARTS}


class _Unsupported(NamedTuple):
    """An op or value that kernels do not support: a description, its operand types, and its location."""

    what: str
    types: str
    loc: Location | None


def require_kernels(plans: Iterable[Schedule]) -> None:
    """Raise CodegenError MG0301 if kernels contain unsupported ops or element types.

    There is one diagnostic for each op or type, the most frequent first.
    """
    launched = [(plan.kernels[name], count) for plan in plans for name, count in plan.launch_counts().items()]
    if faults := missing_kernel_faults(launched):
        raise CodegenError(*faults)


def missing_kernel_faults(launched: Iterable[tuple[Graph, int]]) -> list[Diagnostic]:
    """Return one diagnostic for each unsupported op and element type.

    Args:
        launched: kernel bodies, and how often each body runs in a step.
    """
    parts_of: dict[str, list[_Unsupported]] = {}
    runs: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    for body, count in launched:
        parts = list(_unsupported_parts(body))
        kernels.update({part.what for part in parts})
        for part in parts:
            parts_of.setdefault(part.what, []).append(part)
            runs[part.what] += count
    return [_fault(parts_of[what], kernels[what], count) for what, count in runs.most_common()]


def _unsupported_parts(body: Graph) -> Iterator[_Unsupported]:
    for node in body.nodes:
        if node.op not in GENERATED | NESTS or (node.op in ATTENTIONS and not has_kernel(node)):
            types = ", ".join(str(value.type) for value in node.operands)
            yield _Unsupported(f"no kernel can be generated for '{node.op}'", types, node.loc)
        # The body of a recurrence needs no check, because a recurrence exists only if a kernel can run it.
        regions = node.regions if node.op != "recurrence" else ()
        for inner in (unsupported for region in regions for unsupported in non_elementwise_nodes(region)):
            types = ", ".join(str(value.type) for value in inner.operands)
            yield _Unsupported(
                f"no kernel can be generated for '{inner.op}' in the region of '{node.op}'", types, inner.loc
            )
    for value in (*body.inputs, *body.outputs):
        if value.type.dtype not in TRITON_TYPES:
            yield _Unsupported(_HOLDS.format(value.type.dtype), "", value.loc)


def _fault(parts: Sequence[_Unsupported], kernels: int, runs: int) -> Diagnostic:
    """Return the diagnostic for one op or element type, with its first locations."""
    types = list(dict.fromkeys(part.types for part in parts if part.types))
    of = f" of {'; '.join(types[:_SHOWN])}" if types else ""
    other_types = f" and {len(types) - _SHOWN} other types" if types[_SHOWN:] else ""
    frequency = f": {runs} times a step, in {kernels} kernel{'s' if kernels > 1 else ''}" if runs > 1 else ""
    locations = list(dict.fromkeys(part.loc for part in parts if part.loc))
    hint = "compile it with --target cpu: it runs on the reference device"
    if parts[0].what in _OF_COMPLEX:
        hint = f"an operation has no form for real and imaginary parts (factorizations, products over devices); {hint}"
    text, first = f"{parts[0].what}{of}{other_types}{frequency}", locations[0] if locations else None
    return Diagnostic("MG0301", text, first, tuple(further_locations(locations[1:])), hint)
