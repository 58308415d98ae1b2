"""The form of a structure of arguments: a dict, list, tuple, named tuple, or an object of a class registered with JAX.

    opened({"b": y, "a": x})       Form("dict"), {"a": x, "b": y}
    opened(Layer(w, b))            Form("object", "Layer", static="(2,)"), {"w": w, "b": b}

Classes can be registered only if JAX is loaded already. Nothing here imports a class, so a form may come from an
untrusted file.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from functools import lru_cache
from keyword import iskeyword
from typing import Any, cast

from meshgen.calls.torch_classes import torch_object
from meshgen.calls.trees import children

KINDS = ("none", "dict", "ordered", "mapping", "list", "tuple", "named", "object", "constant")
LOOSE = "~"  # Prefix of the text of static fields such as functions: equal texts then do not imply equal values.
# Maximum length of stored static fields, in characters; longer texts are replaced by a digest. Chosen: short texts stay
# readable.
_SHOWN = 200
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Form:
    """What a program knows about the class of a structure; the children are stored separately.

    Attributes:
        kind: one of `KINDS`. A "mapping" is an object whose class is a mapping. A "constant" is a number or a string
            that is part of the program. If a constant has a child, the child holds the number, and only the class of
            the number is part of the program.
        title: the class name of a named tuple, an object or a constant.
        static: the text of an object's static fields or of a constant, which are part of the program. Starts with
            `LOOSE` unless all static fields are numbers and strings.
        keys: the keys of a dict, if some are not strings.
        origin: JSON with the name of a class in torch's pytree registry, and the context that torch needs to rebuild an
            object (`torch_classes.py`).
    """

    kind: str = "dict"
    title: str = ""
    static: str = ""
    keys: tuple[Any, ...] = ()
    origin: str = ""


Maker = Callable[[Mapping[str, Any]], Any]  # Builds an object from its children by key.


def tree_util() -> Any:
    """Return `jax.tree_util` if JAX is loaded, else None."""
    return sys.modules.get("jax.tree_util")


def opened(structure: Any, written: bool = False) -> tuple[Form, dict[str, Any]] | None:
    """Return the form of a structure, and its children by key. Returns None for a leaf.

    The children of a dict are sorted by key; with `written`, they keep the insertion order.
    """
    if structure is None:
        return Form("none"), {}
    kind: type[Any] = type(structure)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return Form("named", kind.__name__), children(structure) or {}
    if kind not in (dict, OrderedDict, list, tuple):
        if tree_util() is not None and (registered := _registered(structure)) is not None:
            return registered
        if not isinstance(structure, (Mapping, list, tuple)):
            return None
    items = children(structure, written) or {}
    if isinstance(structure, Mapping):
        return Form(
            "ordered" if kind is OrderedDict else "dict", keys=_keys(cast("Mapping[Any, Any]", structure), items)
        ), items
    return Form("list" if isinstance(structure, list) else "tuple"), items


def _keys(mapping: Mapping[Any, Any], items: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the original keys of a dict, in the order of `items`. Returns an empty tuple if all keys are strings."""
    if all(isinstance(key, str) for key in mapping):
        return ()
    by_text = {str(key): key for key in mapping}
    return tuple(by_text[text] for text in items)


def _registered(structure: Any) -> tuple[Form, dict[str, Any]] | None:
    """Return form and children, as `opened` does, of an object whose class is registered with JAX. Returns None for a
    leaf.
    """
    pairs, tree = tree_util().tree_flatten_with_path(structure, is_leaf=lambda part: part is not structure)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    static = _static_text(tree.node_data()[1])
    kind = "mapping" if isinstance(structure, Mapping) else "object"
    return Form(kind, type(structure).__name__, static), {key_text(path[0]): branch for path, branch in pairs}


def key_text(key: Any) -> str:
    """Return the text of a key in a JAX path. The key is a dict key, a sequence index, an attribute name or a number."""
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _static_text(static: Any) -> str:
    text = ("" if _is_plain(static) else LOOSE) + _ADDRESS.sub("", repr(static))
    return text if len(text) <= _SHOWN else text[:1] + hashlib.sha256(text.encode()).hexdigest()


def _is_plain(value: Any) -> bool:
    """Whether the `repr` of a value describes the value completely: it contains only numbers, strings and containers."""
    if isinstance(value, dict):
        return all(map(_is_plain, cast("dict[Any, Any]", value).items()))
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, cast("list[Any]", value)))
    return type(value) in _PLAIN


def children_like(structure: Any, form: Form, names: Sequence[str]) -> tuple[Form, dict[str, Any]] | None:
    """Return form and children as `opened` does, but accept an object of an unregistered class if `form` is an object.

    The children of such an object are the attributes in `names`. Its static fields are unknown, so they are not
    compared.
    """
    form_and_children = opened(structure)
    if form_and_children is not None or form.kind != "object" or hasattr(structure, "dtype"):
        return form_and_children
    attributes = {name: getattr(structure, name) for name in names if hasattr(structure, name)}
    return (
        (replace(form, title=type(structure).__name__), attributes)
        if attributes and len(attributes) == len(names)
        else None
    )


# --- rebuilding structures ---


def object_builders(structure: Any) -> dict[tuple[Form, tuple[str, ...]], Maker]:
    """Return functions that rebuild the objects in a structure from their children, by (form, keys)."""
    form_and_children = opened(structure)
    if form_and_children is None:
        return _maker_of_dataclass(structure)
    form, items = form_and_children
    makers: dict[tuple[Form, tuple[str, ...]], Maker] = {}
    for branch in items.values():
        makers |= object_builders(branch)
    if form.kind == "named":
        kind: type[Any] = type(structure)
        makers[form, tuple(items)] = lambda fields: kind(*fields.values())
    elif form.kind in ("mapping", "object"):
        tree = tree_util().tree_structure(structure, is_leaf=lambda part: part is not structure)
        makers[form, tuple(items)] = lambda fields: tree.unflatten(fields.values())
    return makers


def _maker_of_dataclass(structure: Any) -> dict[tuple[Form, tuple[str, ...]], Maker]:
    """Return a function that rebuilds an instance of a dataclass from its fields.

    This serves classes that are not registered with JAX, for example because JAX is not loaded. Static fields are taken
    from the instance `structure`.
    """
    if not is_dataclass(structure) or isinstance(structure, type):
        return {}
    instance: Any = structure
    form, names = (
        Form("object", type(instance).__name__),
        {attribute.name for attribute in fields(instance) if attribute.init},
    )
    return {(form, ()): lambda values: replace(instance, **values) if values.keys() <= names else _record(form, values)}


def rebuild_structure(
    form: Form, items: Mapping[str, Any], makers: Mapping[tuple[Form, tuple[str, ...]], Maker]
) -> Any:
    """Build the structure with form `form` and children `items`.

    If `makers` has no function for the class of an object, a record with the class name and the same fields is built
    instead, and a dict instead of a mapping.
    """
    plain = replace(form, origin="")
    maker = makers.get((plain, tuple(items))) or makers.get((replace(plain, static=""), ()))
    if maker:
        return maker(items)
    if form.origin and (torch_instance := torch_object(form.origin, items)) is not None:
        return torch_instance
    if form.kind in ("named", "object"):
        return _record(form, items)
    if form.kind in ("list", "tuple"):
        return [*items.values()] if form.kind == "list" else tuple(items.values())
    if form.kind == "none":
        return None
    if form.kind == "constant":
        return constant_of(form, items)
    pairs = zip(form.keys or items, items.values(), strict=True)
    return OrderedDict(pairs) if form.kind == "ordered" else dict(pairs)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "bool": {"True": True, "False": False}.__getitem__, "int": int, "float": float, "complex": complex, "str": json.loads,
}  # fmt: skip


def constant_form(value: Any) -> Form:
    """Return the form of a number, string or None that is part of a program."""
    if value is None:
        return Form("none")
    return Form("constant", type(value).__name__, json.dumps(value) if isinstance(value, str) else repr(value))


def constant_of(form: Form, items: Mapping[str, Any]) -> Any:
    """Return the number or string that a constant form represents. Raises ValueError if its text does not match its
    class.
    """
    try:
        if items:
            (number,) = items.values()
            return {"bool": bool, "int": int, "float": float}[form.title](number)
        return _READ[form.title](form.static)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{form.static!r:.60} is not a constant of the class {form.title!r:.60}") from error


def _record(form: Form, items: Mapping[str, Any]) -> Any:
    """Return a stand-in with fields `items`: a named tuple or a `Record`, or a dict if a key is not a valid attribute
    name.
    """
    if not all(is_field(name) for name in (form.title, *items)):
        return dict(items)
    if form.kind == "named":
        return _named_tuple(form.title, tuple(items))(*items.values())
    return _record_class(form.title, tuple(items))(**items)


class Record:
    """A stand-in for an object whose class is not available.

    The fields are attributes of the record, and can also be accessed by name and by position, as in the output classes
    of model libraries.
    """

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(attribute.name for attribute in fields(cast("Any", self)))

    def to_tuple(self) -> tuple[Any, ...]:
        """Return the fields in order."""
        return tuple(self.__dict__[name] for name in Record.keys(self))

    def values(self) -> tuple[Any, ...]:
        """Return the fields in order."""
        return Record.to_tuple(self)

    def items(self) -> tuple[tuple[str, Any], ...]:
        """Return names and fields."""
        return tuple(zip(Record.keys(self), Record.to_tuple(self), strict=True))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return {name: self.__dict__[name] for name in Record.keys(self)}[key]
        return Record.to_tuple(self)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(Record.keys(self))

    def __len__(self) -> int:
        return len(Record.keys(self))


@lru_cache
def _record_class(title: str, names: tuple[str, ...]) -> Any:
    return make_dataclass(title, names, bases=(Record,), eq=False, kw_only=True)


@lru_cache
def _named_tuple(title: str, names: tuple[str, ...]) -> Any:
    return namedtuple(title, names)  # pyright: ignore


def is_field(name: str) -> bool:
    """Whether `name` can be the name of a record's field."""
    return name.isidentifier() and not iskeyword(name) and not name.startswith("_")
