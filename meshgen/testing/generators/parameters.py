"""Random Python functions with nested parameters, which must not depend on the order of dict keys.

All leaves have the same type, but contribute with different factors, so that exchanging two leaves changes the result.
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
_DEEPEST = 2  # maximum nesting of dicts and tuples. Chosen: leaf names then have up to three components


@dataclass(frozen=True)
class Nested:
    """A function of two parameters `p` and `q`, which are trees of leaves of type `kind`.

    Attributes:
        parameters: the trees, with the name of each leaf (`p.w.0`).
        specs: shardings of some leaves, by name.
    """

    mesh: Mesh
    kind: TensorType
    parameters: tuple[Tree, Tree]
    specs: dict[str, Sharding]

    def program(self, p: Tree, q: Tree) -> Any:
        """Return the sum of all leaves, each multiplied by its index (from 1), and the first leaf.

        Accepts tensors and arrays.
        """
        counts = {name: index for index, name in enumerate(names_of(self.parameters), start=1)}
        leaves = {**by_name(self.parameters[0], p), **by_name(self.parameters[1], q)}
        terms = [leaves[name] * count for name, count in counts.items()]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total, terms[0]

    def filled(self, leaf: Any) -> list[Tree]:
        """Return the parameters with `leaf(name)` for each name."""
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
    """Return the tree with `leaf(name)` in place of each leaf."""
    if isinstance(tree, Mapping):
        return {key: replaced(subtree, leaf) for key, subtree in cast("Mapping[str, Tree]", tree).items()}
    if isinstance(tree, tuple):
        return tuple(replaced(subtree, leaf) for subtree in cast("tuple[Tree, ...]", tree))
    return leaf(tree)


def names_of(tree: Tree) -> list[str]:
    """Return the leaves of a tree of names."""
    names: list[str] = []
    replaced(tree, names.append)
    return names


def by_name(names: Tree, tree: Tree) -> dict[str, Any]:
    """Return the leaves of `tree` by name.

    `names` is a tree of names with the same structure; dict keys may be in any order.
    """
    if isinstance(names, Mapping):
        pairs = [(subnames, tree[key]) for key, subnames in cast("Mapping[str, Tree]", names).items()]
    elif isinstance(names, tuple):
        pairs = list(zip(cast("tuple[Tree, ...]", names), tree, strict=True))
    else:
        return {names: tree}
    return {name: leaf for subnames, part in pairs for name, leaf in by_name(subnames, part).items()}


def shuffled(tree: Tree, rng: np.random.Generator) -> Tree:
    """Return the tree with the keys of its dicts in random order."""
    if isinstance(tree, Mapping):
        pairs = list(cast("Mapping[str, Tree]", tree).items())
        return {pairs[i][0]: shuffled(pairs[i][1], rng) for i in rng.permutation(len(pairs))}
    if isinstance(tree, tuple):
        return tuple(shuffled(subtree, rng) for subtree in cast("tuple[Tree, ...]", tree))
    return tree
