"""A dictionary that compares keys by identity, for arrays and for records that may be equal but must be kept apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class IdentityDict(MutableMapping[K, V]):
    """A dictionary that compares keys by identity.

    It keeps its keys alive, so that no other object can get the same identity.
    """

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[int, tuple[K, V]] = {id(key): (key, value) for key, value in items}

    def __getitem__(self, key: K) -> V:
        return self._items[id(key)][1]

    def __setitem__(self, key: K, value: V) -> None:
        self._items[id(key)] = key, value

    def __delitem__(self, key: K) -> None:
        del self._items[id(key)]

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self._items.values())

    def __len__(self) -> int:
        return len(self._items)


def identities(items: Iterable[Any]) -> list[int]:
    """Return an index per item, which is equal for items that are the same object."""
    numbers = IdentityDict[Any, int]()
    return [numbers.setdefault(item, len(numbers)) for item in items]
