"""Bodies of kernels: a body is extracted from a graph, shared by equal kernels, and named after its ops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.predicates import is_kernel
from meshgen.ir.regions import all_nodes, captured, rewired_graph
from meshgen.ir.walks import operands_first
from meshgen.ops.classes import ATTENTIONS, DOTS, GENERATED, LAYOUT, MADE, REDUCTIONS
from meshgen.ops.common_subexpressions import structure
from meshgen.ops.factors import FORWARD

# Ops that appear in names of kernels, most characteristic first. Names omit all other ops.
_TELLING = (
    "gather", "dynamic_update_slice", "dynamic_slice", "concatenate", "tanh", "erf", "logistic", "exponential", "log",
    "sine", "cosine", "rsqrt", "sqrt", "power", "select", "divide", "maximum", "minimum", "multiply", "subtract", "add",
    "negate", "compare", "convert", "transpose", "pad", "slice", "all_slice", "mask_padding", "to_partial", "reverse",
    "broadcast_in_dim", "reshape", "iota",
)  # fmt: skip
_WORDS = 3  # Most ops in the name of a kernel. Chosen: a name of three ops still fits a column of a profile.
_HEAVY = {"dot_general": "dot", "ragged_dot": "ragged_dot", "convolution": "conv"}
_SHORT = {"broadcast_in_dim": "broadcast", "exponential": "exp", "logistic": "sigmoid"}


class Cutter:
    """Copies nodes into a kernel body.

    A value becomes an input of the body if its producer is neither a member of the kernel nor accepted by `copies`.
    """

    def __init__(self, producer: Mapping[Value, Node], copies: Callable[[Node], bool]) -> None:
        self._producer = producer
        self._copies = copies

    def cut(self, members: Sequence[Node], outputs: Sequence[Value]) -> tuple[Graph, list[Value]]:
        """Return the body of a kernel that computes `outputs` with the nodes `members`, and the values that become the
        body's inputs.
        """
        body, now = Graph(""), dict[Value, Value]()
        inside, reads = set(members), list[Value]()

        def copied(value: Value) -> Node | None:
            """Return the producer to copy into the body, or None for values that the body reads or already has."""
            node = None if value in now else self._producer.get(value)
            return node if node is not None and (node in inside or self._copies(node)) else None

        def needs(value: Value) -> Sequence[Value]:
            node = copied(value)
            return () if node is None else (*node.operands, *captured(node))

        roots = [*(value for node in members for value in node.results), *outputs]
        for value in operands_first(roots, needs):
            if value in now:
                continue
            if (node := copied(value)) is not None:
                copy_node(node, body, now)
                continue
            reads.append(value)
            now[value] = Value(value.type, value.name, loc=value.loc)
            body.inputs.append(now[value])
        body.outputs = [now[v] for v in outputs]
        return body, reads


def copy_node(node: Node, body: Graph, now: dict[Value, Value]) -> None:
    """Append a copy of `node` to `body`, with operands replaced according to `now`, and add the results to `now`.

    The copy has no notes, because kernels that differ only in notes share a body.
    """
    regions = tuple(rewired_graph(region, now) for region in node.regions)
    results = [Value(v.type, v.name, loc=v.loc) for v in node.results]
    operands = [now[v] for v in node.operands]
    body.nodes.append(Node(node.op, operands, results, node.attrs, node.loc, regions=regions))
    now.update(zip(node.results, results, strict=True))


def with_kernels(module: Module, graph: Graph, kernels: Kernels) -> Module:
    """Return the module with `graph` as its main graph, and with only the bodies of kernels that `graph` launches."""
    used = {node.attrs.kernel for node in all_nodes(graph) if is_kernel(node)}
    return replace(module, graph=graph, kernels={n: body for n, body in kernels.bodies.items() if n in used})


class Kernels:
    """Kernel bodies by name. Bodies that are equal up to the names of values share one name."""

    def __init__(self) -> None:
        self.bodies: dict[str, Graph] = {}
        self._names: dict[Any, str] = {}

    @classmethod
    def of(cls, bodies: Mapping[str, Graph]) -> Kernels:
        """Create a table of bodies whose names are the keys of `bodies`."""
        table = cls()
        table.bodies |= bodies
        table._names |= {structure(body): name for name, body in bodies.items()}
        return table

    def name_of(self, body: Graph) -> str:
        """Return the name of a body. If the table has no equal body, add the body under a new name."""
        key = structure(body)
        if key not in self._names:
            preferred = _readable_name(body.nodes)
            count = sum(1 for name in self.bodies if name == preferred or name.rpartition("_")[0] == preferred)
            # The count is not a free number if a body with an earlier number was removed, so try further numbers.
            numbered = (f"{preferred}_{i}" for i in itertools.count(count + 1))
            name = next(name for name in (numbered if count else [preferred]) if name not in self.bodies)
            body.name = name
            self.bodies[name] = body
            self._names[key] = name
        return self._names[key]


def _readable_name(nodes: Sequence[Node]) -> str:
    """Return a readable kernel name: the most expensive op or the name of a pattern, then the most characteristic other
    ops.
    """
    ops = {n.op for n in nodes}
    kinds = {n.attrs.kind for n in nodes if n.op in REDUCTIONS}
    if claimed := ops & ATTENTIONS:
        return "attention" if FORWARD in claimed else "attention_gradient"
    if "exponential" in ops and "subtract" in ops and sum(n.op in DOTS for n in nodes) > 2:
        return "attention_gradient"
    if "maximum" in kinds and "add" in kinds and "exponential" in ops:
        return "softmax"
    if "rsqrt" in ops and "add" in kinds:
        return "normalize"
    if rare := [n.op for n in nodes if n.op not in GENERATED]:
        return rare[0]
    words = [name for op, name in _HEAVY.items() if op in ops] or [f"reduce_{reduction}" for reduction in sorted(kinds)]
    other = [op for op in dict.fromkeys(n.op for n in nodes) if op in _TELLING]
    if words or any(op not in LAYOUT for op in other):
        other = [op for op in other if op not in LAYOUT]
    telling = sorted(other, key=_TELLING.index)[: max(0, _WORDS - len(words))]
    words += [_SHORT.get(op, op) for op in other if op in telling]
    return "_".join(words) or "_".join(
        [n for n in dict.fromkeys(n.op for n in nodes) if n not in MADE][:_WORDS] or ["fill"]
    )
