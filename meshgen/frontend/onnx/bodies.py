"""The bodies that the standard has for composite operators, which are read in place of operators without an entry in the table.

CenterCropPad(x, shape)    ->    Shape, Slice, ..., Pad

Composite operators have an entry where that gives a better program or more accurate numbers than their body: `Attention` is one op,
`Elu` takes `expm1`, and `ReduceLogSumExp` subtracts the maximum.
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
    """The schema of an operator at an opset, and the opset of its newest body; None where it has none."""
    onnx = onnx_package()
    try:
        schema = onnx.defs.get_schema(name, version, domain)
    except Exception:  # SchemaError, which is not exported under one name by all versions
        return None
    versions = (*schema.function_opset_versions, *schema.context_dependent_function_opset_versions)
    newest = max((each for each in versions if each <= version), default=None)
    return None if newest is None else (schema, newest)


def has_body(domain: str, name: str, version: int) -> bool:
    """Whether the standard has a body for an operator at an opset."""
    return _schema_with_body(domain, name, version) is not None


def body_of(node: Any, domain: str, version: int, types: Sequence[TensorType | Sequence[TensorType] | None]) -> Any:
    """Return the body of the operator of a node as a `FunctionProto`, whose nodes have the attributes of the node; None where it has none.

    `types` are the types of the operands, of the elements of sequences, and None for operands that are left out; some bodies depend on them.
    """
    held = _schema_with_body(domain, node.op_type, version)
    if held is None:
        return None
    schema, newest = held
    attributes = {name: each.default_value for name, each in schema.attributes.items() if each.default_value.type}
    attributes |= {each.name: each for each in node.attribute}
    if newest in schema.function_opset_versions:
        text = schema.get_function_with_opset_version(newest)
    else:
        whole = type(node)(op_type=node.op_type, domain=domain, input=node.input, output=node.output, attribute=attributes.values())  # fmt: skip
        operands = [_type_proto(each).SerializeToString() for each in types]
        text = schema.get_context_dependent_function_with_opset_version(newest, whole.SerializeToString(), operands)
    body = onnx_package().FunctionProto.FromString(text)
    for each in nodes_of(body):
        _bind(each, attributes)
    return body


def _bind(node: Any, attributes: Mapping[str, Any]) -> None:
    """Put attributes in place of references to them; a reference to an attribute without a value goes."""
    for number in reversed(range(len(node.attribute))):
        attribute = node.attribute[number]
        name, value = attribute.name, attributes.get(attribute.ref_attr_name)
        if value is not None:
            attribute.CopyFrom(value)
            attribute.name = name
        elif attribute.ref_attr_name:
            del node.attribute[number]


def _type_proto(kind: TensorType | Sequence[TensorType] | None) -> Any:
    onnx = onnx_package()
    if kind is None:
        return onnx.TypeProto()
    if not isinstance(kind, TensorType):
        return onnx.helper.make_sequence_type_proto(_type_proto(kind[0] if kind else None))
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(DTYPES[kind.dtype]), kind.sizes)
