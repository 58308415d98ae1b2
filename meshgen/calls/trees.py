"""Nested dicts, lists, tuples and named tuples: their leaves, and the paths of keys that lead to them.

    {"b": [x, None], "a": y}    has the leaves    ("a",): y    ("b", "0"): x

As in JAX, the keys of a dict are taken in sorted order, so a program does not depend on the order in which a dict was
filled, and None holds no leaf. What a function returns keeps the order in which it was written (`written`). Keys are
texts here, so that one spelling (`params.w1`, `params['w1']`) finds them.
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
    """The children of a structure by key; None for a leaf. Raises UsageError MG0001 for two keys with one spelling."""
    if tree is None:
        return {}
    if not isinstance(tree, (Mapping, list, tuple)):
        return None
    pairs = _items(cast("Any", tree), written)
    held = {str(key): branch for key, branch in pairs}
    if len(held) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if [*map(str, keys)].count(str(key)) > 1)
        text = f"two keys of a dict are spelled '{twice}': {', '.join(map(repr, keys))}"
        raise UsageError(Diagnostic("MG0001", text, hint="use keys of one type"))
    return held


def _items(tree: Any, written: bool) -> list[tuple[Any, Any]]:
    """Keys and children in order; an OrderedDict keeps its own."""
    if not isinstance(tree, Mapping):
        return list(zip(getattr(tree, "_fields", range(len(tree))), tree, strict=True))
    items = list(cast("Mapping[Any, Any]", tree).items())
    if written or isinstance(tree, OrderedDict):
        return items
    try:
        return sorted(items, key=lambda item: item[0])
    except TypeError:  # keys of several types have no order of their own
        return sorted(items, key=lambda item: (type(item[0]).__name__, str(item[0])))


def require_depth(path: Path) -> None:
    """Raise UsageError MG0006 for a path into a structure that is nested too deeply, such as one that contains itself."""
    if len(path) > MAX_NESTING:
        text = f"a structure of arguments or results is nested more than {MAX_NESTING} deep: {'.'.join(path[:3])}. ..."
        raise UsageError(Diagnostic("MG0006", text, hint="pass a flatter structure"))


def flatten(tree: Any, path: Path = (), *, written: bool = False) -> Iterator[tuple[Path, Any]]:
    """The leaves in order, each with its path. Raises as `require_depth`."""
    require_depth(path)
    held = children(tree, written)
    if held is None:
        yield path, tree
        return
    for key, branch in held.items():
        yield from flatten(branch, (*path, key), written=written)


def unflatten(tree: Any, made: Iterator[Any], *, written: bool = False) -> Any:
    """The structure of `tree` with its leaves replaced in order, in which dicts then have their keys."""
    if tree is None:
        return None
    if not isinstance(tree, (Mapping, list, tuple)):
        return next(made)
    items = [(key, unflatten(branch, made, written=written)) for key, branch in _items(cast("Any", tree), written)]
    if isinstance(tree, Mapping):
        return OrderedDict(items) if isinstance(tree, OrderedDict) else dict(items)
    branches = [branch for _, branch in items]
    return type(tree)(*branches) if hasattr(tree, "_fields") else type(cast("list[Any]", tree))(branches)


def dotted(path: Path) -> str:
    """A path as names are shown: `params.w1`."""
    return ".".join(path)


def bracketed(path: Path) -> str:
    """A path as JAX shows keys of dicts, for keys with dots in them: `params['layers.0']`."""
    return path[0] + "".join(f"['{key}']" for key in path[1:])


def canonical(name: str) -> str:
    """A name as it is shown, from JAX's spelling of it: `params['layers'][0].w` is `params.layers.0.w`."""
    return _BRACKET.sub(lambda m: "." + next(part for part in m.groups() if part is not None), name)
