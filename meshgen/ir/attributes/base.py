"""Base class of node attributes: frozen dataclasses that declare an op's required and optional attributes.

    class Slice(Attributes):
        start: Ints
        limit: Ints
        stride: Ints

    node.attrs.start, dataclasses.replace(node.attrs, limit=(4, 8))

Ops with the same attributes share a class. The record of an op (`ops/op.py`) names its class.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from dataclasses import FrozenInstanceError, dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias, dataclass_transform

import numpy as np

Ints: TypeAlias = tuple[int, ...]
Flags: TypeAlias = tuple[bool, ...]
Texts: TypeAlias = tuple[str, ...]
Precisions: TypeAlias = tuple[str, ...]
"""StableHLO's precision of both operands of a matmul; empty means the default."""
Names: TypeAlias = tuple[str, ...]
"""Mesh axes or sub-axes."""
Place: TypeAlias = int | tuple[int | None, ...]
"""The rank of a device in its group, or its coordinates; a coordinate that only run time determines is None."""
Number: TypeAlias = float | complex | np.generic | np.ndarray[Any, Any]
"""A scalar."""


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Attributes:
    """The attributes of one node, such as the dims of a reduction: base class of one class per set of attributes.

    Instances compare by their fields. An instance is hashable if all values of its fields are hashable.
    A field whose value equals the default counts as absent and does not appear in `given`.

    Class attributes:
        field_types: the type of each field, as text (`ops/types/attributes.py`).
        required_fields: the fields without a default.
    """

    __slots__ = ("_hash",)  # `_hash` holds the cached hash and is not a field.
    field_types: ClassVar[Mapping[str, str]] = MappingProxyType({})
    required_fields: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        annotations: dict[str, str] = cls.__annotations__
        cls.field_types = {
            **cls.field_types,
            **{name: text.removesuffix(" | None") for name, text in annotations.items()},
        }
        cls.required_fields = frozenset(name for name in cls.field_types if not hasattr(cls, name))
        # `eq=False` and the like: all subclasses inherit the methods below instead of generated ones.
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **given: Any) -> None:
        if not self.fits(given):
            raise TypeError(
                f"{type(self).__name__} has {', '.join(self.field_types) or 'no field'}; got {', '.join(given) or 'none'}"
            )
        self.__dict__.update(given)
        for name in given.keys() - self.required_fields:
            default = getattr(type(self), name)
            if type(given[name]) is type(default) and given[name] == default:
                del self.__dict__[name]

    @classmethod
    def fits(cls, given: Mapping[str, Any]) -> bool:
        """Whether `given` has a value for each required field and for no name that is not a field."""
        return cls.required_fields <= given.keys() <= cls.field_types.keys()

    @property
    def given(self) -> Mapping[str, Any]:
        """The values of the fields by name, excluding fields whose value equals the default."""
        return self.__dict__

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field '{name}'")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field '{name}'")

    def __getitem__(self, name: str) -> Any:
        if name in self.given:
            return self.given[name]
        if name in self.field_types:
            return getattr(self, name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self.given

    def __iter__(self) -> Iterator[str]:
        return iter(self.given)

    def __len__(self) -> int:
        return len(self.given)

    def keys(self) -> KeysView[str]:
        return self.given.keys()

    def items(self) -> ItemsView[str, Any]:
        return self.given.items()

    def values(self) -> ValuesView[Any]:
        return self.given.values()

    def get(self, name: str, default: Any = None) -> Any:
        return self.given.get(name, default)

    def __or__(self, other: Mapping[str, Any]) -> dict[str, Any]:
        return {**self.given, **other}

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):
            return bool(self.given == other)
        if not isinstance(other, Attributes):
            return NotImplemented
        return self is other or (type(self) is type(other) and self.given == other.given)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            value = hash((type(self).__name__, frozenset(self.given.items())))
            object.__setattr__(self, "_hash", value)
            return value

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields without the cached hash: string hashes differ between processes."""
        return self.__dict__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"


class NoAttributes(Attributes):
    """The attribute class of ops without attributes."""


NO_ATTRIBUTES = NoAttributes()


class Unchecked(Attributes):
    """Attributes read from a file that do not match the op's class; `verify_node` reports the faults.

    Every key can be read as if it were a field.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.__dict__["_values"] = dict(given)

    @property
    def given(self) -> Mapping[str, Any]:
        return self.__dict__["_values"]

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"no attribute '{name}'")
