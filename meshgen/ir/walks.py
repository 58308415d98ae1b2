"""Dependency walks without recursion: programs are deeper than Python's stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def operands_first(wanted: Iterable[T], needs: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """The given items and their dependencies, each once, after its dependencies: the post-order of a recursion.

    `needs` is called when the walk reaches an item, so it may depend on effects of earlier ones.
    """
    done: set[T] = set()
    for root in wanted:
        path = [(root, iter(needs(root)))] if root not in done else []
        while path:
            item, rest = path[-1]
            first = next((each for each in rest if each not in done), None)
            if first is not None:
                path.append((first, iter(needs(first))))
            else:
                path.pop()
                done.add(item)
                yield item


def reachable(roots: Iterable[T], successors: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield `roots` and everything that their successors lead to, each once, before its successors are asked for."""
    visited = set[T]()
    stack = [*roots]
    while stack:
        item = stack.pop()
        if item not in visited:
            visited.add(item)
            yield item
            stack += successors(item)
