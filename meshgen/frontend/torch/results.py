"""The outputs of an exported program: the results of the user's function in their structure, and beside them state that changes, and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from meshgen.calls.classes import constant_form
from meshgen.calls.nodes import Branch, Node, Slot
from meshgen.frontend.torch.document import Json, argument_of, only
from meshgen.frontend.torch.entries import Entry
from meshgen.frontend.torch.trees import Tree
from meshgen.frontend.torch.values import Values
from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Value

# Outputs that are not what the user's function returns: their group in the result, and the name in their entry.
GROUPS = {
    "buffer_mutation": ("buffers", "buffer_name"), "parameter_mutation": ("buffers", "parameter_name"),
    "user_input_mutation": ("inputs", "user_input_name"),
    "gradient_to_parameter": ("gradients", "parameter_name"), "gradient_to_user_input": ("gradients", "user_input_name"),
}  # fmt: skip
_OPEN = {bool: "i1", int: "i64", float: "f64"}  # numbers that depend on open sizes, as tensors


@dataclass
class Results:
    """The outputs: their values, the groups beside the user's results, and the inputs that are donated to them."""

    is_open: bool
    values: list[Value] = field(default_factory=list[Value])
    groups: dict[str, dict[str, Node]] = field(default_factory=dict[str, dict[str, Node]])
    donations: dict[int, int | None] = field(default_factory=dict[int, "int | None"])

    def add(self, value: Any, is_of_sizes: bool = False) -> Node:
        """Return the node of an output: a slot for a tensor; numbers, texts and None are part of the structure.

        A number that depends on the sizes which are open is a tensor in the program, and a number again for callers.
        """
        if isinstance(value, Tensor):
            self.values.append(value.value)
            return Slot(f"result.{len(self.values) - 1}", len(self.values) - 1)
        form = constant_form(value)
        if is_of_sizes and self.is_open and type(value) in _OPEN:
            return Branch([("value", self.add(full((), value, _OPEN[type(value)])))], form)
        return Branch((), form)

    def put(self, group: str, entry: Entry | None, name: str, value: Any) -> None:
        """Add an output besides the user's; the input that it is the next value of is donated to it."""
        if not isinstance(value, Tensor):
            return
        slot = self.add(value)
        if group != "gradients" and entry is not None and isinstance(slot, Slot):
            name = entry.called or name
            if entry.number is not None:
                self.donations[entry.number] = slot.number
        self.groups.setdefault(group, {})[name] = slot


def results_of(specs: Sequence[Json], entries: Sequence[Entry], values: Values, tree: Tree, is_open: bool) -> tuple[Results, Node]:  # fmt: skip
    """Return the outputs, and their structure: that of the user's function, beside what it changes and gradients by name."""
    results = Results(is_open)
    nodes = [_user_result(kind, content, values, results) for kind, content in map(only, specs) if kind in ("user_output", "loss_output")]  # fmt: skip
    by_target = {each.target: each.tied or each for each in entries}
    for kind, content in map(only, specs):
        if kind in GROUPS:
            group, key = GROUPS[kind]
            results.put(group, by_target.get(content[key]), content[key], values[content["arg"]["name"]])
    for each in entries:
        if each.before is not None and each.tied is None and (after := values[each.name]) is not each.before:
            results.put("inputs" if each.kind == "user_input" else "buffers", each, each.target, after)
    if len(results.values) == 1 and not results.groups:
        nodes = [Slot("result", 0) if isinstance(node, Slot) else node for node in nodes]
    own = tree.node(nodes) if tree.leaves == len(nodes) else Branch((f"{i}", node) for i, node in enumerate(nodes))
    groups = [(group, Branch(held.items())) for group, held in results.groups.items()]
    return results, Branch([("result", own), *groups]) if groups else own


def _user_result(kind: str, content: Json, values: Values, results: Results) -> Node:
    argument: Json = content["arg"] if kind == "user_output" else {"as_tensor": content["arg"]}
    value = argument_of(argument, values.__getitem__, lambda _: None)
    return results.add(value, is_of_sizes=only(argument)[0].startswith("as_sym"))
