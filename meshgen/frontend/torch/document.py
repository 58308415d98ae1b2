"""The parts of a serialised program of torch.export: arguments of nodes, and types of tensors.

The document is JSON by the schema of torch/_export/serde/schema.py; a union is a dict with one entry: `{"as_int": 3}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from meshgen.errors import Diagnostic, ProgramError
from meshgen.frontend.opening.formulas import UnknownFormulaError, computed
from meshgen.ir.graph import TensorType
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


def without_out(node: Json) -> Iterator[Json]:
    """Yield a node; one that writes to the tensor `out=` as the operation, and a copy into that tensor."""
    outs = [each for each in node["inputs"] if each.get("kind") == 2 and each["name"] == "out"]
    if len(outs) != 1 or len(node["outputs"]) != 1 or not names_in(outs[0]["arg"]):
        yield node
        return
    computed = {"as_tensor": {"name": f"{names_in(node['outputs'][0])[0]} before it is copied"}}
    rest = [each for each in node["inputs"] if each is not outs[0]]
    yield {**node, "inputs": rest, "outputs": [computed]}
    copied = [{"name": "self", "arg": outs[0]["arg"], "kind": 1}, {"name": "src", "arg": computed, "kind": 1}]
    yield {**node, "target": "torch.ops.aten.copy_.default", "inputs": copied}
