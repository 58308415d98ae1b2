r"""Pytrees of torch: the structures of the arguments and results of an exported program.

Documents store them as JSON, `{"type": "builtins.dict", "context": "[\"a\"]", "children_spec": [...]}`. Torch writes
only classes that are registered with a serialized name. `tree_text` also writes named tuples and unnamed registered
classes, by module and class name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from meshgen.calls.argument_tree import Branch, Node
from meshgen.calls.structure_forms import Form, is_field
from meshgen.frontend.torch.document import Json

_NAMED = "collections.namedtuple"
_KINDS = {"list": "list", "tuple": "tuple", "dict": "dict", "OrderedDict": "ordered", "defaultdict": "dict", "Size": "tuple", "immutable_list": "list", "immutable_dict": "dict"}  # fmt: skip


@dataclass(frozen=True)
class Tree:
    """A pytree structure: a leaf, or a container with children.

    Attributes:
        kind: name of the container class, empty for a leaf.
        keys: names or indices of the children.
        context: JSON of the data that torch needs to rebuild the container.
    """

    kind: str
    keys: tuple[Any, ...]
    children: tuple[Tree, ...]
    context: str = "null"
    is_named_tuple: bool = False

    @property
    def leaves(self) -> int:
        """The number of leaves in the structure."""
        return sum(child.leaves for child in self.children) if self.kind else 1

    @property
    def texts(self) -> tuple[str, ...]:
        """The keys as strings."""
        return tuple(map(str, self.keys))

    def node(self, leaves: Sequence[Node | None]) -> Node:
        """Return the structure as a node of a call signature, with `leaves` in place of the leaves.

        None in `leaves` becomes the constant None.
        """
        if not self.kind:
            return Branch((), Form("none")) if leaves[0] is None else leaves[0]
        pairs: list[tuple[str, Node]] = []
        first_leaf = 0
        for key, child in zip(self.texts, self.children, strict=True):
            pairs.append((key, child.node(leaves[first_leaf : first_leaf + child.leaves])))
            first_leaf += child.leaves
        return Branch(pairs, _form(self))


def _form(tree: Tree) -> Form:
    """Return the Python form of the structure for callers: an object if the fields have names, else a dict or a tuple."""
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
    """Parse a structure from JSON, `[1, {...}]`. `fields` has the field names of each named tuple class."""
    return _tree(json.loads(text)[1], fields)


def _tree(spec: Json, fields: Json) -> Tree:
    children = tuple(_tree(child, fields) for child in spec["children_spec"])
    kind, context = spec["type"] or "", spec["context"] or "null"
    if not kind:
        return Tree("", (), ())
    keys: Any = json.loads(context)
    if is_named_tuple := kind == _NAMED and keys in fields:
        kind, keys = keys, [*fields[keys]["field_names"]]
    # Defaultdicts, and dicts whose keys are stored with their types, have the list of keys inside another list.
    while isinstance(keys, list) and keys and isinstance(keys[0], list):
        keys = cast("list[Any]", keys)[0]
    has_keys = isinstance(keys, list) and len(cast("list[Any]", keys)) == len(children)
    return Tree(kind, tuple(keys) if has_keys else tuple(range(len(children))), children, context, is_named_tuple)


def tree_text(spec: Any, fields: dict[str, Any]) -> str:
    """Return the JSON of a pytree spec of torch, and add the field names of its named tuples to `fields`."""
    return json.dumps([1, _tree_json(spec, fields)])


def _tree_json(spec: Any, fields: dict[str, Any]) -> dict[str, Any]:
    # Torch 2.9 has no method `children`.
    children = spec.children() if hasattr(spec, "children") else spec.children_specs
    children_json = [_tree_json(child, fields) for child in children]
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    tuple_class = spec.context if hasattr(spec.context, "_fields") else spec.type
    field_names = getattr(tuple_class, "_fields", ())
    if tuple_class.__module__ == "torch.return_types":
        field_names = field_names or getattr(tuple_class, "__match_args__", ())
    if field_names and len(field_names) == len(children_json):
        fields[_full_name(tuple_class)] = {"field_names": [*field_names]}
        return {"type": _NAMED, "context": json.dumps(_full_name(tuple_class)), "children_spec": children_json}
    return {"type": _full_name(spec.type), "context": _context(spec), "children_spec": children_json}


def _full_name(kind: Any) -> str:
    """Return the serialized name of a class in torch, or `module.qualname` if torch has none."""
    registration = getattr(import_module("torch.utils._pytree"), "SUPPORTED_SERIALIZED_TYPES", {}).get(kind)
    name = getattr(registration, "serialized_type_name", "")
    is_name = isinstance(name, str) and name and "NO_SERIALIZED" not in name
    return name if is_name else f"{kind.__module__}.{kind.__qualname__}"


def _context(spec: Any) -> str:
    """Return the JSON of the context of a pytree spec: for a defaultdict, the list of keys.

    A context that cannot be serialized gives `null`.
    """
    if spec.type.__name__ == "defaultdict":
        return json.dumps([*spec.context[1]])
    with suppress(TypeError, ValueError):
        return json.dumps(spec.context)
    return "null"
