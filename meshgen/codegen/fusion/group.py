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
        number: the position in the order in which groups were created.
        form: the form of its kernel.
        space: the iteration space of its kernel.
        members: the nodes that only this group computes, in the order in which they joined.
        before, after: groups that this group directly depends on, and groups that directly depend on it.
        reads: values that it loads from memory.
        waits: values that must be computed before it runs, even if it does not read them.
        extra: nodes of other groups that this group recomputes for itself.
        once: operands of its dots of which few programs need each element.
        level: length of the longest path from a group without predecessors.
        needs: bit set of the numbers of all its transitive predecessors. It may include predecessors through groups
        that were removed.
        length: upper bound of a chain of dependent nodes, both members and the free nodes that they recompute.
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
