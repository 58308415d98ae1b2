"""Importers of linalg's named operations. Each is expanded to its generic form, which `structured.py` converts."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import AffineMap

from meshgen.errors import Diagnostic
from meshgen.ir.attributes.table import attributes_of
from meshgen.ir.graph import Node, Value
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.attributes import integers, string_of, strings
from meshgen.mlir.conversion import Importer, Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.linalg.any_order import import_any_order
from meshgen.mlir.linalg.named_forms import (
    SCALAR_OPERATIONS,
    Write,
    block_of,
    convolution_maps,
    named_contraction_maps,
    pooled,
    product,
)
from meshgen.mlir.linalg.operations import CONTRACTIONS, ELEMENTWISE, WINDOWS
from meshgen.mlir.linalg.structured import explicit_maps, input_count, structured
from meshgen.mlir.loop_values import transposed
from meshgen.ops.precision import PRECISIONS


def _operand_element_types(op: Operation) -> list[Attribute]:
    """Return the element types of the operands."""
    return [getattr(operand.type, "element_type", operand.type) for operand in op.operands]


def _is_unsigned(op: Operation) -> bool:
    return op.name.endswith("_unsigned") or string_of(op.properties.get("cast")) == "cast_unsigned"


def import_contraction(importer: Importer, op: Operation) -> None:
    """Convert a contraction. Its indexing maps are those in the attribute `indexing_maps`, else those that its name
    implies.
    """
    word = op.name.partition(".")[2]
    maps = explicit_maps(op) or named_contraction_maps(word)
    if len(maps) == 3 and len(op.operands) == 5:
        maps[2:2] = [AffineMap(maps[0].num_dims, 0, ())] * 2
    _import_with_body(importer, op, maps, product(_is_unsigned(op)))


def import_convolution(importer: Importer, op: Operation) -> None:
    """Convert a named convolution or pooling operation."""
    ones = (1,) * _spatial_rank(op)
    strides, dilations = (integers(op.properties.get(name)) or ones for name in ("strides", "dilations"))
    maps, fold = convolution_maps(op.name.partition(".")[2], strides, dilations)
    if len(op.operands) == 5:
        maps[2:2] = [AffineMap(maps[0].num_dims, 0, ())] * 2
    _import_with_body(importer, op, maps, product(_is_unsigned(op)) if fold == "product" else pooled(fold))


def _spatial_rank(op: Operation) -> int:
    """Return the number of spatial dims of a convolution, which its name states (`conv_2d_nhwc_hwcf`: 2)."""
    words = op.name.removeprefix("linalg.").removeprefix("depthwise_").split("_")
    return int(words[1][0]) if words[0] == "conv" else sum(letter in "dhw" for letter in words[1])


def import_elementwise(importer: Importer, op: Operation) -> None:
    """Convert a named element-wise operation. It does not use the initial value of its output."""
    word = string_of(op.properties.get("kind"), op.name.partition(".")[2])
    rank, count = importer.type(op.operands[-1]).rank, input_count(op)
    maps = explicit_maps(op) or [
        AffineMap.identity(rank) if importer.type(x).rank == rank else AffineMap(rank, 0, ()) for x in op.operands
    ]
    types = _operand_element_types(op)
    if word == "copy":
        _import_with_body(
            importer, op, maps, lambda scalars, arguments: scalars.cast(arguments[0], types[-1], _is_unsigned(op))
        )
        return
    _import_with_body(importer, op, maps, lambda scalars, arguments: scalars.named(word, *arguments[:count]))


def _fill(b: Builder, value: Value, output: Value) -> Value:
    sizes = [b.size(output, dim) for dim in range(output.type.rank)]
    return b.filled(b.convert(value, output.type.dtype), output.type, sizes)


def _transpose(b: Builder, value: Value, _: Value) -> Value:
    """Emit a transpose: dim d of the result is dim `permutation[d]` of the input."""
    order = b.integers("permutation")
    if sorted(order) != list(range(value.type.rank)) or tuple(value.type.shape[d] for d in order) != b.result.shape:
        raise Refused("MG0104", f"{value.type} with the permutation {list(order)} is not {b.result}")
    return transposed(b, value, order)


def _broadcast(b: Builder, value: Value, _: Value) -> Value:
    """Emit a broadcast. The attribute `dimensions` lists the dims of the result that the input lacks."""
    kind, new = b.result, b.integers("dimensions")
    dims = [d for d in range(kind.rank) if d not in new]
    if tuple(kind.shape[d] for d in dims) != value.type.shape:
        raise Refused("MG0104", f"{value.type} with new dims {list(new)} is not {kind}")
    return b.broadcast(value, kind.shape, dims)


def import_body(importer: Importer, op: Operation) -> None:
    """Convert `linalg.map` or `linalg.reduce`, whose scalar function is a region or the name of an operation.

    A reduce removes the dims in the attribute `dimensions`.
    """
    folded, count = integers(op.properties.get("dimensions")), input_count(op)
    rank = importer.type(op.operands[0] if op.name == "linalg.reduce" else op.operands[-1]).rank
    identity_map = AffineMap.identity(rank)
    output_map = AffineMap(rank, 0, tuple(x for d, x in enumerate(identity_map.results) if d not in folded))
    maps = [identity_map if n < count else output_map for n in range(len(op.operands))]
    if op.regions and op.regions[0].blocks:
        if op.name == "linalg.reduce" and import_any_order(importer, op, count):
            return
        structured(importer, op, op.regions[0].block, maps, count)
        return
    word = string_of(op.properties.get("combiner"))
    if word not in SCALAR_OPERATIONS:
        raise Refused("MG0103", f"the combining operation '{word}' is not supported")
    takes = slice(None) if op.name == "linalg.reduce" else slice(count)
    name, attributes = word.partition(".")[2], op.properties.get("combiner_attributes")
    properties = attributes.data if isinstance(attributes, DictionaryAttr) else {}
    kind = _operand_element_types(op)[-1]
    _import_with_body(
        importer,
        op,
        maps,
        lambda scalars, arguments: scalars.apply(name, *arguments[takes], result=kind, properties=properties),
    )


def _import_with_body(importer: Importer, op: Operation, maps: Sequence[AffineMap], body: Write) -> None:
    """Convert an operation whose scalar body the function `body` emits."""
    structured(importer, op, block_of(_operand_element_types(op), body), maps, input_count(op))


def _softmax(b: Builder, value: Value, _: Value) -> Value:
    """Emit a softmax, `exp(x - max(x)) / sum(exp(x - max(x)))`, along one dim."""
    axis, shape = int(b.number("dimension") or 0), value.type.shape
    if not 0 <= axis < value.type.rank:
        raise Refused("MG0104", f"{value.type} has no dim {axis}")
    kept = [d for d in range(len(shape)) if d != axis]

    def along(kind: str, x: Value) -> Value:
        return b.broadcast(b.reduce(kind, x, (axis,)), shape, kept)

    powers = b.apply("exponential", b.apply("subtract", value, along("maximum", value)))
    return b.apply("divide", powers, along("add", powers))


def _read_precision(importer: Importer, node: Node, attribute: Attribute) -> None:
    """Read the attribute `precision = ["DEFAULT", "DEFAULT"]`, which meshgen prints on contractions.

    Upstream has no such attribute: without it, products are exact.
    """
    if "precision" not in node.attrs.given:
        return
    words = strings(attribute)
    if len(words) != 2 or any(word not in PRECISIONS.values() for word in words):
        message = f"{node.op}: the precision must be one of {', '.join(PRECISIONS.values())} per operand"
        importer.reading.faults.append(Diagnostic("MG0104", message, node.loc))
        return
    node.attrs = attributes_of(node.op, {**node.attrs.given, "precision": words})


PART = Dialect(
    node_attrs={"precision": _read_precision},
    importers={
        "linalg.reduce": import_body,
        "linalg.map": import_body,
        **all_computed(
            "linalg", {"fill": _fill, "transpose": _transpose, "broadcast": _broadcast, "softmax": _softmax}
        ),
        **{operation.name: import_contraction for operation in CONTRACTIONS},
        **{operation.name: import_convolution for operation in WINDOWS},
        **{operation.name: import_elementwise for operation in ELEMENTWISE},
    },
)
