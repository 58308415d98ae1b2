"""Expand composite operators into the function bodies that the ONNX standard defines for them.

    CenterCropPad(x, shape)    ->    Shape, Slice, ..., Pad

Operators in the importer's table (`ops/table.py`) are not expanded. The table contains a composite operator only if
that gives a better program or more accurate numbers than the body: `Attention` becomes one op, `Elu` uses `expm1`,
and `ReduceLogSumExp` subtracts the maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from meshgen.frontend.onnx.files import onnx_package
from meshgen.frontend.onnx.prepare import nodes_of
from meshgen.ir.graph import DTYPES, TensorType


@lru_cache(maxsize=4096)
def _schema_with_body(domain: str, name: str, version: int) -> tuple[Any, int] | None:
    """Return an operator's schema at opset `version`, and the newest opset up to `version` that has a function body.

    Returns None if the operator is unknown or has no body.
    """
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(name, version, domain)
    except Exception:  # SchemaError, whose import path depends on the version of onnx.
        return None
    versions = (*schema.function_opset_versions, *schema.context_dependent_function_opset_versions)
    newest = max((body_version for body_version in versions if body_version <= version), default=None)
    return None if newest is None else (schema, newest)


def has_body(domain: str, name: str, version: int) -> bool:
    """Whether the standard defines a function body for the operator `name` at opset `version`."""
    return _schema_with_body(domain, name, version) is not None


def body_of(node: Any, domain: str, version: int, types: Sequence[TensorType | Sequence[TensorType] | None]) -> Any:
    """Return the function body of a node's operator as a `FunctionProto`, or None if the operator has no body.

    The node's attribute values are substituted in the body.

    Args:
        types: operand types, on which some bodies depend; a list of element types for a sequence, None for an omitted
            operand.
    """
    schema_and_opset = _schema_with_body(domain, node.op_type, version)
    if schema_and_opset is None:
        return None
    schema, newest = schema_and_opset
    attributes = {name: item.default_value for name, item in schema.attributes.items() if item.default_value.type}
    attributes |= {item.name: item for item in node.attribute}
    if newest in schema.function_opset_versions:
        text = schema.get_function_with_opset_version(newest)
    else:
        full_node = type(node)(op_type=node.op_type, domain=domain, input=node.input, output=node.output, attribute=attributes.values())  # fmt: skip
        operands = [_type_proto(item).SerializeToString() for item in types]
        text = schema.get_context_dependent_function_with_opset_version(newest, full_node.SerializeToString(), operands)
    body = onnx_package().FunctionProto.FromString(text)
    for item in nodes_of(body):
        _bind(item, attributes)
    return body


def _bind(node: Any, attributes: Mapping[str, Any]) -> None:
    """Replace each reference to an attribute of the operator by the value in `attributes`.

    Remove references without a value.
    """
    for index in reversed(range(len(node.attribute))):
        attribute = node.attribute[index]
        name, value = attribute.name, attributes.get(attribute.ref_attr_name)
        if value is not None:
            attribute.CopyFrom(value)
            attribute.name = name
        elif attribute.ref_attr_name:
            del node.attribute[index]


def _type_proto(kind: TensorType | Sequence[TensorType] | None) -> Any:
    onnx = onnx_package()
    if kind is None:
        return onnx.TypeProto()
    if not isinstance(kind, TensorType):
        return onnx.helper.make_sequence_type_proto(_type_proto(kind[0] if kind else None))
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(DTYPES[kind.dtype]), kind.sizes)
