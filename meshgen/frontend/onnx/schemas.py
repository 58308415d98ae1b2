"""Operator schemas at the opset of a model: default attribute values, and the dtypes that operands may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from meshgen.frontend.onnx.files import array_of_proto, onnx_package
from meshgen.frontend.onnx.ops.table import Elements, kind_of
from meshgen.ir.graph import dtype_name

# Codes in AttributeProto.AttributeType: of tensors; of graphs, sparse tensors and types.
_TENSOR, _MESSAGES = 4, (5, 10, 11, 13, 14)


@dataclass(frozen=True)
class Parameter:
    """A formal parameter of an operator.

    Attributes:
        variable: the type variable; parameters with the same type variable must have the same dtype. May be empty.
        kinds: the allowed dtypes, or empty if all are allowed.
    """

    variable: str
    kinds: frozenset[str]


@dataclass(frozen=True)
class Schema:
    """The schema of one version of an operator.

    Attributes:
        since: the opset that introduced this version.
        defaults: default values of attributes.
        parameters: formal parameters, one per operand.
        is_variadic: whether the last parameter stands for all further operands.
    """

    since: int
    defaults: Mapping[str, Any]
    parameters: Sequence[Parameter]
    is_variadic: bool

    def type_faults(self, operands: Sequence[Any]) -> Iterator[str]:
        """Yield a message for each operand whose dtype is not allowed.

        Operands with the same type variable must also have the same dtype.
        """
        bound: dict[str, tuple[int, str]] = {}
        last = len(self.parameters) - 1
        for index, operand in enumerate(operands):
            if operand is None or isinstance(operand, Elements) or (index > last and not self.is_variadic):
                continue
            parameter, kind = self.parameters[min(index, last)], kind_of(operand)
            first_index, first_kind = bound.setdefault(parameter.variable or str(index), (index, kind))
            if parameter.kinds and kind not in parameter.kinds:
                yield f"operand {index + 1} is of type {kind}, but may be of {', '.join(sorted(parameter.kinds))} only"
            elif kind != first_kind:
                yield f"operands {first_index + 1} and {index + 1} must have one element type, but have {first_kind} and {kind}"


@lru_cache(maxsize=4096)
def schema_of(domain: str, name: str, version: int) -> Schema | None:
    """Return the schema of an operator at opset `version`, or None if the standard does not define the operator."""
    onnx = onnx_package()
    try:
        onnx_schema = onnx.defs.get_schema(name, version, domain)
    except Exception:  # SchemaError, whose import path depends on the version of onnx.
        return None
    pairs = ((key, item.default_value) for key, item in onnx_schema.attributes.items())
    defaults = {key: attribute_value(value, "") for key, value in pairs if value.type}
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    parameters = [_parameter(item, item.option == variadic) for item in onnx_schema.inputs]
    return Schema(
        onnx_schema.since_version,
        defaults,
        parameters,
        any(item.option == variadic for item in onnx_schema.inputs[-1:]),
    )


@cache
def newest_operands(name: str) -> Sequence[str]:
    """Return the operand names of the newest version of a standard operator, or an empty tuple for other operators."""
    onnx = onnx_package()
    return tuple(parameter.name for parameter in onnx.defs.get_schema(name, onnx.defs.onnx_opset_version(), "").inputs) if onnx.defs.has(name) else ()  # fmt: skip


def _parameter(formal: Any, is_variadic: bool) -> Parameter:
    is_shared = "(" not in formal.type_str and (formal.is_homogeneous or not is_variadic)
    has_non_tensors = any(
        not type_text.startswith("tensor(") for type_text in formal.types
    )  # Types of sequences and optional values.
    kinds = (kind for type_text in formal.types if (kind := _kinds().get(type_text)))
    return Parameter(formal.type_str if is_shared else "", frozenset() if has_non_tensors else frozenset(kinds))


@cache
def _kinds() -> dict[str, str]:
    """Map the schemas' names of tensor types, such as `tensor(float)`, to the IR's dtypes."""
    onnx = onnx_package()
    dtypes: dict[str, str] = {}
    for name, code in onnx.TensorProto.DataType.items():
        try:
            dtypes[f"tensor({name.lower()})"] = dtype_name(onnx.helper.tensor_dtype_to_np_dtype(code))
        except (KeyError, TypeError, ValueError):
            continue  # Strings, and dtypes that the IR does not have.
    return dtypes


def attribute_value(proto: Any, file: str) -> Any:
    """Return the value of a node's attribute: a number, string, list, array, or message such as a `GraphProto`."""
    value = onnx_package().helper.get_attribute_value(proto)
    if proto.type in _MESSAGES:
        return value
    if proto.type == _TENSOR:
        return array_of_proto(value, None, file)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (int, float, str)):
        return value
    return [item.decode(errors="replace") if isinstance(item, bytes) else item for item in value]
