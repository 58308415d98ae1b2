"""The schema of an operator at the opset of a model: defaults of its attributes, and the element types that its operands may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from meshgen.frontend.onnx.files import array_of_proto, onnx_package
from meshgen.frontend.onnx.ops.table import Elements, kind_of
from meshgen.ir.graph import dtype_name

_TENSOR, _MESSAGES = 4, (5, 10, 11, 13, 14)  # kinds of attributes: tensors; graphs, sparse tensors and types


@dataclass(frozen=True)
class Parameter:
    """A formal parameter: the element types that it allows, and the type variable that it shares with others; empty if none."""

    variable: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class Schema:
    """A version of an operator.

    Attributes:
        since: the opset that introduced this version.
        defaults: the attributes that have a default.
        parameters: one for each operand.
        is_variadic: whether the last parameter stands for all further operands.
    """

    since: int
    defaults: Mapping[str, Any]
    parameters: Sequence[Parameter]
    is_variadic: bool

    def type_faults(self, operands: Sequence[Any]) -> Iterator[str]:
        """Operands whose element types the operator does not take, or which differ though they must be equal."""
        bound: dict[str, tuple[int, str]] = {}
        last = len(self.parameters) - 1
        for number, operand in enumerate(operands):
            if operand is None or isinstance(operand, Elements) or (number > last and not self.is_variadic):
                continue
            parameter, kind = self.parameters[min(number, last)], kind_of(operand)
            first, other = bound.setdefault(parameter.variable or str(number), (number, kind))
            if parameter.kinds and kind not in parameter.kinds:
                yield f"operand {number + 1} is of type {kind}, but may be of {', '.join(sorted(parameter.kinds))} only"
            elif kind != other:
                yield f"operands {first + 1} and {number + 1} must have one element type, but have {other} and {kind}"


@lru_cache(maxsize=4096)
def schema_of(domain: str, name: str, version: int) -> Schema | None:
    """The version of an operator that an opset has; None for an operator that the standard does not have."""
    onnx = onnx_package()
    try:
        held = onnx.defs.get_schema(name, version, domain)
    except Exception:  # SchemaError, which is not exported under one name by all versions
        return None
    pairs = ((key, each.default_value) for key, each in held.attributes.items())
    defaults = {key: attribute_value(value, "") for key, value in pairs if value.type}
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    parameters = [_parameter(each, each.option == variadic) for each in held.inputs]
    return Schema(held.since_version, defaults, parameters, any(each.option == variadic for each in held.inputs[-1:]))


@cache
def newest_operands(name: str) -> Sequence[str]:
    """The names of the operands of a standard operator in its newest version."""
    onnx = onnx_package()
    return tuple(each.name for each in onnx.defs.get_schema(name, onnx.defs.onnx_opset_version(), "").inputs) if onnx.defs.has(name) else ()  # fmt: skip


def _parameter(held: Any, is_variadic: bool) -> Parameter:
    is_shared = "(" not in held.type_str and (held.is_homogeneous or not is_variadic)
    has_others = any(not each.startswith("tensor(") for each in held.types)  # sequences and optional values
    kinds = (kind for each in held.types if (kind := _kinds().get(each)))
    return Parameter(held.type_str if is_shared else "", frozenset() if has_others else frozenset(kinds))


@cache
def _kinds() -> dict[str, str]:
    """The element types of the IR by the types of tensors as schemas write them: `tensor(float)`."""
    onnx = onnx_package()
    found: dict[str, str] = {}
    for name, number in onnx.TensorProto.DataType.items():
        try:
            found[f"tensor({name.lower()})"] = dtype_name(onnx.helper.tensor_dtype_to_np_dtype(number))
        except (KeyError, TypeError, ValueError):
            continue  # strings, and types that the IR does not have
    return found


def attribute_value(proto: Any, file: str) -> Any:
    """The value of an attribute: a number, text, a list of such, an array, or a graph."""
    value = onnx_package().helper.get_attribute_value(proto)
    if proto.type in _MESSAGES:
        return value
    if proto.type == _TENSOR:
        return array_of_proto(value, None, file)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (int, float, str)):
        return value
    return [each.decode(errors="replace") if isinstance(each, bytes) else each for each in value]
