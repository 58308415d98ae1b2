"""Dependency walks without recursion: dependency chains are longer than Python's recursion limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def operands_first(roots: Iterable[T], dependencies: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield `roots` and all their transitive dependencies in post-order: each item once, after its dependencies.

    `dependencies` is called when the walk reaches an item, so its result may depend on side effects of earlier items.
    """
    visited: set[T] = set()
    for root in roots:
        path = [(root, iter(dependencies(root)))] if root not in visited else []
        while path:
            item, rest = path[-1]
            unvisited = next((dependency for dependency in rest if dependency not in visited), None)
            if unvisited is not None:
                path.append((unvisited, iter(dependencies(unvisited))))
            else:
                path.pop()
                visited.add(item)
                yield item


def reachable(roots: Iterable[T], successors: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield `roots` and all items reachable from them, each once.

    `successors(item)` is called after `item` was yielded.
    """
    visited = set[T]()
    stack = [*roots]
    while stack:
        item = stack.pop()
        if item not in visited:
            visited.add(item)
            yield item
            stack += successors(item)
