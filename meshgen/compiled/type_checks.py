"""Checks that a value is of the type of a field, as its annotation says."""

from __future__ import annotations

import types
from collections import abc
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, Union, cast, get_args, get_origin

Check = Callable[[Any], bool]


def is_of_type(value: Any, hint: Any) -> bool:
    """Whether a value is of a type; the elements of containers are looked at too."""
    return _checker(hint)(value)


@cache
def _checker(hint: Any) -> Check:
    """The check that a value is of a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        checks = list(map(_checker, args))
        return lambda value: any(check(value) for check in checks)
    if origin is Literal:
        return lambda value: value in args
    if hint is None or hint is type(None):
        return lambda value: value is None
    if hint is float:
        return lambda value: type(value) in (float, int)
    kind = origin or hint
    if hint is Any or not isinstance(kind, type) or kind is abc.Callable:
        return lambda value: True
    if kind is tuple and args:
        return _tuple_check(args)
    if args and issubclass(kind, abc.Mapping):
        key, item = map(_checker, args[:2])
        return lambda value: isinstance(value, kind) and all(key(k) and item(v) for k, v in value.items())
    if args and issubclass(kind, abc.Collection):
        element = _checker(args[0])
        return lambda value: isinstance(value, kind) and all(map(element, value))
    return lambda value: isinstance(value, kind) and (type(value) is not bool or kind in (bool, object))


def _tuple_check(args: tuple[Any, ...]) -> Check:
    if len(args) == 2 and args[1] is Ellipsis:
        element = _checker(args[0])
        return lambda value: isinstance(value, tuple) and all(map(element, cast("tuple[Any, ...]", value)))
    checks = [] if args == ((),) else list(map(_checker, args))

    def check(value: Any) -> bool:
        if not isinstance(value, tuple) or len(cast("tuple[Any, ...]", value)) != len(checks):
            return False
        return all(each(part) for each, part in zip(checks, cast("tuple[Any, ...]", value), strict=True))

    return check
