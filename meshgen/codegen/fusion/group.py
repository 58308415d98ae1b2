"""A group of nodes that become one kernel."""

from __future__ import annotations

from dataclasses import dataclass, field

from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.fusion.space import Space
from meshgen.ir.graph import Node, Value


@dataclass(eq=False)
class Group:
    """A group of nodes that become one kernel.

    Attributes:
        number: the position of the group in the order of creation.
        form: the form of the kernel.
        space: the iteration space of the kernel.
        members: the nodes that only this group computes, in the order in which they were added.
        before, after: groups that this group directly depends on, and groups that directly depend on this group.
        reads: values that the kernel loads from memory.
        waits: values that must be computed before the kernel runs, even if the kernel does not read them.
        extra: nodes of other groups that this kernel recomputes.
        once: operands of the group's dots of which only few programs read each element.
        level: length of the longest path from a group without predecessors.
        needs: bit set of the numbers of all transitive predecessors. It may include predecessors through groups that
            were removed.
        length: upper bound for the longest chain of dependent nodes, counting members and recomputed free nodes.
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
