"""Python functions whose parameters are dicts and tuples of arrays: which leaf is which must not depend on the order of keys.

All leaves of a program have one type and each counts another number of times, so that no two can change places unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from meshgen.ir.graph import TensorType, Value
from meshgen.mesh import Mesh
from meshgen.spec import Sharding
from meshgen.testing.generators.shardings import random_mesh, random_sharding
from meshgen.testing.generators.writer import ODD, Writer

Tree = Any  # a leaf, or a dict or tuple of trees
_KEYS = ("w", "b", "a", "scale", "k", "q")
_DEEPEST = 2  # dicts and tuples within each other (chosen: names of three parts)


@dataclass(frozen=True)
class Nested:
    """A program of two parameters, `p` and `q`: trees of names of leaves, which all have the type `kind`.

    Attributes:
        specs: shardings of some of the leaves, by their names (`p.w.0`).
    """

    mesh: Mesh
    kind: TensorType
    parameters: tuple[Tree, Tree]
    specs: dict[str, Sharding]

    def program(self, p: Tree, q: Tree) -> Any:
        """Each leaf as often as its place among all names says, for tensors and for arrays; and the first one."""
        counts = {name: number for number, name in enumerate(names_of(self.parameters), start=1)}
        found = {**by_name(self.parameters[0], p), **by_name(self.parameters[1], q)}
        terms = [found[name] * count for name, count in counts.items()]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total, terms[0]

    def filled(self, leaf: Any) -> list[Tree]:
        """The parameters with `leaf(name)` for each name."""
        return [replaced(tree, leaf) for tree in self.parameters]


def random_parameters(seed: int) -> Nested:
    rng = np.random.default_rng([seed, 6])
    writer = Writer(rng, random_mesh(rng, ODD), variety=ODD)
    kind = TensorType(writer.shape(writer.integer(0, 3)), "i32")
    trees = (_tree(writer, "p", 0), _tree(writer, "q", 0))
    names = names_of(trees)
    specs = {
        name: Sharding(random_sharding(writer, writer.mesh, Value(kind).type).dims)
        for name in names
        if writer.chance(0.5)
    }
    return Nested(writer.mesh, kind, trees, specs)


def _tree(writer: Writer, name: str, depth: int) -> Tree:
    if depth == _DEEPEST or (depth and writer.chance(0.5)):
        return name
    if writer.chance(0.7):
        keys = [_KEYS[i] for i in writer.order(len(_KEYS))][: writer.integer(1, 4)]
        return {key: _tree(writer, f"{name}.{key}", depth + 1) for key in keys}
    return tuple(_tree(writer, f"{name}.{i}", depth + 1) for i in range(writer.integer(1, 4)))


def replaced(tree: Tree, leaf: Any) -> Tree:
    """The tree with `leaf(name)` for each of its leaves."""
    if isinstance(tree, Mapping):
        return {key: replaced(each, leaf) for key, each in cast("Mapping[str, Tree]", tree).items()}
    if isinstance(tree, tuple):
        return tuple(replaced(each, leaf) for each in cast("tuple[Tree, ...]", tree))
    return leaf(tree)


def names_of(tree: Tree) -> list[str]:
    """The leaves of a tree of names."""
    found: list[str] = []
    replaced(tree, found.append)
    return found


def by_name(names: Tree, tree: Tree) -> dict[str, Any]:
    """The leaves of a tree by their names in one of the same form; keys of dicts may come in any order."""
    if isinstance(names, Mapping):
        pairs = [(each, tree[key]) for key, each in cast("Mapping[str, Tree]", names).items()]
    elif isinstance(names, tuple):
        pairs = list(zip(cast("tuple[Tree, ...]", names), tree, strict=True))
    else:
        return {names: tree}
    return {name: leaf for each, part in pairs for name, leaf in by_name(each, part).items()}


def shuffled(tree: Tree, rng: np.random.Generator) -> Tree:
    """The tree with the keys of its dicts in another order."""
    if isinstance(tree, Mapping):
        pairs = list(cast("Mapping[str, Tree]", tree).items())
        return {pairs[i][0]: shuffled(pairs[i][1], rng) for i in rng.permutation(len(pairs))}
    if isinstance(tree, tuple):
        return tuple(shuffled(each, rng) for each in cast("tuple[Tree, ...]", tree))
    return tree
