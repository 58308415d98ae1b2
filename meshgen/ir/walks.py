"""Walks along what needs what, of any length: programs are longer than Python's stack is deep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def operands_first(wanted: Iterable[T], needs: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """All that is wanted and what that needs, each once, behind what it needs: as a recursion would come to it.

    `needs` is asked when the walk comes to something, so it may depend on what was done with what came before.
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
