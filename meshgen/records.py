"""`dataclass` as the standard library's, at a fraction of its cost, which was a tenth of the time of compiling a program.

The standard decorator compiles the source of up to six methods for each class. Here only `__init__` is compiled; equality and hashes
are those of the tuple of fields that `attrgetter` makes, and all else is shared by all classes. Fields are the standard library's:
`field`, `fields`, `replace` and `asdict` take these classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class")


@overload
def dataclass(cls: type[_Class], /) -> type[_Class]: ...
@overload
def dataclass(
    *, frozen: bool = False, eq: bool = True, kw_only: bool = False
) -> Callable[[type[_Class]], type[_Class]]: ...
@dataclass_transform(field_specifiers=(dataclasses.field,))
def dataclass(cls: Any = None, /, *, frozen: bool = False, eq: bool = True, kw_only: bool = False) -> Any:
    """Decorator: a class whose instances hold the fields that it annotates; those of a `frozen` one cannot be changed.

    Instances of one class are equal where their fields are, unless `eq` is false; frozen ones are hashed alike.
    """

    def decorated(cls: Any) -> Any:
        cls.__doc__ = cls.__doc__ or ""  # else the standard library makes one of the signature, slowly
        own = set(vars(cls))
        dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        if "__init__" not in own:
            cls.__init__ = _initialiser(cls, frozen)
        if "__repr__" not in own:
            cls.__repr__ = _repr
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse_change, _refuse_deletion
        if eq:
            _compare_fields(cls, frozen)
        return cls

    return decorated if cls is None else decorated(cls)


def _initialiser(cls: type, frozen: bool) -> Callable[..., None]:
    """`__init__`: a parameter for each field with `init`, then `__post_init__`, if there is one."""
    known: dict[str, Any] = {"record_set": object.__setattr__, "record_made": MISSING}
    head, by_name, body = ["self"], ["*"], []
    for each in dataclasses.fields(cls):
        value, is_made = each.name, each.default is MISSING
        default = each.default_factory if is_made else each.default
        if default is not MISSING:
            known[f"record_of_{each.name}"] = default
        if each.init:
            own = "" if default is MISSING else "=record_made" if is_made else f"=record_of_{each.name}"
            (by_name if each.kw_only else head).append(each.name + own)
            if own == "=record_made":
                value = f"record_of_{each.name}() if {each.name} is record_made else {each.name}"
        elif default is MISSING:
            continue
        else:
            value = f"record_of_{each.name}()" if is_made else f"record_of_{each.name}"
        body.append(f"record_set(self, {each.name!r}, {value})" if frozen else f"self.{each.name} = {value}")
    body += ["self.__post_init__()"] if hasattr(cls, "__post_init__") else [] if body else ["pass"]
    head += by_name if len(by_name) > 1 else []
    exec(f"def __init__({', '.join(head)}):\n " + "\n ".join(body), known)
    return known["__init__"]


def _compare_fields(cls: Any, frozen: bool) -> None:
    names = [each.name for each in dataclasses.fields(cls) if each.compare]
    values = attrgetter(*names) if len(names) > 1 else lambda each: tuple([getattr(each, name) for name in names])

    def __eq__(self: Any, other: Any) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    if "__eq__" not in vars(cls):
        cls.__eq__ = __eq__
    if vars(cls).get("__hash__") is None:
        cls.__hash__ = __hash__ if frozen else None


@recursive_repr()
def _repr(self: Any) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _refuse_change(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


class Shown:
    """What notebooks show as its text, in a fixed-width font."""

    def _repr_html_(self) -> str:
        from html import escape  # only notebooks need it

        return f"<code>{escape(str(self))}</code>"
