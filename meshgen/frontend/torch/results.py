"""Outputs of an exported program: the user's results in their structure, mutated tensors, and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from meshgen.calls.argument_tree import Branch, Node, Slot
from meshgen.calls.structure_forms import constant_form
from meshgen.frontend.torch.document import Json, only, read_argument
from meshgen.frontend.torch.inputs import Entry
from meshgen.frontend.torch.pytrees import Tree
from meshgen.frontend.torch.views import Values
from meshgen.frontend.tracer.creation import full
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Value

# Kinds of outputs that the user's function does not return: (group in the result, key of the name in the document).
GROUPS = {
    "buffer_mutation": ("buffers", "buffer_name"), "parameter_mutation": ("buffers", "parameter_name"),
    "user_input_mutation": ("inputs", "user_input_name"),
    "gradient_to_parameter": ("gradients", "parameter_name"), "gradient_to_user_input": ("gradients", "user_input_name"),
}  # fmt: skip
# Dtypes of the tensors that stand for numbers that depend on open sizes.
_OPEN = {bool: "i1", int: "i64", float: "f64"}


@dataclass
class Results:
    """Collects the outputs of a program.

    Attributes:
        is_open: whether the program has open sizes.
        values: SSA values of the outputs.
        groups: outputs that the user's function does not return, by group (see `GROUPS`) and name.
        donations: maps the index of a donated input to the index of the output that may reuse its memory.
    """

    is_open: bool
    values: list[Value] = field(default_factory=list[Value])
    groups: dict[str, dict[str, Node]] = field(default_factory=dict[str, dict[str, Node]])
    donations: dict[int, int | None] = field(default_factory=dict[int, "int | None"])

    def add(self, value: Any, is_of_sizes: bool = False) -> Node:
        """Add an output of the program and return the node for it in the result structure.

        A tensor becomes a slot. Numbers, texts and None become constants of the structure, except that a number that
        depends on open sizes is a tensor in the program, which is converted back to a number for callers.
        """
        if isinstance(value, Tensor):
            self.values.append(value.value)
            return Slot(f"result.{len(self.values) - 1}", len(self.values) - 1)
        form = constant_form(value)
        if is_of_sizes and self.is_open and type(value) in _OPEN:
            return Branch([("value", self.add(full((), value, _OPEN[type(value)])))], form)
        return Branch((), form)

    def put(self, group: str, entry: Entry | None, name: str, value: Any) -> None:
        """Add an output to `group`. If the output is the next value of the input `entry`, donate the input to it."""
        if not isinstance(value, Tensor):
            return
        slot = self.add(value)
        if group != "gradients" and entry is not None and isinstance(slot, Slot):
            name = entry.input_name or name
            if entry.number is not None:
                self.donations[entry.number] = slot.number
        self.groups.setdefault(group, {})[name] = slot


def results_of(specs: Sequence[Json], entries: Sequence[Entry], values: Values, tree: Tree, is_open: bool) -> tuple[Results, Node]:  # fmt: skip
    """Return the outputs and their structure: the user's result, then mutated tensors and gradients by name."""
    results = Results(is_open)
    nodes = [_user_result(kind, content, values, results) for kind, content in map(only, specs) if kind in ("user_output", "loss_output")]  # fmt: skip
    by_target = {entry.target: entry.tied or entry for entry in entries}
    for kind, content in map(only, specs):
        if kind in GROUPS:
            group, key = GROUPS[kind]
            results.put(group, by_target.get(content[key]), content[key], values[content["arg"]["name"]])
    for entry in entries:
        if entry.initial is not None and entry.tied is None and (after := values[entry.name]) is not entry.initial:
            results.put("inputs" if entry.kind == "user_input" else "buffers", entry, entry.target, after)
    if len(results.values) == 1 and not results.groups:
        nodes = [Slot("result", 0) if isinstance(node, Slot) else node for node in nodes]
    user_result = (
        tree.node(nodes) if tree.leaves == len(nodes) else Branch((f"{i}", node) for i, node in enumerate(nodes))
    )
    groups = [(group, Branch(nodes_by_name.items())) for group, nodes_by_name in results.groups.items()]
    return results, Branch([("result", user_result), *groups]) if groups else user_result


def _user_result(kind: str, content: Json, values: Values, results: Results) -> Node:
    argument: Json = content["arg"] if kind == "user_output" else {"as_tensor": content["arg"]}
    value = read_argument(argument, values.__getitem__, lambda _: None)
    return results.add(value, is_of_sizes=only(argument)[0].startswith("as_sym"))
