"""Structures of torch's pytrees: what callers of an exported program pass and get.

A document has them as JSON, `{"type": "builtins.dict", "context": "[\"a\"]", "children_spec": [...]}`. Torch writes only classes that have a name for this;
`tree_text` writes all of a program in memory: named tuples and the classes that a user has registered without one by module and name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from meshgen.calls.classes import Form, is_field
from meshgen.calls.nodes import Branch, Node
from meshgen.frontend.torch.document import Json

_NAMED = "collections.namedtuple"
_KINDS = {"list": "list", "tuple": "tuple", "dict": "dict", "OrderedDict": "ordered", "defaultdict": "dict", "Size": "tuple", "immutable_list": "list", "immutable_dict": "dict"}  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """A structure: `kind` is the name of its class, empty for a leaf; `context` is what torch keeps to make it again, as JSON."""

    kind: str
    keys: tuple[Any, ...]
    children: tuple[Tree, ...]
    context: str = "null"
    is_named_tuple: bool = False

    @property
    def leaves(self) -> int:
        """How many leaves it has."""
        return sum(each.leaves for each in self.children) if self.kind else 1

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys as texts."""
        return tuple(map(str, self.keys))

    def node(self, leaves: Sequence[Node | None]) -> Node:
        """Return the structure with these leaves; those that are None have no array."""
        if not self.kind:
            return Branch((), Form("none")) if leaves[0] is None else leaves[0]
        pairs: list[tuple[str, Node]] = []
        at = 0
        for key, child in zip(self.texts, self.children, strict=True):
            pairs.append((key, child.node(leaves[at : at + child.leaves])))
            at += child.leaves
        return Branch(pairs, _form(self))


def _form(tree: Tree) -> Form:
    """Return what a structure is: an object of its class where the fields have names, else a dict or a tuple."""
    title = tree.kind.rpartition(".")[2]
    is_dict = tree.texts != tuple(map(str, range(len(tree.children))))
    if title in _KINDS:
        has_names = not is_dict or all(isinstance(key, str) for key in tree.keys)
        return Form(_KINDS[title], keys=() if has_names else tree.keys)
    origin = json.dumps([tree.kind, tree.context])
    if tree.is_named_tuple and is_field(title):
        return Form("named", title, origin=origin)
    if tree.keys and is_dict and all(map(is_field, (title, *tree.texts))):
        return Form("object", title, origin=origin)
    return Form("dict" if is_dict else "tuple", origin=origin)


def tree_of(text: str, fields: Json) -> Tree:
    """Return the tree of a text of JSON, `[1, {...}]`; `fields` has the names of the fields of named tuples by class."""
    return _tree(json.loads(text)[1], fields)


def _tree(spec: Json, fields: Json) -> Tree:
    children = tuple(_tree(each, fields) for each in spec["children_spec"])
    kind, context = spec["type"] or "", spec["context"] or "null"
    if not kind:
        return Tree("", (), ())
    keys: Any = json.loads(context)
    if is_named_tuple := kind == _NAMED and keys in fields:
        kind, keys = keys, [*fields[keys]["field_names"]]
    # A defaultdict, and keys with their types, have a list of the keys.
    while isinstance(keys, list) and keys and isinstance(keys[0], list):
        keys = cast("list[Any]", keys)[0]
    has_keys = isinstance(keys, list) and len(cast("list[Any]", keys)) == len(children)
    return Tree(kind, tuple(keys) if has_keys else tuple(range(len(children))), children, context, is_named_tuple)


def tree_text(spec: Any, fields: dict[str, Any]) -> str:
    """Return the JSON of a structure in memory, and add its named tuples to `fields`."""
    return json.dumps([1, _written(spec, fields)])


def _written(spec: Any, fields: dict[str, Any]) -> dict[str, Any]:
    children = spec.children() if hasattr(spec, "children") else spec.children_specs  # 2.9 has no method
    rows = [_written(each, fields) for each in children]
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    named = spec.context if hasattr(spec.context, "_fields") else spec.type
    names = getattr(named, "_fields", ())
    if named.__module__ == "torch.return_types":
        names = names or getattr(named, "__match_args__", ())
    if names and len(names) == len(rows):
        fields[_full_name(named)] = {"field_names": [*names]}
        return {"type": _NAMED, "context": json.dumps(_full_name(named)), "children_spec": rows}
    return {"type": _full_name(spec.type), "context": _context(spec), "children_spec": rows}


def _full_name(kind: Any) -> str:
    """Return the name of a class in torch's table of serialised ones, else its module and name."""
    known = getattr(import_module("torch.utils._pytree"), "SUPPORTED_SERIALIZED_TYPES", {}).get(kind)
    name = getattr(known, "serialized_type_name", "")
    is_name = isinstance(name, str) and name and "NO_SERIALIZED" not in name
    return name if is_name else f"{kind.__module__}.{kind.__qualname__}"


def _context(spec: Any) -> str:
    """Return what torch keeps of a structure as JSON; the keys alone where it has no text."""
    if spec.type.__name__ == "defaultdict":
        return json.dumps([*spec.context[1]])
    with suppress(TypeError, ValueError):
        return json.dumps(spec.context)
    return "null"
