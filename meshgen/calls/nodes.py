"""The structure of a program's arguments and results: slots for arrays, branches for what holds them.

{"b": ..., "w": ...}     Branch({"b": Slot("params.b", 1), "w": Slot("params.w", 2)}, Form("dict"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from meshgen.calls.classes import Form, Maker, made_of, opened
from meshgen.calls.trees import Path, require_depth
from meshgen.ir.limits import MAX_NESTING


class Slot(NamedTuple):
    """A leaf: an input (of results: an output) of the program by number; None where the program does not use it.

    `shape` is that of an unused one, whose sharding can be checked but has no effect. `key` is the kind of a typed PRNG key
    (`threefry2x32`), of which the program has the words.
    """

    name: str
    number: int | None
    shape: tuple[int | None, ...] = ()
    key: str = ""


class Branch(dict[str, "Slot | Branch"]):
    """The children of a structure by key, in order, and what it is (`form`)."""

    def __init__(self, children: Iterable[tuple[str, Node]] = (), form: Form | None = None) -> None:
        super().__init__(children)
        self.form = form or Form()

    def __reduce__(self) -> tuple[Any, ...]:
        return Branch, (list(self.items()), self.form)


Node: TypeAlias = Slot | Branch


def node_of(tree: Any, slot: Callable[[Path, Any], Slot], path: Path = (), written: bool = False) -> Node:
    """The node of a structure; `slot` makes that of a leaf, from its path. Dicts are in sorted order, or as `written`."""
    require_depth(path)
    found = opened(tree, written)
    if found is None:
        return slot(path, tree)
    form, held = found
    return Branch(((key, node_of(each, slot, (*path, key), written)) for key, each in held.items()), form)


def leaves_of(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The leaves of a structure in order, each with its path."""
    require_depth(path)
    found = opened(tree)
    if found is None:
        yield path, tree
        return
    for key, each in found[1].items():
        yield from leaves_of(each, (*path, key))


def tree_of(pairs: Iterable[tuple[Path, Slot]]) -> Branch | None:
    """The slots in a structure of dicts; None where one path is a prefix of another, or has too many keys."""
    tree = Branch()
    for (*lead, last), slot in pairs:
        if len(lead) >= MAX_NESTING:
            return None
        at: Node = tree
        for key in lead:
            at = at.setdefault(key, Branch()) if isinstance(at, Branch) else at
        if isinstance(at, Slot) or last in at:
            return None
        at[last] = slot
    return tree


def slots_of(node: Node | Mapping[str, Node]) -> Iterator[Slot]:
    """The leaves in order."""
    if isinstance(node, Slot):
        yield node
        return
    for branch in node.values():
        yield from slots_of(branch)


def without(node: Node, stored: Callable[[Slot], bool]) -> Node | None:
    """The node without the slots that are stored; None where no other slots were in it."""
    if isinstance(node, Slot):
        return None if stored(node) else node
    kept = {key: without(branch, stored) for key, branch in node.items()}
    left = Branch(((key, branch) for key, branch in kept.items() if branch is not None), node.form)
    return None if any(True for _ in slots_of(node)) and not any(True for _ in slots_of(left)) else left


def rebuilt(node: Node, leaf: Callable[[Slot], Any], makers: Mapping[tuple[Form, tuple[str, ...]], Maker]) -> Any:
    """The structure of a node, with its leaves and objects made by these functions."""
    if isinstance(node, Slot):
        return leaf(node)
    return made_of(node.form, {key: rebuilt(branch, leaf, makers) for key, branch in node.items()}, makers)
