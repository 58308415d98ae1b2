"""What no kernel can be generated for: every op and element type of a program at once, with how often and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from meshgen.codegen.emit.regions import lacking_in
from meshgen.codegen.fusion.attention_loops import has_kernel
from meshgen.errors import CodegenError, Diagnostic, Location, other_places
from meshgen.ir.graph import COMPLEX_PARTS, Graph
from meshgen.ops.classes import ATTENTIONS, GENERATED, NESTS
from meshgen.ops.triton.registers import TRITON_TYPES
from meshgen.runtime.plan import Schedule

_SHOWN = 3  # types of operands per op
_HOLDS = "kernels cannot hold elements of type {}"
_OF_COMPLEX = {_HOLDS.format(dtype) for dtype in COMPLEX_PARTS}


class _Lacking(NamedTuple):
    """An op or a value of a kernel: what it is, the types of its operands, its place."""

    what: str
    types: str
    loc: Location | None


def refuse_lacking(plans: Iterable[Schedule]) -> None:
    """Raise CodegenError MG0301 with each op and element type of the kernels that none can be generated for, the most frequent first."""
    launched = [(plan.kernels[name], count) for plan in plans for name, count in plan.launch_counts().items()]
    if faults := lacking_faults(launched):
        raise CodegenError(*faults)


def lacking_faults(launched: Iterable[tuple[Graph, int]]) -> list[Diagnostic]:
    """The same as diagnostics, from kernels and how often each runs in a step."""
    found: dict[str, list[_Lacking]] = {}
    runs: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    for body, count in launched:
        parts = list(_lacking_parts(body))
        kernels.update({part.what for part in parts})
        for part in parts:
            found.setdefault(part.what, []).append(part)
            runs[part.what] += count
    return [_fault(found[what], kernels[what], count) for what, count in runs.most_common()]


def _lacking_parts(body: Graph) -> Iterator[_Lacking]:
    for node in body.nodes:
        if node.op not in GENERATED | NESTS or (node.op in ATTENTIONS and not has_kernel(node)):
            types = ", ".join(str(value.type) for value in node.operands)
            yield _Lacking(f"no kernel can be generated for '{node.op}'", types, node.loc)
        regions = node.regions if node.op != "recurrence" else ()  # made where a kernel can run it
        for inner in (each for region in regions for each in lacking_in(region)):
            types = ", ".join(str(value.type) for value in inner.operands)
            yield _Lacking(
                f"no kernel can be generated for '{inner.op}' in the region of '{node.op}'", types, inner.loc
            )
    for value in (*body.inputs, *body.outputs):
        if value.type.dtype not in TRITON_TYPES:
            yield _Lacking(_HOLDS.format(value.type.dtype), "", value.loc)


def _fault(found: Sequence[_Lacking], kernels: int, runs: int) -> Diagnostic:
    """The refusal of one op, with the first places."""
    types = list(dict.fromkeys(each.types for each in found if each.types))
    of = f" of {'; '.join(types[:_SHOWN])}" if types else ""
    others = f" and {len(types) - _SHOWN} other types" if types[_SHOWN:] else ""
    often = f": {runs} times a step, in {kernels} kernel{'s' if kernels > 1 else ''}" if runs > 1 else ""
    places = list(dict.fromkeys(each.loc for each in found if each.loc))
    hint = "compile it with --target cpu: it runs on the reference device"
    if found[0].what in _OF_COMPLEX:
        hint = f"an operation has no form for real and imaginary parts (factorisations, products over devices); {hint}"
    text, first = f"{found[0].what}{of}{others}{often}", places[0] if places else None
    return Diagnostic("MG0301", text, first, tuple(other_places(places[1:])), hint)
