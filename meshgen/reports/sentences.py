"""Explain a collective in one plain sentence.

    you split dim 0 of `layers.0.wo` over tp and dot_general (model.py:21) sums over it, so each device has a partial
    sum; add (model.py:33) needs the whole value

The sentence is made from the resharded value and from the chains of reasons for the axes. `explain -v` shows both in
the notation of shardings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from meshgen.errors import Location, bracketed, location_text
from meshgen.mesh import overlaps
from meshgen.reports.collectives import ReshardingCollective
from meshgen.reports.comms import Collective
from meshgen.reports.reshard_edges import Edge
from meshgen.reports.tables import counted
from meshgen.reports.value_reasons import reasons_of
from meshgen.sharding.propagation.chains import Chain
from meshgen.spec import Sharding

_ANNOTATION = re.compile(
    r"(?P<strength>required|hint) annotation .* of (?P<subject>[^%]*)%(?P<name>\S+)(?: \((?P<place>.*)\))?"
)
_WORK = re.compile(r"the work of '(\w+)'(?: \((.*)\))?")
_KINDS = {"sum": "sum", "max": "maximum", "min": "minimum", "product": "product", "and": "conjunction", "or": "disjunction"}  # fmt: skip
REDUCING = ("all_reduce", "reduce_scatter")


def sentence_of(collective: ReshardingCollective) -> str:
    """Return a sentence with the reason for a collective. If it serves several reshard edges, the first one is
    explained.
    """
    if not collective.edges:
        return _noted_reason(collective.row)
    edge, other_count = collective.edges[0], len(collective.edges) - 1
    other_values = f"; {counted(other_count, 'more value')} in the same message" if other_count else ""
    return f"{_edge_sentence(collective, edge)}{other_values}"


def named(name: str) -> str:
    """Quote a value's name for a sentence. Returns "" if the name is only a number."""
    bare = name.lstrip("%")
    return f"`{bare}`" if bare and bare != "?" and not bare.isdigit() and " " not in bare else ""


def op_text(op: str, loc: Location | None) -> str:
    """Return an op with its source location as text, such as `add (model.py:33)`. The scope is omitted."""
    return op + bracketed(location_text(loc).partition(" in ")[0])


def _edge_sentence(collective: ReshardingCollective, edge: Edge) -> str:
    row, chains = collective.row, [chain for _, chain in collective.chains(edge.value)]
    over, use, remaining_split = " and ".join(row.axes), _use_text(edge), _remaining_split(edge.target, row.axes)
    if row.kind in REDUCING:
        needed_form = "the whole" if row.kind == "all_reduce" else "it in another layout"
        needed = f"its own part of it ({remaining_split})" if remaining_split else needed_form
        kind = _KINDS.get(row.reduction, row.reduction or "sum")
        cause = (
            " and ".join(_partial_because(chain, kind) for chain in chains)
            or f"{_producer_text(edge)} is reduced over {over}"
        )
        return f"{cause}, so each device has a partial {kind}; {use} {needed}"
    cause = (
        " and ".join(_split_because(chain, edge) for chain in chains) or f"{_producer_text(edge)} is split over {over}"
    )
    work_reason = _conflicting_work(collective, edge)
    if row.kind == "all_gather":
        return f"{cause}; {use} {f'more of it ({remaining_split})' if remaining_split else 'all of it'}{work_reason}"
    if row.kind == "all_to_all":
        return f"{cause}; {use} it split along another dim ({remaining_split or over}){work_reason}"
    return f"{cause}; {use} rows that other devices hold"


def _producer_text(edge: Edge) -> str:
    name = named(edge.value.name)
    if edge.maker is None:
        return f"argument {name}" if name else "an argument"
    producer = op_text(edge.maker.op, edge.maker.loc)
    return f"{name}, the result of {producer}" if name else f"the result of {producer}"


def _use_text(edge: Edge) -> str:
    """Return the first use of the resharded value with a verb, such as `add (model.py:33) needs`."""
    if not edge.uses:
        return "the result of the program needs"
    node, other_count = edge.uses[0], len(edge.uses) - 1
    other_uses = f" and {counted(other_count, 'more use')} need" if other_count else " needs"
    return op_text(node.op, node.loc) + other_uses


def _remaining_split(sharding: Sharding, axes: Sequence[str]) -> str:
    """Return as text the dims that stay split over some of `axes`, such as `dim 1 over tp`, or "" if none does."""
    axes_by_dim = {
        dim: [axis for axis in used if any(overlaps(axis, reduced) for reduced in axes)]
        for dim, used in enumerate(sharding.dims)
    }
    return ", ".join(f"dim {dim} over {' and '.join(used)}" for dim, used in axes_by_dim.items() if used)


def _partial_because(chain: Chain, kind: str) -> str:
    """Return why a value is partial along an axis: the op that reduces a sharded dim, and the annotation that split it."""
    origin, verb = _origin(chain.annotation), "sums over" if kind == "sum" else f"takes the {kind} over"
    tie = next((tie for tie in chain.ties if tie.state.startswith("splits")), None)
    if tie is None:
        return f"{origin} {chain.state} over {chain.axis}"
    reducing_op = op_text(tie.op, tie.location)
    dim = tie.state.removeprefix("splits ")
    name = named(tie.value)
    if name and name == _annotated_value_name(chain.annotation):
        return f"you split {dim} of {name} over {chain.axis} and {reducing_op} {verb} it"
    return f"{dim} of {name or 'an operand'} is split over {chain.axis} ({origin}) and {reducing_op} {verb} it"


def _split_because(chain: Chain, edge: Edge) -> str:
    name, producer = _annotated_value_name(chain.annotation), _producer_text(edge)
    if name and name == named(edge.value.name):
        return f"you split {producer} over {chain.axis}"
    return f"{producer} is split over {chain.axis} ({_origin(chain.annotation)})"


def _conflicting_work(collective: ReshardingCollective, edge: Edge) -> str:
    """Return why the use needs another sharding: the work of the using op is already split over the collective's
    axes.
    """
    reasons = reasons_of(collective.part)
    planned = [value for value in edge.users if reasons and reasons.same(value)]
    chains = collective.chains(*planned[:1])
    return "".join(
        f", because its own work is split over {chain.axis} ({_origin(chain.annotation)})" for _, chain in chains[:1]
    )


def _annotated_value_name(text: str) -> str:
    """Return the value name in the text of an annotation, or "" if `text` is not about an annotation."""
    match = _ANNOTATION.fullmatch(text)
    return named(match["name"]) if match else ""


def _origin(text: str) -> str:
    """Return the annotation or other cause at the end of a chain of reasons, in the user's words."""
    if match := _ANNOTATION.fullmatch(text):
        unnamed = f"the value at {match['place']}" if match["name"] == "?" and match["place"] else ""
        subject = named(match["name"]) or unnamed or f"{match['subject']}%{match['name']}"
        return f"you annotated {subject}" if match["strength"] == "required" else f"your hint on {subject}"
    if match := _WORK.fullmatch(text):
        return f"the compiler splits the work of {match[1]}{bracketed((match[2] or '').partition(' in ')[0])}"
    return text


def _noted_reason(row: Collective) -> str:
    """Return the first clause of the reason that the compiler noted for a collective, or a text for a user-written
    collective.
    """
    return row.why.partition("; ")[0] or "the program is written with it"
