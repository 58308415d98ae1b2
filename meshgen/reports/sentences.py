"""Why a collective is there, in one plain sentence.

    you split dim 0 of `layers.0.wo` over tp and dot_general (model.py:21) sums over it, so each device has a partial
    sum; add (model.py:33) needs the whole value

The words come from the edge that the collective serves and from the chains of its axes; `explain -v` has both in notation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from meshgen.errors import Location, bracketed, place_text
from meshgen.mesh import overlaps
from meshgen.reports.collectives import Served
from meshgen.reports.comms import Collective
from meshgen.reports.edges import Edge
from meshgen.reports.tables import counted
from meshgen.reports.values import reasons_of
from meshgen.sharding.propagation.chains import Chain
from meshgen.spec import Sharding

_ANNOTATION = re.compile(
    r"(?P<strength>required|hint) annotation .* of (?P<subject>[^%]*)%(?P<name>\S+)(?: \((?P<place>.*)\))?"
)
_WORK = re.compile(r"the work of '(\w+)'(?: \((.*)\))?")
_KINDS = {"sum": "sum", "max": "maximum", "min": "minimum", "product": "product", "and": "conjunction", "or": "disjunction"}  # fmt: skip
REDUCING = ("all_reduce", "reduce_scatter")


def sentence_of(each: Served) -> str:
    """The reason of a collective; of one that serves several edges that of the first."""
    if not each.edges:
        return _as_noted(each.row)
    edge, more = each.edges[0], len(each.edges) - 1
    others = f"; {counted(more, 'more value')} in the same message" if more else ""
    return f"{_of_edge(each, edge)}{others}"


def named(name: str) -> str:
    """A value's name in a sentence; empty for one that has none but a number."""
    plain = name.lstrip("%")
    return f"`{plain}`" if plain and plain != "?" and not plain.isdigit() and " " not in plain else ""


def op_text(op: str, loc: Location | None) -> str:
    """`add (model.py:33)`: an operation with its place, without the name of its scope."""
    return op + bracketed(place_text(loc).partition(" in ")[0])


def _of_edge(each: Served, edge: Edge) -> str:
    row, chains = each.row, [chain for _, chain in each.chains(edge.value)]
    over, use, kept = " and ".join(row.axes), _use(edge), _kept(edge.target, row.axes)
    if row.kind in REDUCING:
        whole = "the whole" if row.kind == "all_reduce" else "it in another layout"
        needed = f"its own part of it ({kept})" if kept else whole
        kind = _KINDS.get(row.reduction, row.reduction or "sum")
        why = " and ".join(_partial_because(chain, kind) for chain in chains) or f"{_made(edge)} is reduced over {over}"
        return f"{why}, so each device has a partial {kind}; {use} {needed}"
    why = " and ".join(_split_because(chain, edge) for chain in chains) or f"{_made(edge)} is split over {over}"
    own = _own_work(each, edge)
    if row.kind == "all_gather":
        return f"{why}; {use} {f'more of it ({kept})' if kept else 'all of it'}{own}"
    if row.kind == "all_to_all":
        return f"{why}; {use} it split along another dim ({kept or over}){own}"
    return f"{why}; {use} rows that other devices hold"


def _made(edge: Edge) -> str:
    name = named(edge.value.name)
    if edge.maker is None:
        return f"argument {name}" if name else "an argument"
    made = op_text(edge.maker.op, edge.maker.loc)
    return f"{name}, the result of {made}" if name else f"the result of {made}"


def _use(edge: Edge) -> str:
    """The first use, with its verb: `add (model.py:33) needs`."""
    if not edge.uses:
        return "the result of the program needs"
    node, more = edge.uses[0], len(edge.uses) - 1
    others = f" and {counted(more, 'more use')} need" if more else " needs"
    return op_text(node.op, node.loc) + others


def _kept(sharding: Sharding, axes: Sequence[str]) -> str:
    """The dims that are split over the axes: `dim 1 over tp`; empty if none is."""
    found = {
        dim: [axis for axis in used if any(overlaps(axis, each) for each in axes)]
        for dim, used in enumerate(sharding.dims)
    }
    return ", ".join(f"dim {dim} over {' and '.join(used)}" for dim, used in found.items() if used)


def _partial_because(chain: Chain, kind: str) -> str:
    """What is reduced over devices along an axis: the dim that an operation reduces, and who split it."""
    origin, verb = _origin(chain.annotation), "sums over" if kind == "sum" else f"takes the {kind} over"
    tie = next((tie for tie in chain.ties if tie.state.startswith("splits")), None)
    if tie is None:
        return f"{origin} {chain.state} over {chain.axis}"
    reducer = op_text(tie.op, tie.location)
    dim = tie.state.removeprefix("splits ")
    name = named(tie.value)
    if name and name == _annotated_value_name(chain.annotation):
        return f"you split {dim} of {name} over {chain.axis} and {reducer} {verb} it"
    return f"{dim} of {name or 'an operand'} is split over {chain.axis} ({origin}) and {reducer} {verb} it"


def _split_because(chain: Chain, edge: Edge) -> str:
    name, made = _annotated_value_name(chain.annotation), _made(edge)
    if name and name == named(edge.value.name):
        return f"you split {made} over {chain.axis}"
    return f"{made} is split over {chain.axis} ({_origin(chain.annotation)})"


def _own_work(each: Served, edge: Edge) -> str:
    """Why the use does not take the value as it is: the devices along the axes split other work of it."""
    reasons = reasons_of(each.part)
    planned = [value for value in edge.users if reasons and reasons.same(value)]
    chains = each.chains(*planned[:1])
    return "".join(
        f", because its own work is split over {chain.axis} ({_origin(chain.annotation)})" for _, chain in chains[:1]
    )


def _annotated_value_name(text: str) -> str:
    """The name of the value that a required annotation or hint is of."""
    match = _ANNOTATION.fullmatch(text)
    return named(match["name"]) if match else ""


def _origin(text: str) -> str:
    """An annotation, or what else a chain ends at, in a user's words."""
    if match := _ANNOTATION.fullmatch(text):
        unnamed = f"the value at {match['place']}" if match["name"] == "?" and match["place"] else ""
        subject = named(match["name"]) or unnamed or f"{match['subject']}%{match['name']}"
        return f"you annotated {subject}" if match["strength"] == "required" else f"your hint on {subject}"
    if match := _WORK.fullmatch(text):
        return f"the compiler splits the work of {match[1]}{bracketed((match[2] or '').partition(' in ')[0])}"
    return text


def _as_noted(row: Collective) -> str:
    """The first clause of the reason that the compiler noted; of a collective that the program itself has, that."""
    return row.why.partition("; ")[0] or "the program is written with it"
