"""Readers for parts of a program serialized by torch.export: node arguments and tensor types.

The document is JSON by the schema of torch/_export/serde/schema.py. A union is a dict with one entry, such as
`{"as_int": 3}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from meshgen.errors import Diagnostic, ProgramError
from meshgen.frontend.opening.formula_text import UnknownFormulaError, computed
from meshgen.ir.graph import TensorType
from meshgen.runtime.sessions.torch_archive import SCALAR_TYPES

Json = Mapping[str, Any]
# Kinds of arguments that do not affect results and are read as None.
IGNORED_ARGUMENT_KINDS = ("as_memory_format", "as_layout", "as_device", "as_none")


def only(union: Json) -> tuple[str, Any]:
    """Return the kind and the value of a union's only entry."""
    ((kind, value),) = union.items()
    return kind, value


def names_in(argument: Json) -> list[str]:
    """Return the names of the tensors and symbolic numbers in `argument`."""
    kind, value = only(argument)
    if kind in ("as_tensor", "as_custom_obj"):
        return [value["name"]]
    if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
        return [value["as_name"]] if "as_name" in value else []
    if kind == "as_tensors":
        return [item["name"] for item in value]
    if kind == "as_optional_tensor":
        return names_in(value)
    return []


def read_argument(argument: Json, lookup: Callable[[str], Any], subgraph: Callable[[Json], Any]) -> Any:
    """Convert an argument of a node to a Python value.

    Args:
        lookup: returns the tensor or number with a name.
        subgraph: converts a graph that is an argument.

    Returns:
        The value. Dtypes become meshgen's dtype names; devices, layouts and memory formats become None.
    """
    kind, value = only(argument)
    if kind in IGNORED_ARGUMENT_KINDS:
        return None
    if kind == "as_tensor":
        return lookup(value["name"])
    if kind == "as_tensors":
        return [lookup(item["name"]) for item in value]
    if kind in ("as_optional_tensors", "as_sym_ints", "as_sym_bools", "as_sym_floats"):
        return [_argument_element(item, lookup) for item in value]
    if kind in ("as_optional_tensor", "as_sym_int", "as_sym_bool", "as_sym_float"):
        return _argument_element(value, lookup)
    if kind == "as_scalar_type":
        return SCALAR_TYPES[value]
    if kind == "as_graph":
        return subgraph(value)
    if kind == "as_complex":
        return complex(float(value["real"]), float(value["imag"]))
    if kind in ("as_float", "as_floats"):  # Torch writes infinities and NaN as strings.
        return float(value) if kind == "as_float" else [float(item) for item in value]
    return value


def _argument_element(union: Json, lookup: Callable[[str], Any]) -> Any:
    kind, value = only(union)
    if kind in ("as_tensor", "as_name"):
        return lookup(value["name"] if kind == "as_tensor" else value)
    return None if kind == "as_none" else float(value) if kind == "as_float" else value


def size_of(size: Json, symbols: Mapping[str, int]) -> int | None:
    """Return the value of a tensor size for these values of symbols, or None if it contains another symbol."""
    kind, value = only(size)
    try:
        return value if kind == "as_int" else computed(value["expr_str"], symbols.__getitem__)
    except UnknownFormulaError:
        return None


def type_of(meta: Json, symbols: Mapping[str, int]) -> TensorType:
    """Return the type of a tensor from its metadata. Raises ProgramError MG0103 for an unsupported dtype."""
    dtype = SCALAR_TYPES.get(meta["dtype"])
    if dtype is None:
        raise ProgramError(Diagnostic("MG0103", f"element type number {meta['dtype']} of torch is not supported"))
    return TensorType(tuple(size_of(size, symbols) for size in meta["sizes"]), dtype)


def split_out_argument(node: Json) -> Iterator[Json]:
    """Yield an operation with an `out=` tensor as two nodes: the operation, and a copy of the result into that tensor.

    Other nodes are yielded unchanged.
    """
    outs = [argument for argument in node["inputs"] if argument.get("kind") == 2 and argument["name"] == "out"]
    if len(outs) != 1 or len(node["outputs"]) != 1 or not names_in(outs[0]["arg"]):
        yield node
        return
    temporary = {"as_tensor": {"name": f"{names_in(node['outputs'][0])[0]} before it is copied"}}
    other_inputs = [argument for argument in node["inputs"] if argument is not outs[0]]
    yield {**node, "inputs": other_inputs, "outputs": [temporary]}
    copy_inputs = [{"name": "self", "arg": outs[0]["arg"], "kind": 1}, {"name": "src", "arg": temporary, "kind": 1}]
    yield {**node, "target": "torch.ops.aten.copy_.default", "inputs": copy_inputs}
