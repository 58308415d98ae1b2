"""Inputs of an exported program: whether the caller or the model supplies them, their names, and tied tensors.

forward(self, x, w), with a buffer `w`          arguments `x`, `w`; state `self.w`, which weights may call `w`
head.weight = embed.weight                      one input `embed.weight` with the alias `head.weight`
step({"layers.0.W": w}, x) by make_fx           `arg0.layers.0.W` with torch's placeholder `arg0_layers_0_w` as
alias
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meshgen.calls.argument_tree import Node, Slot
from meshgen.calls.trees import dotted
from meshgen.frontend.torch.document import Json, names_in, only
from meshgen.frontend.torch.pytrees import Tree
from meshgen.frontend.torch.recognition import unusable
from meshgen.frontend.tracer.tensor import Tensor

# Names of constant tensors that make_fx or torch.export lifts from the user's code to inputs.
_LIFTED = re.compile(r"(.*\.)?_(tensor_constant|lifted_tensor_constant|lifted_tensor)\d+")


@dataclass
class Entry:
    """An input of the exported graph.

    Attributes:
        kind: `user_input`; `number` (passed by the caller, but constant in the program); `state` (a parameter or
            buffer); `constant`; or `token` (orders side effects).
        name: the name in the exported graph.
        target: the name in torch's signature. For state and constants, this is the name in the model.
        value: the value, if `kind` is `number`.
        input_name: the name of the input in the imported module.
        number: the index of the input in the imported module, or None if it has no input for this entry.
        initial: the tensor at the start of the program.
        tied: an earlier entry with the same tensor, or None.
    """

    kind: str
    name: str
    target: str
    value: Any = None
    input_name: str = ""
    number: int | None = None
    initial: Tensor | None = None
    tied: Entry | None = None


def entries_of(specs: Sequence[Json]) -> list[Entry]:
    """Return the inputs in torch's signature. Raises UsageError MG0001 for an unsupported kind of input."""
    return [_entry(spec) for spec in specs]


def _entry(spec: Json) -> Entry:
    kind, content = only(spec)
    if kind == "user_input":
        names = names_in(content["arg"])
        return Entry(kind, names[0] if names else "", names[0] if names else "")
    if kind in ("parameter", "buffer"):
        target = content[f"{kind}_name"]
        is_stored = kind == "parameter" or (content["persistent"] and not _LIFTED.fullmatch(target))
        return Entry("state" if is_stored else "constant", content["arg"]["name"], target)
    if kind == "tensor_constant":
        return Entry("constant", content["arg"]["name"], content["tensor_constant_name"])
    if kind == "constant_input":
        return Entry("number", content["name"], content["name"], only(content["value"])[1])
    # Tokens order side effects. The supported operations with side effects only check for errors, so tokens are
    # ignored.
    if kind == "token":
        return Entry(kind, content["arg"]["name"], content["arg"]["name"], 0)
    text = f"the program takes an input of the kind {kind}, which is not supported"
    raise unusable(text, "export a model whose inputs are tensors and numbers")


def split_off_state(entries: Sequence[Entry], tree: Tree, names: Sequence[str]) -> Tree:
    """Turn the arrays of the first argument, a list, into state with the names `names`.

    Returns the structure of the remaining arguments.
    """
    by_position, by_name = tree.children
    leaves = [item for item in entries if item.kind in ("user_input", "number")]
    for entry, name in zip(leaves, names, strict=False):
        entry.kind, entry.target = "state", name
    remaining = by_position.children[1:]
    return replace(
        tree, children=(replace(by_position, keys=tuple(range(len(remaining))), children=remaining), by_name)
    )


def argument_roots(entries: Sequence[Entry], tree: Tree, names: Sequence[str] | None) -> list[tuple[str, Tree]]:
    """Return (name, structure) for each parameter of the user's function, positional parameters first."""
    by_position, by_name = tree.children
    leaves = [entry.name for entry in entries if entry.kind in ("user_input", "number")]
    roots: list[tuple[str, Tree]] = []
    first_leaf = 0
    for position, child in enumerate(by_position.children):
        leaf = next(filter(None, leaves[first_leaf : first_leaf + child.leaves]), "") if not child.kind else ""
        roots.append(
            (names[position] if names is not None and position < len(names) else leaf or f"arg{position}", child)
        )
        first_leaf += child.leaves
    return [*roots, *zip(by_name.texts, by_name.children, strict=True)]


def name_inputs(entries: Sequence[Entry], roots: Sequence[tuple[str, Tree]], ties: Mapping[str, str]) -> None:
    """Set the input name of each entry, and link entries that share a tensor.

    Args:
        roots: name and structure of each parameter of the user's function.
        ties: maps the name of a state tensor to the first name of the same tensor.
    """
    leaves = [item for item in entries if item.kind in ("user_input", "number")]
    paths = [path for root, tree in roots for path in _paths(tree, (root,))]
    taken: set[str] = set()
    for entry, path in zip(leaves, paths, strict=True):
        entry.input_name = path if path not in taken else entry.name
        taken.add(entry.input_name)
    taken |= {root for root, _ in roots}
    first_entries: dict[str, Entry] = {}
    for entry in (item for item in entries if item.kind == "state"):
        entry.input_name = entry.target
        while entry.input_name in taken:
            entry.input_name = f"self.{entry.input_name}"
        first_entry = first_entries.setdefault(ties.get(entry.target, entry.target), entry)
        entry.tied = None if first_entry is entry else first_entry


def _paths(tree: Tree, path: tuple[str, ...]) -> Iterator[str]:
    if not tree.kind:
        yield dotted(path)
    for key, child in zip(tree.texts, tree.children, strict=True):
        yield from _paths(child, (*path, key))


def argument_nodes(entries: Sequence[Entry], roots: Sequence[tuple[str, Tree]]) -> dict[str, Node]:
    """Return the nodes of the signature: a structure per parameter of the user's function, a slot per state tensor."""
    leaves: list[Slot | None] = [_slot(entry) for entry in entries if entry.kind in ("user_input", "number")]
    nodes: dict[str, Node] = {}
    first_leaf = 0
    for root, child in roots:
        nodes[root] = child.node(leaves[first_leaf : first_leaf + child.leaves])
        first_leaf += child.leaves
    state = [entry for entry in entries if entry.kind == "state" and entry.tied is None]
    return nodes | {entry.input_name: Slot(entry.input_name, entry.number) for entry in state}


def _slot(entry: Entry) -> Slot | None:
    return None if entry.kind == "number" and entry.value is None else Slot(entry.input_name, entry.number)


def aliases_of(entries: Sequence[Entry]) -> dict[str, str]:
    """Map alternative names of inputs to the input names.

    Alternative names are those of tied tensors, of state that shares the name of an argument, and torch's placeholders.
    """
    inputs = [entry for entry in entries if entry.number is not None]
    aliases = {entry.name: entry.input_name for entry in inputs if entry.kind == "user_input"}
    input_names = {entry.input_name for entry in inputs}
    aliases = {name: target for name, target in aliases.items() if name not in input_names}
    tied = {entry.target: entry.tied.input_name for entry in entries if entry.tied is not None}
    renamed = {
        entry.target: entry.input_name for entry in inputs if entry.kind == "state" and entry.input_name != entry.target
    }
    return aliases | tied | renamed
