"""The reason for a collective, as text: the record of a pass, or a statement that the user wrote the collective."""

from __future__ import annotations

from meshgen.errors import bracketed, place_text
from meshgen.ir.graph import Node
from meshgen.ir.op_names import TEXT_NAMES


def reason_of(node: Node) -> str:
    """Return the reason for a collective. Without a pass record, the collective is explicit in the program."""
    if node.notes.why:
        return node.notes.why
    where = bracketed(place_text(node.loc))
    return f"the program has an explicit {TEXT_NAMES.get(node.op, node.op)} here{where}"
