"""`dataclass` as the standard library's, at a fraction of its cost, which was a tenth of the time of compiling a program.

The standard decorator compiles the source of up to six methods for each class. Here only `__init__` is compiled, when the first instance
is made; equality and hashes are those of the tuple of fields that `attrgetter` makes, and all else is shared by all classes. Fields are the
standard library's: `field`, `fields`, `replace` and `asdict` take these classes. They are collected without asking what each annotation
may mean in its module.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import MISSING, FrozenInstanceError, is_dataclass
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

_STANDARD = dataclasses.dataclass
_OPTIONS = {"init", "repr", "eq", "frozen", "kw_only"}  # of the decorator that shared methods heed
_Class = TypeVar("_Class")
_Instance = TypeVar("_Instance")
_COPIES: dict[type, Callable[[Any, dict[str, Any]], Any]] = {}  # what `replace` does, by class


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
        return _with_methods(cls, frozen=frozen, eq=eq, kw_only=kw_only)

    return decorated if cls is None else decorated(cls)


@contextmanager
def sharing_methods(package: str) -> Generator[None]:
    """Within it, the dataclasses of a package that is imported for the first time have the methods of this file.

    xDSL defines hundreds of dataclasses, and a program needs few of their methods.
    """
    if package in sys.modules:
        yield
        return

    def decorator(cls: Any = None, /, **options: bool) -> Any:
        if cls is None:
            return partial(decorator, **options)
        if not cls.__module__.startswith(f"{package}.") or options.keys() - _OPTIONS:
            return _STANDARD(**options)(cls)
        return _with_methods(cls, **options)

    dataclasses.dataclass = decorator  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        dataclasses.dataclass = _STANDARD


def with_fields(cls: type) -> None:
    """Make a class a dataclass that has its own methods, or inherits them."""
    _with_methods(cls, init=False, repr=False, eq=False)


def _with_methods(
    cls: Any, *, init: bool = True, repr: bool = True, eq: bool = True, frozen: bool = False, kw_only: bool = False
) -> Any:
    """The class with its fields, and the methods that it does not define itself."""
    own = set(vars(cls))
    if not _has_collected_fields(cls, kw_only):
        bases: list[Any] = [each for each in cls.__mro__ if is_dataclass(each)]
        is_frozen_as_base = any(each.__dataclass_params__.frozen for each in bases)
        # else the standard library makes one of the signature, slowly, and before 3.11.4 fails for exceptions
        cls.__doc__ = cls.__doc__ or cls.__name__
        _STANDARD(init=False, repr=False, eq=False, frozen=is_frozen_as_base, kw_only=kw_only)(cls)
    cls.__dataclass_params__ = (_FROZEN if frozen else _TEMPLATE).__dataclass_params__
    if init and "__init__" not in own:
        cls.__init__ = _Initialiser(cls, frozen)
    if repr and "__repr__" not in own:
        cls.__repr__ = _repr
    if frozen:
        _freeze(cls)
    if eq:
        _compare_fields(cls, frozen)
    return cls


@_STANDARD(init=False, repr=False, eq=False)
class _Template:
    """What the standard library's decorator leaves on a class and its fields."""

    field: int


@_STANDARD(init=False, repr=False, eq=False, frozen=True)
class _FrozenTemplate:
    """That of a frozen class: the standard library's decorator asks the bases of one whether they are."""


_TEMPLATE: Any = _Template
_FROZEN: Any = _FrozenTemplate
_FIELD: Any = _TEMPLATE.__dataclass_fields__["field"]._field_type


def _has_collected_fields(cls: Any, kw_only: bool) -> bool:
    """Collect the fields of a class as the standard library does, which reads each annotation for what it may mean.

    False where an annotation is none of a plain field or of a class: nothing is done then.
    """
    annotations: dict[str, Any] = cls.__annotations__
    texts = [each if isinstance(each, str) else repr(each) for each in annotations.values()]
    if any("InitVar" in text or "KW_ONLY" in text for text in texts):
        return False
    fields: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        fields |= getattr(base, "__dataclass_fields__", {})
    for (name, kind), text in zip(annotations.items(), texts, strict=True):
        found = _field_of(cls, name)
        if text.startswith(("ClassVar", "typing.ClassVar")):
            continue
        found.name, found.type, found._field_type = name, kind, _FIELD
        found.kw_only = kw_only if found.kw_only is MISSING else found.kw_only
        if found.default.__class__.__hash__ is None:
            raise ValueError(f"mutable default {found.default!r} for field {name} is not allowed: use default_factory")
        fields[name] = found
    cls.__dataclass_fields__ = fields
    if "__match_args__" not in vars(cls):
        cls.__match_args__ = tuple([name for name, each in fields.items() if each.init and not each.kw_only])
    return True


def _field_of(cls: Any, name: str) -> Any:
    """The field of this name; the class has its default, if there is one."""
    default: Any = getattr(cls, name, MISSING)
    if not isinstance(default, dataclasses.Field):
        return dataclasses.field(default=default)
    if default.default is MISSING:
        delattr(cls, name)
    else:
        setattr(cls, name, default.default)
    return default


class _Initialiser:
    """Stands for the `__init__` of a class until it is looked up: most classes of a command have no instances."""

    def __init__(self, cls: Any, frozen: bool) -> None:
        self._cls, self._frozen = cls, frozen

    def __get__(self, instance: object, owner: type) -> Any:
        self._cls.__init__ = made = _initialiser(self._cls, self._frozen)
        return made.__get__(instance, owner)


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
        if self is other:
            return True
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    if "__eq__" not in vars(cls):
        cls.__eq__ = __eq__
    if vars(cls).get("__hash__") is None:
        cls.__hash__ = __hash__ if frozen else None


def replace(instance: _Instance, /, **changes: Any) -> _Instance:
    """`dataclasses.replace`, in a third of its time for a class whose fields are all those of `__init__`."""
    cls = type(instance)
    copy = _COPIES.get(cls) or _COPIES.setdefault(cls, _copier(cls))
    return copy(instance, changes)


def _copier(cls: type) -> Callable[[Any, dict[str, Any]], Any]:
    """What `replace` does for instances of a class."""
    fields = dataclasses.fields(cls)
    if not all(each.init for each in fields):
        return lambda instance, changes: dataclasses.replace(instance, **changes)
    known: dict[str, Any] = {"record_class": cls}
    values = "".join(f"{each.name!r}: instance.{each.name}, " for each in fields)
    exec(f"def copy(instance, changes):\n return record_class(**{{{values}**changes}})", known)
    return known["copy"]


@recursive_repr()
def _repr(self: Any) -> str:
    values = (f"{each.name}={getattr(self, each.name)!r}" for each in dataclasses.fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(values)})"


def _freeze(cls: Any) -> None:
    """Refuse changes of instances; those of an undecorated subclass may have attributes of their own."""
    names = {each.name for each in dataclasses.fields(cls)}

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__


class Shown:
    """What notebooks show as its text, in a fixed-width font."""

    def _repr_html_(self) -> str:
        from html import escape  # only notebooks need it

        return f"<code>{escape(str(self))}</code>"
