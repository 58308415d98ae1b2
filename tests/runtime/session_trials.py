"""Random programs on donated trees, and the behavior that their sessions must have, for `session_fuzz.py`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.calls.trees import children, flatten, unflatten

Pair = namedtuple("Pair", "first second")
SHAPES = ((), (4,), (6,), (4, 2), (3, 4))
DTYPES = ("f32", "i32")
NAMES = ("p", "q")


@dataclass
class Trial:
    """A program on trees of arrays, and the behavior that its session must have.

    Attributes:
        trees: types of the donated arguments.
        order: role of each result: the index of a donated argument that it updates, or a word of `EXTRAS`.
        keys: keys of the dict of results; empty if the results are a tuple.
        is_nested: whether the results are a pair of the first result and a tuple of the rest.
        donate: the `donate` argument of `mg.compile`.
        specs: the `in_specs` argument of `mg.compile`.
        changes: how the step updates each leaf of a donated tree.
        is_jax: whether JAX traces the program.
        is_refused: whether a session must reject the program.
        x: type of the argument that is not donated.
        names: names of the donated arguments.
    """

    trees: list[Any]
    order: list[Any]
    keys: list[str]
    is_nested: bool
    donate: Any
    specs: dict[str, Any]
    changes: list[str]
    is_jax: bool
    is_refused: bool = False
    x: str = "f32[4]"
    names: list[str] = field(default_factory=list[str])

    def step(self, *args: Any) -> Any:
        """Compute one step on arrays of meshgen or of JAX."""
        *states, x = args
        results = [self._result(role, states, x) for role in self.order]
        if self.keys:
            return dict(zip(self.keys, results, strict=True))
        return (results[0], tuple(results[1:])) if self.is_nested else tuple(results)

    def _result(self, role: Any, states: list[Any], x: Any) -> Any:
        leaves = [leaf for _, leaf in flatten(states[0])]
        match role:
            case int():
                return self._updated(states[role], x)
            case "sum":
                return x.sum()
            case "old":
                return leaves[0]
            case "row":
                return leaves[-1][0] if leaves[-1].shape else leaves[-1]
            case "flat":
                return leaves[-1].reshape(-1)
            case "x":
                return x
            case _:
                return self._updated(states[0], x)  # a "twin" result, which has the structure of the first argument

    def _updated(self, tree: Any, x: Any) -> Any:
        leaves = [leaf for _, leaf in flatten(tree)]
        new: list[Any] = []
        for change, leaf in zip(self.changes, leaves, strict=False):
            if change == "keep":
                new.append(leaf)
            elif change == "swap":  # the leaf becomes the next leaf of the same type
                same_type = [other for other in leaves if (other.shape, other.dtype) == (leaf.shape, leaf.dtype)]
                new.append(
                    same_type[(next(n for n, other in enumerate(same_type) if other is leaf) + 1) % len(same_type)]
                )
            elif change == "shift" and leaf.shape:
                new.append(leaf[::-1] + leaf)
            else:
                new.append(leaf + leaf if str(leaf.dtype) in ("i32", "int32") else leaf * 0.5 + x.sum() * 0.25)
        return unflatten(tree, iter(new))


EXTRAS = ("sum", "old", "row", "flat", "x", "twin")


def random_tree(rng: np.random.Generator, depth: int = 2) -> Any:
    if depth == 0 or rng.random() < 0.3:
        shape = SHAPES[rng.integers(len(SHAPES))]
        return f"{DTYPES[rng.integers(2)]}[{','.join(map(str, shape))}]"
    count = int(rng.integers(1, 4))
    branches = [random_tree(rng, depth - 1) for _ in range(count)]
    match int(rng.integers(4)):
        case 0:
            return dict(zip("wbc", branches, strict=False))
        case 1:
            return branches
        case 2:
            return tuple(branches)
        case _:
            return Pair(branches[0], branches[-1])


def random_trial(rng: np.random.Generator) -> Trial:
    trees = [random_tree(rng)]
    if rng.random() < 0.5:
        trees.append(trees[0] if rng.random() < 0.6 else random_tree(rng))
    extras = [EXTRAS[n] for n in rng.choice(len(EXTRAS), int(rng.integers(0, 4)), replace=False)]
    order: list[Any] = [*range(len(trees)), *extras]
    rng.shuffle(order)
    order = [int(role) if str(role).isdecimal() else str(role) for role in order]
    keys: list[str] = []
    is_named = False
    if rng.random() < 0.4:
        is_named = rng.random() < 0.5
        keys = [NAMES[role] if is_named and isinstance(role, int) else f"r{n}" for n, role in enumerate(order)]
    names = list(NAMES[: len(trees)])
    leaf_count = max(sum(1 for _ in flatten(tree)) for tree in trees)
    changes = [str(rng.choice(["keep", "swap", "shift", "add", "add", "add"])) for _ in range(leaf_count)]
    trial = Trial(trees, order, keys, not keys and len(order) > 1 and rng.random() < 0.3, names, {}, changes, rng.random() < 0.1, names=names)  # fmt: skip
    paths = {role: path for path, role in _result_paths(trial)}
    decided = _decided_by(trial, is_named)
    if decided == "nothing" and rng.random() < 0.5:
        trial.is_refused = True
    elif decided != "rules":
        trial.donate = {name: paths[number] for number, name in enumerate(names)}
    if rng.random() < 0.6:
        trial.specs = _random_specs(rng, trial)
    return trial


def _result_paths(trial: Trial) -> Iterator[tuple[str, Any]]:
    """Yield the path and the role of each result."""
    for number, role in enumerate(trial.order):
        path = trial.keys[number] if trial.keys else str(number)
        if trial.is_nested and number:
            path = f"1.{number - 1}"
        yield f"result.{path}", role


def _random_specs(rng: np.random.Generator, trial: Trial) -> dict[str, Any]:
    """Shard random dims of random arrays over two devices. Sizes may be odd, which gives uneven shards."""
    specs: dict[str, Any] = {}
    for name, tree in zip(trial.names, trial.trees, strict=True):
        for path, leaf in flatten(tree):
            rank = len([size for size in leaf.partition("[")[2][:-1].split(",") if size])
            if rank and rng.random() < 0.5:
                dim = int(rng.integers(rank))
                specs[".".join((name, *path))] = mg.P(*[None] * dim, "d")
    return specs


def _decided_by(trial: Trial, is_named: bool) -> str:
    """Predict which results the rules of `frontend/pair_donations.py` choose as new trees of the arguments.

    Returns `rules` if they choose the right results, `others` if they choose wrong ones, and `nothing` if they cannot
    choose. The rules start with the largest arguments, and among these with the most deeply nested ones. Equal names
    decide. Otherwise the order decides, provided that as many results as arguments have the structure.
    """
    if is_named:
        return "rules"
    results = [(role, _result_types(trial, role)) for role in trial.order]
    decided: set[int] = set()
    found_by = "rules"
    for number in sorted(range(len(trial.trees)), key=lambda n: _size(trial.trees[n]), reverse=True):
        if number in decided:
            continue
        shape = _shape(trial.trees[number])
        rivals = [n for n, tree in enumerate(trial.trees) if _shape(tree) == shape]
        candidates = [
            (role, path, part)
            for role, tree in results
            if role not in decided
            for path, part in _subtrees(tree)
            if _shape(part) == shape
        ]
        candidates += [(None, ("all",), whole) for whole in _containers(trial, results) if _shape(whole) == shape]
        if len(candidates) > len(rivals):
            alike = [role for role in candidates if type(role[2]) is type(trial.trees[number])]
            candidates = alike if len(alike) == len(rivals) else candidates
        if len(candidates) != len(rivals):
            return "nothing"
        found_paths = [(role, path) for role, path, _ in candidates]
        found_by = found_by if found_paths == [(rival, ()) for rival in rivals] else "others"
        decided.update(rivals)
    return found_by


def _size(tree: Any) -> tuple[int, int]:
    """Return the number of arrays in a tree, and the depth of the most deeply nested one."""
    paths = [path for path, _ in flatten(tree)]
    return len(paths), max(map(len, paths), default=0)


def _containers(trial: Trial, results: list[tuple[Any, Any]]) -> list[Any]:
    """Return the structures in which the results are nested."""
    trees = [tree for _, tree in results]
    if trial.keys:
        return [dict(zip(trial.keys, trees, strict=True))]
    rest = tuple(trees[1:])
    return [(trees[0], rest), rest] if trial.is_nested else [tuple(trees)]


def _result_types(trial: Trial, role: Any) -> Any:
    leaves = [leaf for _, leaf in flatten(trial.trees[0])]
    dtype, _, sizes = leaves[-1].partition("[")
    shape = [int(size) for size in sizes[:-1].split(",") if size]
    match role:
        case int():
            return trial.trees[role]
        case "sum":
            return "f32[]"
        case "old":
            return leaves[0]
        case "row":
            return f"{dtype}[{','.join(map(str, shape[1:]))}]"
        case "flat":
            return f"{dtype}[{int(np.prod(shape))}]"
        case "x":
            return trial.x
        case _:
            return trial.trees[0]


def _shape(tree: Any) -> Any:
    branches = children(tree)
    return tree if branches is None else tuple(sorted((key, _shape(branch)) for key, branch in branches.items()))


def _subtrees(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, tree
    for key, branch in (children(tree) or {}).items():
        yield from _subtrees(branch, (*path, key))
