"""Attributes of the module operation: its stage, whether arguments are whole, and what passes note about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from meshgen.errors import Diagnostic
from meshgen.ir.graph import STAGES, Module
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.literals import quoted
from meshgen.mlir.reading import Reading


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


def _read_attrs(reading: Reading, attribute: Attribute) -> None:
    try:
        found = json.loads(attribute.data) if isinstance(attribute, builtin.StringAttr) else None
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        reading.faults.append(Diagnostic("MG0104", "meshgen.attrs is not a JSON object"))
        return
    reading.module.attrs |= found


def _write_stage(module: Module) -> Mapping[str, str]:
    found: dict[str, str] = {"meshgen.stage": quoted(module.stage)}
    if module.arguments != "local":
        found["meshgen.arguments"] = quoted(module.arguments)
    if plain := {name: value for name, value in module.attrs.items() if _is_plain(value)}:
        found["meshgen.attrs"] = quoted(json.dumps(plain, sort_keys=True))
    return found


def _is_plain(value: object) -> bool:
    """Whether JSON keeps the value as it is; other attributes have writers of their own."""
    if isinstance(value, list):
        return all(_is_plain(item) for item in cast("list[object]", value))
    return value is None or isinstance(value, str | int | float | bool)


PART = Dialect(
    module_attrs={"meshgen.stage": _read_stage, "meshgen.arguments": _read_arguments, "meshgen.attrs": _read_attrs},
    module_attr_writers=(_write_stage,),
)
