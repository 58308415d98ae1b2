"""The parts of a serialised program of torch.export: arguments of nodes, types of tensors, trees of what callers pass and get.

The document is JSON by the schema of torch/_export/serde/schema.py; a union is a dict with one entry: `{"as_int": 3}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from meshgen.calls.classes import Form, is_field
from meshgen.calls.nodes import Branch, Node, Slot
from meshgen.errors import Diagnostic, ProgramError
from meshgen.frontend.opening.formulas import UnknownFormulaError, computed
from meshgen.ir.graph import TensorType
from meshgen.records import dataclass
from meshgen.runtime.sessions.torch_archive import SCALAR_TYPES

Json = Mapping[str, Any]
NOWHERE = ("as_memory_format", "as_layout", "as_device", "as_none")  # arguments without a meaning here


def only(union: Json) -> tuple[str, Any]:
    """The entry of a union."""
    ((kind, value),) = union.items()
    return kind, value


def names_in(argument: Json) -> list[str]:
    """The names of the tensors and numbers that an argument is, or that are in its list."""
    kind, value = only(argument)
    if kind in ("as_tensor", "as_custom_obj"):
        return [value["name"]]
    if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        return [value["as_name"]] if "as_name" in value else []
    if kind == "as_tensors":
        return [each["name"] for each in value]
    if kind == "as_optional_tensor":
        return names_in(value)
    return []


def argument_of(argument: Json, held: Callable[[str], Any], subgraph: Callable[[Json], Any]) -> Any:
    """An argument: tensors and numbers as `held` by name, element types by their names here, devices and layouts as None."""
    kind, value = only(argument)
    if kind in NOWHERE:
        return None
    if kind == "as_tensor":
        return held(value["name"])
    if kind == "as_tensors":
        return [held(each["name"]) for each in value]
    if kind in ("as_optional_tensors", "as_sym_ints", "as_sym_bools", "as_sym_floats"):
        return [_one(each, held) for each in value]
    if kind in ("as_optional_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
        return _one(value, held)
    if kind == "as_scalar_type":
        return SCALAR_TYPES[value]
    if kind == "as_graph":
        return subgraph(value)
    if kind == "as_complex":
        return complex(float(value["real"]), float(value["imag"]))
    if kind in ("as_float", "as_floats"):  # infinities and NaN are texts
        return float(value) if kind == "as_float" else [float(each) for each in value]
    return value


def _one(union: Json, held: Callable[[str], Any]) -> Any:
    kind, value = only(union)
    if kind in ("as_tensor", "as_name"):
        return held(value["name"] if kind == "as_tensor" else value)
    return None if kind == "as_none" else float(value) if kind == "as_float" else value


def size_of(size: Json, symbols: Mapping[str, int]) -> int | None:
    """A size of a tensor; None where it is of symbols that are not known."""
    kind, value = only(size)
    try:
        return value if kind == "as_int" else computed(value["expr_str"], symbols.__getitem__)
    except UnknownFormulaError:
        return None


def type_of(meta: Json, symbols: Mapping[str, int]) -> TensorType:
    """The type of a tensor. Raises ProgramError MG0103 for an element type that is not supported."""
    dtype = SCALAR_TYPES.get(meta["dtype"])
    if dtype is None:
        raise ProgramError(Diagnostic("MG0103", f"element type number {meta['dtype']} of torch is not supported"))
    return TensorType(tuple(size_of(each, symbols) for each in meta["sizes"]), dtype)


@dataclass(frozen=True)
class Tree:
    """A structure of torch's pytrees: of a leaf `kind` is empty."""

    kind: str
    keys: tuple[str, ...]
    children: tuple[Tree, ...]

    @property
    def leaves(self) -> int:
        """How many leaves it has."""
        return sum(each.leaves for each in self.children) if self.kind else 1

    def node(self, slots: Sequence[Slot | None]) -> Node:
        """The structure with these slots as its leaves; those that are None are without an array."""
        if not self.kind:
            return slots[0] or Branch((), Form("none"))
        pairs: list[tuple[str, Node]] = []
        at = 0
        for key, child in zip(self.keys, self.children, strict=True):
            pairs.append((key, child.node(slots[at : at + child.leaves])))
            at += child.leaves
        return Branch(pairs, _form(self))


def tree_of(text: str, fields: Json) -> Tree:
    """The tree of a treespec's text, `[1, {"type": "builtins.tuple", "context": "null", "children_spec": [...]}]`.

    `fields` has the names of the fields of named tuples by type.
    """
    return _tree(json.loads(text)[1], fields)


def _tree(spec: Json, fields: Json) -> Tree:
    children = tuple(_tree(each, fields) for each in spec["children_spec"])
    kind = spec["type"] or ""
    if not kind:
        return Tree("", (), ())
    keys: Any = fields[kind]["field_names"] if kind in fields else json.loads(spec["context"] or "null")
    while (
        isinstance(keys, list) and keys and isinstance(keys[0], list)
    ):  # of a defaultdict, or of keys with their types
        keys = keys[0]
    is_named = isinstance(keys, list) and len(keys) == len(children)
    return Tree(kind, tuple(map(str, keys)) if is_named else tuple(map(str, range(len(children)))), children)


def _form(tree: Tree) -> Form:
    """What a structure is: dicts for classes whose fields have names, tuples for others."""
    name = tree.kind.rpartition(".")[2]
    kinds = {"list": "list", "tuple": "tuple", "dict": "dict", "OrderedDict": "ordered", "defaultdict": "dict"}
    if name in kinds:
        return Form(kinds[name])
    is_named = bool(tree.keys) and all(map(is_field, tree.keys))
    return Form("object", name) if is_named and is_field(name) else Form("dict" if tree.keys != tuple(map(str, range(len(tree.children)))) else "tuple")  # fmt: skip
