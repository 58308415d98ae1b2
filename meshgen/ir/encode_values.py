"""Lossless encoding of types, shardings, meshes, arrays and attributes as JSON values.

The module file that contains them is untrusted: a malformed document raises ModuleError MG0502 with the path in the
document. Decoding executes nothing, and compares each size with the bytes present before it allocates.
"""

from __future__ import annotations

import base64
import binascii
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from meshgen.errors import Diagnostic, MeshgenError, ModuleError
from meshgen.ir.axis_parts import is_ref
from meshgen.ir.graph import DTYPES, TensorType, dtype_name
from meshgen.ir.limits import MAX_BYTES, MAX_LOCAL_RANK, size_fault
from meshgen.ir.splats import stored_bytes
from meshgen.machine.profiles import Machine
from meshgen.machine.reading import machine_from_record, machine_record, profile_fault
from meshgen.mesh import Axis, Mesh
from meshgen.spec import Sharding

Json = Any  # a JSON value: null, boolean, number, string, list or object
T = TypeVar("T")
# Maximum number of elements in a dim, or in an entry of its sharding. Chosen: the byte limit of a tensor, which bounds
# the work for a forged file.
MAX_SIZE = MAX_BYTES
# Maximum nesting depth of attributes. Chosen: far above any real attribute; it bounds the recursion for a forged file.
MAX_DEPTH = 64
_SPECIAL = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def damaged(path: str, message: str) -> ModuleError:
    """Return the error that reports a malformed document."""
    return ModuleError(Diagnostic("MG0502", f"{path}: {message}", hint="write the module again with 'meshgen compile'"))


# ---- Checked access to JSON values


def as_int(value: Json, path: str, low: int = -(1 << 63), high: int = 1 << 63) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise damaged(path, f"expected an integer from {low} to {high}, found {_abridged(value)}")
    return value


def as_str(value: Json, path: str) -> str:
    if not isinstance(value, str):
        raise damaged(path, f"expected a string, found {_abridged(value)}")
    return value


def as_list(value: Json, path: str, length: int | None = None) -> list[Json]:
    if not isinstance(value, list):
        raise damaged(path, f"expected a list, found {_abridged(value)}")
    entries = cast("list[Json]", value)
    if length is not None and len(entries) != length:
        raise damaged(path, f"expected {length} entries, found {len(entries)}")
    return entries


def as_dict(value: Json, path: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise damaged(path, f"expected an object, found {_abridged(value)}")
    return cast("dict[str, Json]", value)


def member(value: Json, key: str, path: str) -> Json:
    """Return a required entry of an object."""
    table = as_dict(value, path)
    if key not in table:
        raise damaged(path, f"has no '{key}'")
    return table[key]


def _abridged(value: Json) -> str:
    return reprlib.repr(value)


def as_tuple(value: Json, path: str, item: Callable[[Json, str], T]) -> tuple[T, ...]:
    return tuple(item(entry, f"{path}[{i}]") for i, entry in enumerate(as_list(value, path)))


def _checked(path: str, make: Callable[[], T]) -> T:
    """Return `make()`. A MeshgenError that `make` raises is reported as a malformed document."""
    try:
        return make()
    except ModuleError:
        raise
    except MeshgenError as error:
        raise damaged(path, "; ".join(d.message for d in error.diagnostics)) from error


# ---- Types, meshes, shardings


def type_to_json(type_: TensorType) -> Json:
    """Encode a tensor type as `["f32", [8, null]]`: element type and shape. A null size is unknown until the module is
    loaded.
    """
    return [type_.dtype, list(type_.shape)]


def type_from_json(value: Json, path: str = "type") -> TensorType:
    dtype, shape = as_list(value, path, 2)
    sizes = as_tuple(shape, f"{path}[1]", lambda n, p: None if n is None else as_int(n, p, 0, MAX_SIZE))
    tensor_type = TensorType(sizes, _dtype_from_json(dtype, f"{path}[0]"))
    if fault := size_fault(tensor_type, MAX_LOCAL_RANK):
        raise damaged(path, fault)
    return tensor_type


def _dtype_from_json(value: Json, path: str) -> str:
    name = as_str(value, path)
    if name not in DTYPES:
        raise damaged(path, f"unknown element type '{_abridged(name)}'")
    return name


def mesh_to_json(mesh: Mesh) -> Json:
    axes = [{"name": a.name, "size": a.size, "bandwidth": a.bandwidth, "latency": a.latency} for a in mesh.axes]
    return {"name": mesh.name, "axes": axes} | ({"machine": machine_record(mesh.machine)} if mesh.machine else {})


def mesh_from_json(value: Json, path: str = "mesh") -> Mesh:
    def axis(entry: Json, at: str) -> Axis:
        size = member(entry, "size", at)
        return Axis(
            as_str(member(entry, "name", at), f"{at}.name"),
            None if size is None else as_int(size, f"{at}.size", 1, 1 << 32),
            *(_read_rate(member(entry, name, at), f"{at}.{name}") for name in ("bandwidth", "latency")),
        )

    axes = as_tuple(member(value, "axes", path), f"{path}.axes", axis)
    name = as_str(member(value, "name", path), f"{path}.name")
    return _checked(path, lambda: Mesh(axes, name, _read_machine(value, path)))


def _read_machine(value: Json, path: str) -> Machine | None:
    record: Json = value.get("machine")
    if record is None:
        return None
    if fault := profile_fault(record):
        raise damaged(f"{path}.machine", fault)
    return machine_from_record(record)


def _read_rate(value: Json, path: str) -> float | None:
    return None if value is None else _read_number(value, path)


def _read_number(value: Json, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise damaged(path, f"expected a non-negative number, found {_abridged(value)}")
    return value


def sharding_to_json(sharding: Sharding) -> Json:
    """Encode a sharding as an object with the lists `dims`, `partial`, `halo` and `offsets`. Empty lists are omitted.

    For example `{"dims": [["x"], []], "partial": [["y", "sum"]]}`.
    """
    encoded: dict[str, Json] = {"dims": [list(axes) for axes in sharding.dims]}
    for key in ("partial", "halo", "offsets"):
        if entries := getattr(sharding, key):
            encoded[key] = [list(entry) for entry in entries]
    return encoded


def sharding_from_json(value: Json, path: str = "sharding") -> Sharding:
    table = as_dict(value, path)
    partial = as_tuple(table.get("partial", []), f"{path}.partial", _partial)
    halo = as_tuple(table.get("halo", []), f"{path}.halo", lambda v, p: _pair(v, p, _natural))
    offsets = as_tuple(table.get("offsets", []), f"{path}.offsets", lambda v, p: as_tuple(v, p, _natural))
    dims = as_tuple(member(value, "dims", path), f"{path}.dims", lambda v, p: as_tuple(v, p, as_axis))
    for name, entries in (("halo", halo), ("offsets", offsets)):
        if entries and len(entries) != len(dims):
            raise damaged(f"{path}.{name}", f"expected {len(dims)} entries, found {len(entries)}")
    return Sharding(dims, partial, halo, offsets)


def as_axis(value: Json, path: str) -> str:
    """Return a string that refers to a mesh axis or sub-axis."""
    name = as_str(value, path)
    if not is_ref(name):
        raise damaged(path, f"{_abridged(name)} is not a mesh axis or part of one")
    return name


def _partial(value: Json, path: str) -> tuple[str, str]:
    axis, kind = as_list(value, path, 2)
    return as_axis(axis, f"{path}[0]"), as_str(kind, f"{path}[1]")


def _natural(value: Json, path: str) -> int:
    return as_int(value, path, 0, MAX_SIZE)


def _pair(value: Json, path: str, item: Callable[[Json, str], T]) -> tuple[T, T]:
    first, second = as_list(value, path, 2)
    return item(first, f"{path}[0]"), item(second, f"{path}[1]")


# ---- Arrays and attributes


def array_to_json(array: np.ndarray[Any, Any]) -> Json:
    """Encode an array as its dtype, its shape, and little-endian bytes in base64.

    The bytes are those of one element (key `splat`) if all elements are equal, else those of all elements (key
    `base64`).
    """
    raw = stored_bytes(array)
    first = raw[: array.itemsize]
    splat = array.size > 0 and (len(raw) < array.nbytes or raw == first * array.size)
    text = base64.b64encode(first if splat else raw).decode("ascii")
    return {"dtype": dtype_name(array.dtype), "shape": list(array.shape), "splat" if splat else "base64": text}


def array_from_json(value: Json, path: str = "array") -> np.ndarray[Any, Any]:
    """Decode a read-only array. A splat becomes a broadcast view."""
    type_ = type_from_json([member(value, "dtype", path), member(value, "shape", path)], path)
    key = "splat" if "splat" in as_dict(value, path) else "base64"
    text = as_str(member(value, key, path), f"{path}.{key}")
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise damaged(f"{path}.{key}", f"is not base64 ({error})") from error
    try:
        expected = type_.numpy_dtype.itemsize * (1 if key == "splat" else type_.size)
    except ValueError as error:
        raise damaged(path, str(error)) from error
    if len(raw) != expected:
        raise damaged(f"{path}.{key}", f"{type_} needs {expected} bytes, found {len(raw)}")
    if type_.dtype == "i1" and raw.strip(b"\0\1"):
        raise damaged(f"{path}.{key}", "a byte of i1 is neither 0 nor 1")
    flat = np.frombuffer(raw, type_.numpy_dtype)
    return np.broadcast_to(flat.reshape(()), type_.sizes) if key == "splat" else flat.reshape(type_.sizes)


def value_to_json(value: Any) -> Json:
    """Encode an attribute value: scalars as themselves, everything else as an object with one tag.

    NumPy integers inside a tuple are dims or sizes and become plain integers. A NumPy scalar by itself is a constant
    and keeps its type.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple | list):
        tag = "tuple" if isinstance(value, tuple) else "list"
        entries = [int(v) if isinstance(v, np.integer) else v for v in cast("Sequence[Any]", value)]
        return {tag: [value_to_json(entry) for entry in entries]}
    if isinstance(value, dict):
        return {"map": [[value_to_json(k), value_to_json(v)] for k, v in cast("dict[Any, Any]", value).items()]}
    if isinstance(value, np.generic):
        return {"scalar": array_to_json(np.asarray(value))}
    for value_type, tag, write, _ in _TAGS:
        if isinstance(value, value_type):
            return {tag: write(value)}
    raise AssertionError(f"an attribute of type {type(value).__name__} has no JSON form")


def value_from_json(value: Json, path: str = "attribute", depth: int = 0) -> Any:
    if depth > MAX_DEPTH:
        raise damaged(path, f"is nested more than {MAX_DEPTH} deep")
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return as_int(value, path, -(1 << 63), (1 << 64) - 1)
    table = as_dict(value, path)
    if len(table) != 1:
        raise damaged(path, f"expected one tag, found {_abridged(list(table))}")
    ((tag, body),) = table.items()

    def inner(entry: Json, at: str) -> Any:
        return value_from_json(entry, at, depth + 1)

    if tag in ("tuple", "list"):
        entries = as_tuple(body, path, inner)
        return entries if tag == "tuple" else list(entries)
    if tag == "map":
        return _map(body, path, inner)
    if tag == "float" and body in _SPECIAL:
        return _SPECIAL[body]
    if tag == "scalar":
        return _scalar_from_json(body, path)
    for _, name, _, read in _TAGS:
        if tag == name:
            return read(body, path)
    raise damaged(path, f"unknown attribute kind '{_abridged(tag)}'")


def _map(body: Json, path: str, inner: Callable[[Json, str], Any]) -> dict[Any, Any]:
    pairs = as_tuple(body, path, lambda v, p: _pair(v, p, inner))
    for key, _ in pairs:
        if not isinstance(key, str | int):
            raise damaged(path, f"{_abridged(key)} cannot be a key")
    return dict(pairs)


def _scalar_from_json(body: Json, path: str) -> Any:
    array = array_from_json(body, path)
    if array.ndim:
        raise damaged(path, f"a scalar cannot have shape {list(array.shape)}")
    return array[()]


_TAGS: tuple[tuple[type, str, Callable[[Any], Json], Callable[[Json, str], Any]], ...] = (
    (np.ndarray, "array", array_to_json, array_from_json),
    (Sharding, "sharding", sharding_to_json, sharding_from_json),
    (TensorType, "type", type_to_json, type_from_json),
    (Mesh, "mesh", mesh_to_json, mesh_from_json),
)


def attrs_to_json(attrs: Mapping[str, Any]) -> Json:
    return {name: value_to_json(value) for name, value in attrs.items()}


def attrs_from_json(value: Json, path: str = "attrs") -> dict[str, Any]:
    return {name: value_from_json(entry, f"{path}.{name}") for name, entry in as_dict(value, path).items()}
