"""Split-K for dots and convolutions: partial accumulators, and their sum."""

from __future__ import annotations

import math

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value, is_float
from meshgen.ir.matchers import Producer
from meshgen.ops.dot_dims import DotDims, gemm_extents
from meshgen.ops.parts.base import Parts, cut, even_counts, total
from meshgen.ops.precision import accumulator_type


def dot_general(node: Node, producer: Producer) -> Parts | None:
    """Split the longest contracting dim into parts that become a batch dim of the partial dot (split-K)."""
    result, dims = node.result.type, DotDims.of(node)
    sizes = node.operands[0].type.sizes
    if not is_float(result.dtype) or not result.size or not dims.contract[0]:
        return None
    longest = max(range(len(dims.contract[0])), key=lambda index: sizes[dims.contract[0][index]])
    split_dims = [dims.contract[side][longest] for side in (0, 1)]

    def partial(builder: Builder, count: int) -> list[Value]:
        operands = [cut(builder, value, split_dims[side], count) for side, value in enumerate(node.operands)]
        contract, batch = (
            [tuple(d + (d >= split_dims[side]) for d in dims_of[side]) for side in (0, 1)]
            for dims_of in (dims.contract, dims.batch)
        )
        attrs = {
            **node.attrs, "lhs_contract": contract[0], "rhs_contract": contract[1],
            "lhs_batch": (split_dims[0], *batch[0]), "rhs_batch": (split_dims[1], *batch[1]),
        }  # fmt: skip
        partial_type = TensorType((count, *result.sizes), accumulator_type(result.dtype))
        return [builder.emit("dot_general", operands, partial_type, **attrs)]

    def combine(builder: Builder, partials: list[Value]) -> list[Value]:
        return [total(builder, partials[0], 0, result)]

    return Parts(even_counts(sizes[split_dims[0]], DEFAULT.fusion.split_product_k), partial, combine)


def convolution(node: Node, producer: Producer) -> Parts | None:
    """Split the input features of a convolution into parts, by means of feature groups.

    This serves weight gradients, whose input features are the batch of the forward convolution.
    """
    attrs, result = node.attrs, node.result.type
    features = node.operands[1].type.sizes[attrs.kernel_input_feature]
    if gemm_extents(node)[0] > 1 or not is_float(result.dtype) or not result.size:
        return None

    def partial(builder: Builder, count: int) -> list[Value]:
        feature, wide = attrs.output_feature, accumulator_type(result.dtype)
        sizes = [count * size if d == feature else size for d, size in enumerate(result.sizes)]
        operands = [node.operands[0], _grouped_kernel(builder, node, count)]
        grouped = {**attrs, "feature_group_count": count}
        grouped_result = builder.emit("convolution", operands, TensorType(tuple(sizes), wide), **grouped)
        return [cut(builder, grouped_result, feature, count)]

    def combine(builder: Builder, partials: list[Value]) -> list[Value]:
        return [total(builder, partials[0], attrs.output_feature, result)]

    return Parts(even_counts(features, 1), partial, combine)


def _grouped_kernel(builder: Builder, node: Node, count: int) -> Value:
    """Return the kernel for a convolution with `count` feature groups.

    It has 1 / `count` of the input features, and the output features of all groups are concatenated.
    """
    feature, output = node.attrs.kernel_input_feature, node.attrs.kernel_output_feature
    value = cut(builder, node.operands[1], feature, count)
    other_dims = [d for d in range(value.type.rank) if d != feature]
    output_index = other_dims.index(output + (output > feature))
    moved = builder.transpose(value, (*other_dims[:output_index], feature, *other_dims[output_index:]))
    sizes = moved.type.sizes
    return builder.reshape(
        moved, (*sizes[:output_index], math.prod(sizes[output_index : output_index + 2]), *sizes[output_index + 2 :])
    )
