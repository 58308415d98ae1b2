"""Nested dicts, lists, tuples and named tuples: their leaves, and the key path of each leaf.

    {"b": [x, None], "a": y}  has the leaves  ("a",): y   ("b", "0"): x

As in JAX, dict keys are sorted, so a program does not depend on the insertion order, and None is not a leaf. The
results of a function keep their insertion order (`written`). Keys become strings, so that `params.w1` and
`params['w1']` denote the same leaf.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

from meshgen.errors import Diagnostic, UsageError
from meshgen.ir.limits import MAX_NESTING

Path: TypeAlias = tuple[str, ...]

_BRACKET = re.compile(r"\[(?:<flat index (\d+)>|'([^']*)'|\"([^\"]*)\"|([^\[\]'\"]*))\]")


def children(tree: Any, written: bool = False) -> dict[str, Any] | None:
    """Return the children of a structure by key, or None for a leaf.

    Raises UsageError MG0001 if two keys have the same text.
    """
    if tree is None:
        return {}
    if not isinstance(tree, (Mapping, list, tuple)):
        return None
    pairs = _items(cast("Any", tree), written)
    children_by_key = {str(key): branch for key, branch in pairs}
    if len(children_by_key) != len(pairs):
        keys = [key for key, _ in pairs]
        duplicate = next(key for key in keys if [*map(str, keys)].count(str(key)) > 1)
        text = f"two keys of a dict are spelled '{duplicate}': {', '.join(map(repr, keys))}"
        raise UsageError(Diagnostic("MG0001", text, hint="use keys of one type"))
    return children_by_key


def _items(tree: Any, written: bool) -> list[tuple[Any, Any]]:
    """Return keys and children in order. An OrderedDict keeps its insertion order."""
    if not isinstance(tree, Mapping):
        return list(zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True))
    items = list(cast("Mapping[Any, Any]", tree).items())
    if written or isinstance(tree, OrderedDict):
        return items
    try:
        return sorted(items, key=lambda item: item[0])
    except TypeError:  # Keys of different types have no common order.
        return sorted(items, key=lambda item: (type(item[0]).__name__, str(item[0])))


def require_depth(path: Path) -> None:
    """Raise UsageError MG0006 if `path` is too long: the structure is nested too deeply, or contains itself."""
    if len(path) > MAX_NESTING:
        text = f"a structure of arguments or results is nested more than {MAX_NESTING} deep: {'.'.join(path[:3])}. ..."
        raise UsageError(Diagnostic("MG0006", text, hint="pass a flatter structure"))


def flatten(tree: Any, path: Path = (), *, written: bool = False) -> Iterator[tuple[Path, Any]]:
    """Yield the leaves of a structure in order, each with its key path. Raises the same errors as `require_depth`."""
    require_depth(path)
    children_by_key = children(tree, written)
    if children_by_key is None:
        yield path, tree
        return
    for key, branch in children_by_key.items():
        yield from flatten(branch, (*path, key), written=written)


def unflatten(tree: Any, leaves: Iterator[Any], *, written: bool = False) -> Any:
    """Return a structure like `tree`, with the leaves replaced by `leaves` in order."""
    if tree is None:
        return None
    if not isinstance(tree, (Mapping, list, tuple)):
        return next(leaves)
    items = [(key, unflatten(branch, leaves, written=written)) for key, branch in _items(cast("Any", tree), written)]
    if isinstance(tree, Mapping):
        return OrderedDict(items) if isinstance(tree, OrderedDict) else dict(items)
    branches = [branch for _, branch in items]
    return type(tree)(*branches) if hasattr(tree, "_fields") else type(cast("list[Any]", tree))(branches)


def dotted(path: Path) -> str:
    """Join a path with dots: `params.w1`."""
    return ".".join(path)


def bracketed(path: Path) -> str:
    """Return a path as JAX prints it: `params['layers.0']`. Keys that contain dots remain distinguishable."""
    return path[0] + "".join(f"['{key}']" for key in path[1:])


def canonical(name: str) -> str:
    """Convert JAX's spelling of a name to dots: `params['layers'][0].w` becomes `params.layers.0.w`."""
    return _BRACKET.sub(lambda m: "." + next(part for part in m.groups() if part is not None), name)
