"""Attributes of the module operation: its stage, whether its arguments are global arrays, and `Module` fields set by
passes (`meshgen.chunks`, ...).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar, cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from meshgen.errors import Diagnostic
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.graph import STAGES, Module
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import quoted
from meshgen.mlir.reader_state import Reading

T = TypeVar("T")


def _read_stage(reading: Reading, attribute: Attribute) -> None:
    stage = attribute.data if isinstance(attribute, builtin.StringAttr) else str(attribute)
    if stage not in STAGES:
        hint = f"the stages are {', '.join(STAGES)}"
        reading.faults.append(Diagnostic("MG0104", f"unknown stage '{stage}'", hint=hint))
        return
    reading.module.stage = stage


def _read_arguments(reading: Reading, attribute: Attribute) -> None:
    if isinstance(attribute, builtin.StringAttr):
        reading.module.arguments = attribute.data


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _count(value: Any) -> int:
    if not _is_count(value):
        raise ValueError("a number")
    return value


def _size(value: Any) -> int:
    if not _count(value):
        raise ValueError("a number from 1 on")
    return value


def _counts(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(map(_is_count, value := cast("list[Any]", value))):
        raise ValueError("a list of numbers")
    return tuple(value)


def _by_name(read: Callable[[Any], T]) -> Callable[[Any], dict[str, T]]:
    def read_all(value: Any) -> dict[str, T]:
        if not isinstance(value, dict):
            raise ValueError("an object")
        return {name: read(item) for name, item in cast("dict[str, Any]", value).items()}

    return read_all


def _decisions(value: Any) -> tuple[ChunkDecision, ...]:
    rows: list[Any] = value if isinstance(value, list) else [None]
    if not all(map(_is_decision, rows)):
        raise ValueError(f"a list of objects with {', '.join(_OF_DECISIONS)}")
    return tuple(ChunkDecision(**row) for row in rows)


_OF_DECISIONS: Mapping[str, Any] = {"what": str, "exposed_seconds": int | float, "is_applied": bool, "text": str}


def _is_decision(row: Any) -> bool:
    is_named = isinstance(row, dict) and cast("dict[str, Any]", row).keys() == _OF_DECISIONS.keys()
    is_typed = is_named and all(isinstance(row[name], kind) for name, kind in _OF_DECISIONS.items())
    # Python's JSON parser accepts NaN and Infinity.
    return is_typed and 0 <= row["exposed_seconds"] <= sys.float_info.max


# Fields of `Module` that are printed as attributes, with their JSON decoders. A decoder raises ValueError with the
# expected form of the value.
_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "in_numbers": _counts,
    "out_numbers": _counts,
    "reordered": _by_name(_counts),
    "nominal_sizes": _by_name(_size),
    "chunks": _decisions,
    "memory_cap": _count,
}


def _read_field(name: str, reading: Reading, attribute: Attribute) -> None:
    try:
        value = json.loads(attribute.data) if isinstance(attribute, builtin.StringAttr) else None
    except (ValueError, RecursionError):  # Python also raises ValueError for integers of thousands of digits.
        reading.faults.append(Diagnostic("MG0104", f"meshgen.{name} is not JSON"))
        return
    try:
        setattr(reading.module, name, _FIELDS[name](value))
    except ValueError as error:
        reading.faults.append(Diagnostic("MG0104", f"meshgen.{name} is not {error}"))


def field_faults(module: Module) -> Iterator[Diagnostic]:
    """Yield a fault for each field in `_FIELDS` whose value contradicts the program: MG0104, or MG0202 for unknown
    axes.
    """
    for name, values in (("in_numbers", module.graph.inputs), ("out_numbers", module.graph.outputs)):
        numbers: tuple[int, ...] | None = getattr(module, name)
        if numbers is not None and (len(numbers) != len(values) or len({*numbers}) != len(numbers)):
            message = f"meshgen.{name} is {list(numbers)}; it must have {len(values)} different numbers"
            yield Diagnostic("MG0104", message)
    for axis in module.nominal_sizes:
        if axis not in module.mesh.names:
            yield module.mesh.unknown_axis(axis)


def _write_stage(module: Module) -> Mapping[str, str]:
    attributes: dict[str, str] = {"meshgen.stage": quoted(module.stage)}
    if module.arguments != "local":
        attributes["meshgen.arguments"] = quoted(module.arguments)
    for name in _FIELDS:
        value = getattr(module, name)
        if value not in (None, (), {}) or (value == () and name in ("in_numbers", "out_numbers")):
            attributes[f"meshgen.{name}"] = quoted(json.dumps(value, sort_keys=True, default=asdict))
    return attributes


PART = Dialect(
    module_attrs={
        "meshgen.stage": _read_stage,
        "meshgen.arguments": _read_arguments,
        **{f"meshgen.{name}": partial(_read_field, name) for name in _FIELDS},
    },
    module_attr_writers=(_write_stage,),
)
