"""The reason for a collective, as text: the note of the pass that inserted it, or a statement that the user wrote it."""

from __future__ import annotations

from meshgen.errors import bracketed, location_text
from meshgen.ir.graph import Node
from meshgen.ir.op_names import TEXT_NAMES


def reason_of(node: Node) -> str:
    """Return the reason for a collective. Without a note of a pass, the collective is one that the user's program
    contains.
    """
    if node.notes.why:
        return node.notes.why
    where = bracketed(location_text(node.loc))
    return f"the program has an explicit {TEXT_NAMES.get(node.op, node.op)} here{where}"
