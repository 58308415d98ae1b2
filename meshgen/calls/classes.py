"""The form of a structure: a dict, list, tuple, named tuple, or an object of a class that is registered with JAX.

    opened({"b": y, "a": x})      Form("dict"), {"a": x, "b": y}
    opened(Layer(w, b))           Form("object", "Layer", static="(2,)"), {"w": w, "b": b}

Only a JAX that is already loaded can have registered classes. Nothing here imports a class, so forms may safely come
from a file.
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
LOOSE = "~"  # A prefix of static fields such as functions, for which equal texts do not imply equal values.
# Maximum length of stored static fields, in characters; chosen: short ones stay readable. Longer ones become a digest.
_SHOWN = 200
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Form:
    """The class of a structure, without its children.

    Attributes:
        kind: one of `KINDS`. A "mapping" is an object whose class is a mapping. A "constant" is a number or a string
            that is part of the program. If a constant has a child, the child holds the number, and only the class of
            the number is part of the program.
        title: the class name of a named tuple, an object or a constant.
        static: the text of an object's static fields or of a constant, which are part of the program. Starts with
            `LOOSE` unless all static fields are numbers and strings.
        keys: the keys of a dict, if some are not strings.
        origin: JSON with the name of a class in torch's pytree registry, and the context that torch needs to
            rebuild an object (`torch_classes.py`).
    """

    kind: str = "dict"
    title: str = ""
    static: str = ""
    keys: tuple[Any, ...] = ()
    origin: str = ""


Maker = Callable[[Mapping[str, Any]], Any]  # Builds an object from its children.


def tree_util() -> Any:
    """Return `jax.tree_util` if JAX is loaded, else None."""
    return sys.modules.get("jax.tree_util")


def opened(structure: Any, written: bool = False) -> tuple[Form, dict[str, Any]] | None:
    """Return the form and the children by key of a structure, or None for a leaf.

    The keys of a dict are sorted, or in insertion order if `written`.
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
    """Return the keys of a dict in the order of its children, or an empty tuple if all are strings."""
    if all(isinstance(key, str) for key in mapping):
        return ()
    by_text = {str(key): key for key in mapping}
    return tuple(by_text[text] for text in items)


def _registered(structure: Any) -> tuple[Form, dict[str, Any]] | None:
    """Open an object whose class is registered with JAX, as `opened` does. Returns None for a leaf."""
    pairs, tree = tree_util().tree_flatten_with_path(structure, is_leaf=lambda part: part is not structure)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    static = _static_text(tree.node_data()[1])
    kind = "mapping" if isinstance(structure, Mapping) else "object"
    return Form(kind, type(structure).__name__, static), {key_text(path[0]): branch for path, branch in pairs}


def key_text(key: Any) -> str:
    """Return the text of a key in JAX's paths: a dict key, sequence index, attribute name or number."""
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _static_text(static: Any) -> str:
    text = ("" if _is_plain(static) else LOOSE) + _ADDRESS.sub("", repr(static))
    return text if len(text) <= _SHOWN else text[:1] + hashlib.sha256(text.encode()).hexdigest()


def _is_plain(value: Any) -> bool:
    """Whether a value's text describes it completely."""
    if isinstance(value, dict):
        return all(map(_is_plain, cast("dict[Any, Any]", value).items()))
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, cast("list[Any]", value)))
    return type(value) in _PLAIN


def children_like(structure: Any, form: Form, names: Sequence[str]) -> tuple[Form, dict[str, Any]] | None:
    """Open a structure as `opened` does. If `form` is an object, also accept an object of an unregistered class.

    The children are then its attributes `names`. Its static fields are unknown, so no later check compares them.
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


def makers_in(structure: Any) -> dict[tuple[Form, tuple[str, ...]], Maker]:
    """Return the functions that rebuild the objects in a structure, by form and keys."""
    form_and_children = opened(structure)
    if form_and_children is None:
        return _maker_of_dataclass(structure)
    form, items = form_and_children
    makers: dict[tuple[Form, tuple[str, ...]], Maker] = {}
    for branch in items.values():
        makers |= makers_in(branch)
    if form.kind == "named":
        kind: type[Any] = type(structure)
        makers[form, tuple(items)] = lambda fields: kind(*fields.values())
    elif form.kind in ("mapping", "object"):
        tree = tree_util().tree_structure(structure, is_leaf=lambda part: part is not structure)
        makers[form, tuple(items)] = lambda fields: tree.unflatten(fields.values())
    return makers


def _maker_of_dataclass(structure: Any) -> dict[tuple[Form, tuple[str, ...]], Maker]:
    """Return a function that rebuilds a dataclass instance, without static fields, for classes that JAX does not know.

    JAX does not know the class if it is not loaded, for example.
    """
    if not is_dataclass(structure) or isinstance(structure, type):
        return {}
    instance: Any = structure
    form, names = (
        Form("object", type(instance).__name__),
        {attribute.name for attribute in fields(instance) if attribute.init},
    )
    return {(form, ()): lambda values: replace(instance, **values) if values.keys() <= names else _record(form, values)}


def made_of(form: Form, items: Mapping[str, Any], makers: Mapping[tuple[Form, tuple[str, ...]], Maker]) -> Any:
    """Return the structure with this form and these children.

    An object becomes a record with the class name and the fields as attributes if `makers` does not have its class. A
    mapping becomes a dict.
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
    """Return the number or string of a constant form. Raises ValueError if its text does not fit its class."""
    try:
        if items:
            (number,) = items.values()
            return {"bool": bool, "int": int, "float": float}[form.title](number)
        return _READ[form.title](form.static)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{form.static!r:.60} is not a constant of the class {form.title!r:.60}") from error


def _record(form: Form, items: Mapping[str, Any]) -> Any:
    """Return a named tuple or an object with the fields as attributes, or a dict if some key is not an attribute name."""
    if not all(is_field(name) for name in (form.title, *items)):
        return dict(items)
    if form.kind == "named":
        return _named_tuple(form.title, tuple(items))(*items.values())
    return _record_class(form.title, tuple(items))(**items)


class Record:
    """A stand-in for an object whose class is not available.

    Its fields are attributes, and are also accessible by name and position, as in the output classes of model
    libraries.
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
    """Whether a record can have a field of this name."""
    return name.isidentifier() and not iskeyword(name) and not name.startswith("_")
