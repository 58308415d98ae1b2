"""A group of nodes that become one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.space import Space
from meshgen.ir.graph import Node, Value


@dataclass(eq=False)
class Group:
    """Nodes of one kernel.

    Attributes:
        form: the form of its kernel.
        members: the nodes that only this group computes, in the order in which they joined.
        extra: nodes of other groups that this one computes again for itself.
        before, after: groups that it needs, and that need it, directly.
        length: nodes in a row at most, members and what they compute again.
        reads: values from memory; level: longest way from a group that needs no other.
        waits: values that it must not run before, though it may not read them.
        once: operands of its dots of which each element is needed in few programs only.
        needs: bits, by number, of the groups that it needs, directly or over others, or needed before one of these was removed.
    """

    number: int
    form: KernelForm
    space: Space
    members: list[Node] = field(default_factory=list)
    before: dict[Group, None] = field(default_factory=dict)
    after: dict[Group, None] = field(default_factory=dict)
    reads: dict[Value, None] = field(default_factory=dict)
    waits: dict[Value, None] = field(default_factory=dict)
    extra: dict[Node, None] = field(default_factory=dict)
    once: frozenset[Value] = frozenset()
    level: int = 0
    needs: int = 0
    length: int = 0
