"""What a structure is: a dict, a list, a tuple, a named tuple, or an object of a class that is registered with JAX.

    opened({"b": y, "a": x})      Form("dict"), {"a": x, "b": y}
    opened(Layer(w, b))           Form("object", "Layer", static="(2,)"), {"w": w, "b": b}

JAX is asked only where it is loaded already: without it no class is registered. Nothing here imports a class, so
that forms may come from a file.
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
LOOSE = "~"  # before the text of static fields that equal texts do not prove equal, such as functions
_SHOWN = 200  # characters of static fields that are kept; longer ones as their digest
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True)
class Form:
    """What a structure is, besides its children.

    Attributes:
        kind: one of `KINDS`; a mapping is an object of a class that is one; a constant is a number or a text that is part of the program, `title` its
            class and `static` its text; with a child, which holds the number, its class only.
        title: the name of its class, of a named tuple or an object.
        static: the text of an object's static fields, which are part of the program; after `LOOSE` where they are not numbers and texts.
        keys: those of a dict, if some are not texts.
        origin: the class in torch's table of structures, and what that keeps to make an object, as JSON (`torch_classes.py`).
    """

    kind: str = "dict"
    title: str = ""
    static: str = ""
    keys: tuple[Any, ...] = ()
    origin: str = ""


Maker = Callable[[Mapping[str, Any]], Any]  # of an object, from its children


def tree_util() -> Any:
    """`jax.tree_util` where JAX is loaded, else None."""
    return sys.modules.get("jax.tree_util")


def opened(given: Any, written: bool = False) -> tuple[Form, dict[str, Any]] | None:
    """The form and the children by key of a structure; None for a leaf. Dicts are in sorted order, or as `written`."""
    if given is None:
        return Form("none"), {}
    kind: type[Any] = type(given)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return Form("named", kind.__name__), children(given) or {}
    if kind not in (dict, OrderedDict, list, tuple):
        if tree_util() is not None and (found := _registered(given)) is not None:
            return found
        if not isinstance(given, (Mapping, list, tuple)):
            return None
    held = children(given, written) or {}
    if isinstance(given, Mapping):
        return Form(
            "ordered" if kind is OrderedDict else "dict", keys=_keys(cast("Mapping[Any, Any]", given), held)
        ), held
    return Form("list" if isinstance(given, list) else "tuple"), held


def _keys(given: Mapping[Any, Any], held: Mapping[str, Any]) -> tuple[Any, ...]:
    """The keys of a dict in the order of its children; empty where all are texts."""
    if all(isinstance(key, str) for key in given):
        return ()
    by_text = {str(key): key for key in given}
    return tuple(by_text[text] for text in held)


def _registered(given: Any) -> tuple[Form, dict[str, Any]] | None:
    """As `opened`, of an object whose class is registered with JAX."""
    pairs, tree = tree_util().tree_flatten_with_path(given, is_leaf=lambda part: part is not given)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    static = _static_text(tree.node_data()[1])
    kind = "mapping" if isinstance(given, Mapping) else "object"
    return Form(kind, type(given).__name__, static), {key_text(path[0]): branch for path, branch in pairs}


def key_text(key: Any) -> str:
    """A key of JAX's paths: of a dict, a sequence, an attribute, or a number."""
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _static_text(static: Any) -> str:
    text = ("" if _is_plain(static) else LOOSE) + _ADDRESS.sub("", repr(static))
    return text if len(text) <= _SHOWN else text[:1] + hashlib.sha256(text.encode()).hexdigest()


def _is_plain(value: Any) -> bool:
    """Whether a value is fully described by its text."""
    if isinstance(value, dict):
        return all(map(_is_plain, cast("dict[Any, Any]", value).items()))
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, cast("list[Any]", value)))
    return type(value) in _PLAIN


def children_like(given: Any, form: Form, names: Sequence[str]) -> tuple[Form, dict[str, Any]] | None:
    """As `opened`; where an object of the form is expected, also one whose class is not registered, by its attributes.

    Which of its other attributes are static fields is not known, so they are not compared.
    """
    found = opened(given)
    if found is not None or form.kind != "object" or hasattr(given, "dtype"):
        return found
    held = {name: getattr(given, name) for name in names if hasattr(given, name)}
    return (replace(form, title=type(given).__name__), held) if held and len(held) == len(names) else None


# --- back into structures ----------------------------------------------------------------------------------------------


def makers_in(given: Any) -> dict[tuple[Form, tuple[str, ...]], Maker]:
    """How to make objects of the classes that are in a structure, by form and keys."""
    found = opened(given)
    if found is None:
        return _maker_of_dataclass(given)
    form, held = found
    made: dict[tuple[Form, tuple[str, ...]], Maker] = {}
    for branch in held.values():
        made |= makers_in(branch)
    if form.kind == "named":
        kind: type[Any] = type(given)
        made[form, tuple(held)] = lambda fields: kind(*fields.values())
    elif form.kind in ("mapping", "object"):
        tree = tree_util().tree_structure(given, is_leaf=lambda part: part is not given)
        made[form, tuple(held)] = lambda fields: tree.unflatten(fields.values())
    return made


def _maker_of_dataclass(given: Any) -> dict[tuple[Form, tuple[str, ...]], Maker]:
    """Of an instance whose class JAX does not know, as where JAX is missing: without its static fields."""
    if not is_dataclass(given) or isinstance(given, type):
        return {}
    instance: Any = given
    form, names = Form("object", type(instance).__name__), {each.name for each in fields(instance) if each.init}
    return {(form, ()): lambda held: replace(instance, **held) if held.keys() <= names else _record(form, held)}


def made_of(form: Form, held: Mapping[str, Any], makers: Mapping[tuple[Form, tuple[str, ...]], Maker]) -> Any:
    """The structure of a form with these children.

    Objects of classes that no maker knows become records with the name of the class and its fields as attributes; mappings
    become dicts.
    """
    plain = replace(form, origin="")
    maker = makers.get((plain, tuple(held))) or makers.get((replace(plain, static=""), ()))
    if maker:
        return maker(held)
    if form.origin and (made := torch_object(form.origin, held)) is not None:
        return made
    if form.kind in ("named", "object"):
        return _record(form, held)
    if form.kind in ("list", "tuple"):
        return [*held.values()] if form.kind == "list" else tuple(held.values())
    if form.kind == "none":
        return None
    if form.kind == "constant":
        return constant_of(form, held)
    pairs = zip(form.keys or held, held.values(), strict=True)
    return OrderedDict(pairs) if form.kind == "ordered" else dict(pairs)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "bool": {"True": True, "False": False}.__getitem__, "int": int, "float": float, "complex": complex, "str": json.loads,
}  # fmt: skip


def constant_form(value: Any) -> Form:
    """Return the form of a number, a text or None that is part of a program."""
    if value is None:
        return Form("none")
    return Form("constant", type(value).__name__, json.dumps(value) if isinstance(value, str) else repr(value))


def constant_of(form: Form, held: Mapping[str, Any]) -> Any:
    """Return the number or the text of a form. Raises ValueError for a form of another class or text."""
    try:
        if held:
            (number,) = held.values()
            return {"bool": bool, "int": int, "float": float}[form.title](number)
        return _READ[form.title](form.static)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{form.static!r:.60} is not a constant of the class {form.title!r:.60}") from error


def _record(form: Form, held: Mapping[str, Any]) -> Any:
    """A named tuple or an object with the fields as attributes; a dict where keys cannot be names of attributes."""
    if not all(is_field(name) for name in (form.title, *held)):
        return dict(held)
    if form.kind == "named":
        return _named_tuple(form.title, tuple(held))(*held.values())
    return _record_class(form.title, tuple(held))(**held)


class Record:
    """An object of a class that is not there: fields as attributes, by name and by position, as output classes of model libraries have them."""

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return tuple(each.name for each in fields(cast("Any", self)))

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
    """Whether a name can be that of a field of a record."""
    return name.isidentifier() and not iskeyword(name) and not name.startswith("_")
