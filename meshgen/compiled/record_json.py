"""JSON serialization of compiler records: a graph of dataclasses and containers in which shared objects stay shared.

    {"version": 1,
     "classes": [["meshgen.mesh:Axis", ["name", "size", ...]], ...],
     "rows": [[0, "x", 4, ...], ["tuple", [0]], ...]}

Each row describes one object: the index of its class and the values of the fields, or the name of a container and the
elements. Numbers, strings, booleans and null are stored directly, and `[n]` refers to the object of row n, which must
be an earlier row. The last row is the root. Private fields are caches and are not saved.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections import abc
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Literal, Union, cast, get_args, get_origin

import numpy as np

from meshgen.errors import Location, file_name
from meshgen.identity_dict import IdentityDict
from meshgen.ir.attributes.base import Attributes, Unchecked
from meshgen.ir.encode_values import array_from_json, array_to_json, stored_bytes
from meshgen.ir.graph import DTYPES, Value, dtype_name
from meshgen.runtime.module_file.resources import LEAST_BYTES, Content, Resources
from meshgen.sharding.propagation.choices import AxisProblem, ProblemCaches

VERSION = 1
_PACKAGES = ("compiled", "errors", "ir", "machine", "mesh", "ops", "pipeline", "runtime", "sharding", "spec")
_CONTAINERS: Mapping[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "dict": lambda items: dict(zip(items[::2], items[1::2], strict=True)),
}
_OF_PROBLEM = (
    "sites",
    "link",
    "labels",
    "view",
)  # The saved fields of an `AxisProblem`; all its other fields are computed on demand.


class UnsavableError(TypeError):
    """Raised if an object has a type that cannot be saved."""


class OtherVersionError(Exception):
    """Raised if the records were saved by a version of meshgen whose classes have other fields."""


@cache
def saved_fields(cls: type) -> tuple[str, ...]:
    """Return the names of the fields of a class that are saved."""
    if cls is AxisProblem:
        return _OF_PROBLEM
    if issubclass(cls, Attributes):
        return tuple(cls.field_types)
    if _is_named_tuple(cls):
        return cast("Any", cls)._fields
    return tuple(attribute.name for attribute in dataclasses.fields(cls) if not attribute.name.startswith("_"))


class _Encoder:
    def __init__(self, resources: Resources) -> None:
        self.rows: list[list[Any]] = []
        self.classes: dict[type, int] = {}
        self._row_of_object = IdentityDict[Any, int]()
        self._values: dict[str, int] = {}
        # `Value.id` counts all values that the process has created, so saved values get new ids.
        self._ids: dict[int, int] = {}
        self._resources = resources

    def of(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return self._row(["float", str(value)])
        if (row_index := self._row_of_object.get(value)) is None:
            row = self._described(value, kind)
            row_index = self._row_of_object[value] = self._shared_row(row) if _is_immutable(kind) else self._row(row)[0]
        return [row_index]

    def _shared_row(self, row: list[Any]) -> int:
        """Return the index of a row. Equal rows of immutable values are stored once.

        Whether equal immutable values are the same object depends on the history of the process, so the document must
        not depend on it.
        """
        key = repr(row)
        if key not in self._values:
            self._values[key] = self._row(row)[0]
        return self._values[key]

    def _row(self, row: list[Any]) -> list[int]:
        self.rows.append(row)
        return [len(self.rows) - 1]

    def _described(self, value: Any, kind: type) -> list[Any]:
        if kind in (tuple, list):
            return [kind.__name__, *map(self.of, value)]
        # The iteration order of a set differs between processes, so the elements are sorted.
        if kind in (set, frozenset):
            return [kind.__name__, *map(self.of, sorted(value, key=repr))]
        if kind is dict:
            return ["dict", *(self.of(element) for item in value.items() for element in item)]
        if isinstance(value, np.ndarray | np.generic):
            return self._array(np.asarray(value), "array" if kind is np.ndarray else "scalar")
        if not _is_record(kind) or not _is_ours(kind.__module__):
            raise UnsavableError(f"{kind.__module__}.{kind.__qualname__}")
        class_index = self.classes.setdefault(kind, len(self.classes))
        if isinstance(value, Attributes):
            return [class_index, self.of(dict(value.given))]
        values = {name: getattr(value, name) for name in saved_fields(kind)}
        if kind is Value:
            values["id"] = self._ids.setdefault(value.id, len(self._ids))
        if kind is Location:
            values["file"] = file_name(value.file)
        return [class_index, *map(self.of, values.values())]

    def _array(self, array: np.ndarray[Any, Any], word: str) -> list[Any]:
        content = stored_bytes(array)
        is_splat = len(content) < array.nbytes or content == content[: array.itemsize] * array.size
        if is_splat or len(content) < LEAST_BYTES:
            return [word, array_to_json(array)]
        return ["resource", self._resources.name(content), dtype_name(array.dtype), list(array.shape)]


def _is_record(cls: type) -> bool:
    is_record = dataclasses.is_dataclass(cls) or _is_named_tuple(cls)
    return is_record or cls is AxisProblem or issubclass(cls, Attributes)


@lru_cache(maxsize=1024)
def _is_immutable(cls: type) -> bool:
    if cls in (tuple, frozenset, np.ndarray) or issubclass(cls, np.generic | Attributes) or _is_named_tuple(cls):
        return True
    return dataclasses.is_dataclass(cls) and cls.__hash__ is not object.__hash__ and cls.__hash__ is not None


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _is_ours(module: str) -> bool:
    package, _, rest = module.partition(".")
    return package == "meshgen" and rest.split(".")[0] in _PACKAGES


def to_document(value: Any, resources: Resources) -> dict[str, Any]:
    """Return an object as a JSON document. The bytes of large arrays are added to `resources`. Raises UnsavableError."""
    encoder = _Encoder(resources)
    encoder.of([value])
    classes = [[f"{cls.__module__}:{cls.__qualname__}", list(saved_fields(cls))] for cls in encoder.classes]
    return {"version": VERSION, "classes": classes, "rows": encoder.rows}


def from_document(document: Any, resources: Callable[[str], Content]) -> Any:
    """Rebuild the object that a document describes.

    Args:
        resources: returns the bytes of a large array by name.
    Raises:
        OtherVersionError: another version of meshgen wrote the document.
        ValueError: the document is malformed.
    """
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("version") != VERSION:
        raise OtherVersionError
    classes = [_class_of(description) for description in _list(document.get("classes"))]
    decoder = _Decoder(classes, resources)
    for row in _list(document.get("rows")):
        decoder.add(_list(row))
    if not decoder.values or not isinstance(root := decoder.values[-1], list):
        raise ValueError("it has no rows")
    return cast("list[Any]", root)[0]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError("expected a list with elements")
    return cast("list[Any]", value)


def _class_of(description: Any) -> type:
    """Return a class. Raises OtherVersionError unless its fields are the same as when it was saved."""
    name, fields = _list(description)
    module, _, qualified = name.partition(":") if isinstance(name, str) else ("", "", "")
    if not _is_ours(module):
        raise ValueError(f"'{module:.60}' has no records")
    try:
        cls = getattr(import_module(module), qualified)
    except (ImportError, AttributeError) as error:
        raise OtherVersionError from error
    if not isinstance(cls, type) or not _is_record(cls):
        raise OtherVersionError
    if list(saved_fields(cls)) != fields:
        raise OtherVersionError
    return cls


class _Decoder:
    def __init__(self, classes: list[type], resources: Callable[[str], Content]) -> None:
        self.values: list[Any] = []
        self._classes, self._resources = classes, resources
        self._ids: dict[int, int] = {}

    def add(self, row: list[Any]) -> None:
        tag, *parts = row
        if isinstance(tag, int) and not isinstance(tag, bool) and 0 <= tag < len(self._classes):
            self.values.append(self._made(self._classes[tag], list(map(self._part, parts))))
        elif isinstance(tag, str) and tag in _CONTAINERS:
            try:
                self.values.append(_CONTAINERS[tag](list(map(self._part, parts))))
            except TypeError as error:
                raise ValueError(f"a key cannot be hashed: {error}") from error
        elif tag == "float" and parts in (["inf"], ["-inf"], ["nan"]):
            self.values.append(float(parts[0]))
        elif tag in ("array", "scalar") and len(parts) == 1:
            array = array_from_json(parts[0])
            self.values.append(array if tag == "array" else array[()])
        elif tag == "resource" and len(parts) == 3:
            self.values.append(self._resource(*parts))
        else:
            raise ValueError(f"unknown row {tag!r:.60}")

    def _part(self, part: Any) -> Any:
        if not isinstance(part, list):
            return part
        match cast("list[Any]", part):
            case [int(number)] if 0 <= number < len(self.values):
                return self.values[number]
            case _:
                raise ValueError(f"{part!r:.60} does not name an earlier row")

    def _resource(self, name: Any, dtype: Any, shape: Any) -> np.ndarray[Any, Any]:
        if dtype not in DTYPES or not isinstance(shape, list):
            raise ValueError(f"an array of type {dtype!r:.60}")
        return np.frombuffer(self._resources(name), DTYPES[dtype]).reshape(cast("list[Any]", shape))

    def _made(self, cls: type, values: list[Any]) -> Any:
        try:
            if issubclass(cls, Attributes):
                return cls(values[0]) if cls is Unchecked else cls(**values[0])
            return self._record(cls, values)
        except (TypeError, IndexError, AttributeError, KeyError) as error:
            raise ValueError(f"a {cls.__name__} is malformed: {error}") from error

    def _record(self, cls: type, values: list[Any]) -> Any:
        names = saved_fields(cls)
        if len(values) != len(names):
            raise ValueError(f"a {cls.__name__} has {len(names)} fields, not {len(values)}")
        for name, value in zip(names, values, strict=True):
            if not _fits(value, _hints(cls).get(name, Any)):
                raise ValueError(f"{name} of a {cls.__name__} is {value!r:.60}")
        if _is_named_tuple(cls):
            return cls(*values)
        if cls is AxisProblem:
            return AxisProblem(**dict(zip(names, values, strict=True)), caches=ProblemCaches())
        record: Any = object.__new__(cls)
        for attribute in dataclasses.fields(cast("Any", cls)):
            if attribute.name in names:
                value = values[names.index(attribute.name)]
            else:
                value = attribute.default_factory() if callable(attribute.default_factory) else attribute.default
            object.__setattr__(record, attribute.name, value)
        if hasattr(record, "__post_init__"):
            record.__post_init__()
        if isinstance(record, Value):
            new_id = Value(record.type).id
            record.id = self._ids.setdefault(record.id, new_id)
        return record


@cache
def _hints(cls: type) -> Mapping[str, Any]:
    if cls is AxisProblem:
        return typing.get_type_hints(AxisProblem.__init__)
    try:
        return typing.get_type_hints(cls)
    # Some types are imported only for the type checker.
    except NameError:  # types that are imported for the checker only
        return {}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value has a type. The check includes the elements of containers."""
    return _checker(hint)(value)


Check = Callable[[Any], bool]


@cache
def _checker(hint: Any) -> Check:
    """Return a predicate that checks whether a value has a type."""
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
        return all(
            element_check(part) for element_check, part in zip(checks, cast("tuple[Any, ...]", value), strict=True)
        )

    return check
