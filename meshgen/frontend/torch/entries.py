"""The inputs of an exported program: their origin (an argument of the caller, or state of the model), their names, and tensors with several names.

forward(self, x, w), with a buffer `w`      arguments `x`, `w`; state `self.w`, which weights may call `w`
head.weight = embed.weight                  one input `embed.weight`, which may also be called `head.weight`
step({"layers.0.W": w}, x) by make_fx       `arg0.layers.0.W`, which may also be called `arg0_layers_0_w`, as torch's placeholder
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meshgen.calls.nodes import Node, Slot
from meshgen.calls.trees import dotted
from meshgen.frontend.torch.document import Json, names_in, only
from meshgen.frontend.torch.kinds import unusable
from meshgen.frontend.torch.trees import Tree
from meshgen.frontend.tracer.tensor import Tensor

# Names of tensors that tracing with make_fx, or torch.export itself, takes out of the user's code.
_LIFTED = re.compile(r"(.*\.)?_(tensor_constant|lifted_tensor_constant|lifted_tensor)\d+")


@dataclass
class Entry:
    """An input of the graph.

    Attributes:
        kind: `user_input`, `number` (of the caller, which is part of the program), `state`, `constant` or `token`.
        name: its name in the graph.
        target: its name in torch's signature: of state and constants, the name in the model.
        value: a number that is part of the program.
        called: the name of the module's input.
        number: the number of the module's input; None where it has none.
        before: the tensor that the program starts with.
        tied: the entry whose tensor this is too.
    """

    kind: str
    name: str
    target: str
    value: Any = None
    called: str = ""
    number: int | None = None
    before: Tensor | None = None
    tied: Entry | None = None


def entries_of(specs: Sequence[Json]) -> list[Entry]:
    """Return the inputs of torch's signature. Raises UsageError MG0001 for an object of another kind."""
    return [_entry(each) for each in specs]


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
    if kind == "token":  # orders operations with effects, which are checks of errors here
        return Entry(kind, content["arg"]["name"], content["arg"]["name"], 0)
    text = f"the program takes an input of the kind {kind}, which is not supported"
    raise unusable(text, "export a model whose inputs are tensors and numbers")


def held_apart(entries: Sequence[Entry], tree: Tree, names: Sequence[str]) -> Tree:
    """Make the tensors that the first argument holds in a list state of these names, and return the structure of the other arguments."""
    by_position, by_name = tree.children
    leaves = [each for each in entries if each.kind in ("user_input", "number")]
    for entry, name in zip(leaves, names, strict=False):
        entry.kind, entry.target = "state", name
    others = by_position.children[1:]
    return replace(tree, children=(replace(by_position, keys=tuple(range(len(others))), children=others), by_name))


def argument_roots(entries: Sequence[Entry], tree: Tree, names: Sequence[str] | None) -> list[tuple[str, Tree]]:
    """Return the name and the structure of each parameter of the user's function: those by position, then those by name."""
    by_position, by_name = tree.children
    leaves = [each.name for each in entries if each.kind in ("user_input", "number")]
    roots: list[tuple[str, Tree]] = []
    at = 0
    for number, child in enumerate(by_position.children):
        leaf = next(filter(None, leaves[at : at + child.leaves]), "") if not child.kind else ""
        roots.append((names[number] if names is not None and number < len(names) else leaf or f"arg{number}", child))
        at += child.leaves
    return [*roots, *zip(by_name.texts, by_name.children, strict=True)]


def name_inputs(entries: Sequence[Entry], roots: Sequence[tuple[str, Tree]], ties: Mapping[str, str]) -> None:
    """Set the name of the module's input of each entry, and the entries that are one tensor.

    Args:
        ties: from names of state to the name under which the same tensor comes first.
    """
    leaves = [each for each in entries if each.kind in ("user_input", "number")]
    paths = [path for root, tree in roots for path in _paths(tree, (root,))]
    taken: set[str] = set()
    for entry, path in zip(leaves, paths, strict=True):
        entry.called = path if path not in taken else entry.name
        taken.add(entry.called)
    taken |= {root for root, _ in roots}
    first: dict[str, Entry] = {}
    for entry in (each for each in entries if each.kind == "state"):
        entry.called = entry.target
        while entry.called in taken:
            entry.called = f"self.{entry.called}"
        home = first.setdefault(ties.get(entry.target, entry.target), entry)
        entry.tied = None if home is entry else home


def _paths(tree: Tree, path: tuple[str, ...]) -> Iterator[str]:
    if not tree.kind:
        yield dotted(path)
    for key, child in zip(tree.texts, tree.children, strict=True):
        yield from _paths(child, (*path, key))


def argument_nodes(entries: Sequence[Entry], roots: Sequence[tuple[str, Tree]]) -> dict[str, Node]:
    """Return what each parameter of the user's function holds, then each tensor of the model."""
    leaves: list[Slot | None] = [_slot(each) for each in entries if each.kind in ("user_input", "number")]
    nodes: dict[str, Node] = {}
    at = 0
    for root, child in roots:
        nodes[root] = child.node(leaves[at : at + child.leaves])
        at += child.leaves
    state = [each for each in entries if each.kind == "state" and each.tied is None]
    return nodes | {each.called: Slot(each.called, each.number) for each in state}


def _slot(entry: Entry) -> Slot | None:
    return None if entry.kind == "number" and entry.value is None else Slot(entry.called, entry.number)


def aliases_of(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the further names of inputs: of tied tensors, of state with the name of an argument, and torch's placeholders."""
    inputs = [each for each in entries if each.number is not None]
    aliases = {each.name: each.called for each in inputs if each.kind == "user_input"}
    called = {each.called for each in inputs}
    aliases = {name: target for name, target in aliases.items() if name not in called}
    tied = {each.target: each.tied.called for each in entries if each.tied is not None}
    renamed = {each.target: each.called for each in inputs if each.kind == "state" and each.called != each.target}
    return aliases | tied | renamed
