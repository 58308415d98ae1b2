"""The structure of a program's arguments and results: slots for arrays, and branches for containers.

{"b": ..., "w": ...}     Branch({"b": Slot("params.b", 1), "w": Slot("params.w", 2)}, Form("dict"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from meshgen.calls.structure_forms import Form, Maker, opened, rebuild_structure
from meshgen.calls.trees import Path, require_depth
from meshgen.ir.limits import MAX_NESTING


class Slot(NamedTuple):
    """A leaf of the arguments, which is an input of the program, or a leaf of the results, which is an output.

    Attributes:
        number: the index of the input or output, or None for an argument that the program does not use.
        shape: the shape of an unused argument. Its sharding has no effect, but is checked.
        key: the kind of a typed PRNG key (`threefry2x32`). The integers that make up the key are the program's input.
    """

    name: str
    number: int | None
    shape: tuple[int | None, ...] = ()
    key: str = ""


class Branch(dict[str, "Slot | Branch"]):
    """A container in the structure of arguments: children by key, in order. `form` describes the class of the
    container.
    """

    def __init__(self, children: Iterable[tuple[str, Node]] = (), form: Form | None = None) -> None:
        super().__init__(children)
        self.form = form or Form()

    def __reduce__(self) -> tuple[Any, ...]:
        return Branch, (list(self.items()), self.form)


Node: TypeAlias = Slot | Branch


def node_of(tree: Any, slot: Callable[[Path, Any], Slot], path: Path = (), written: bool = False) -> Node:
    """Return the node for a structure of arguments or results.

    Args:
        slot: `slot(path, leaf)` returns the slot of a leaf.
        written: whether dict keys keep their insertion order. By default they are sorted.
    """
    require_depth(path)
    form_and_children = opened(tree, written)
    if form_and_children is None:
        return slot(path, tree)
    form, items = form_and_children
    return Branch(((key, node_of(child, slot, (*path, key), written)) for key, child in items.items()), form)


def leaves_of(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the leaves of a structure in order, each with its path."""
    require_depth(path)
    form_and_children = opened(tree)
    if form_and_children is None:
        yield path, tree
        return
    for key, child in form_and_children[1].items():
        yield from leaves_of(child, (*path, key))


def tree_of(pairs: Iterable[tuple[Path, Slot]]) -> Branch | None:
    """Arrange slots into nested dicts by their paths. Returns None if a path is too deep or is a prefix of another
    path.
    """
    tree = Branch()
    for (*parents, last), slot in pairs:
        if len(parents) >= MAX_NESTING:
            return None
        node: Node = tree
        for key in parents:
            node = node.setdefault(key, Branch()) if isinstance(node, Branch) else node
        if isinstance(node, Slot) or last in node:
            return None
        node[last] = slot
    return tree


def slots_of(node: Node | Mapping[str, Node]) -> Iterator[Slot]:
    """Yield the slots of a node in order."""
    if isinstance(node, Slot):
        yield node
        return
    for branch in node.values():
        yield from slots_of(branch)


def without(node: Node, is_stored: Callable[[Slot], bool]) -> Node | None:
    """Return the node without the slots for which `is_stored` is true, or None if no slot remains."""
    if isinstance(node, Slot):
        return None if is_stored(node) else node
    children = {key: without(branch, is_stored) for key, branch in node.items()}
    remaining = Branch(((key, branch) for key, branch in children.items() if branch is not None), node.form)
    return None if any(True for _ in slots_of(node)) and not any(True for _ in slots_of(remaining)) else remaining


def rebuilt(node: Node, leaf: Callable[[Slot], Any], makers: Mapping[tuple[Form, tuple[str, ...]], Maker]) -> Any:
    """Build the structure that a node describes.

    Args:
        leaf: returns the value of a slot.
        makers: functions that build objects from their children (see `object_builders`).
    """
    if isinstance(node, Slot):
        return leaf(node)
    return rebuild_structure(node.form, {key: rebuilt(branch, leaf, makers) for key, branch in node.items()}, makers)
