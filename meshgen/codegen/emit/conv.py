"""Lowering of convolutions to matmuls over windows, for which the dot and reduction templates then generate kernels.

    before   %2 = convolution %x, %w {stride 2}                f32[8,32,32,16], f32[3,3,16,64] -> f32[8,16,16,64]
    after    %p = pad %x {low = [0, 1, 1, 0], ...}
             %t = windows %p {dims = [1, 2], sizes = [3, 3], strides = [2, 2]}       -> f32[8,16,16,16,3,3]
             %2 = dot_general %t, %w {contract = 3, 4, 5 with 2, 0, 1}

Padding, dilation, windows and reversed kernels become index maps, so only the operands are in memory (implicit
GEMM). Groups become batch dims of the dot. With one output feature per group (depthwise), the matrices would have a
single column, so the lowering emits an element-wise multiply and a reduction instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from meshgen.ir.attributes.contraction import Convolution
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value, is_float
from meshgen.ops.dot_dims import is_depthwise
from meshgen.ops.types.inference import infer_types


def lower_convolutions(body: Graph) -> Graph:
    """Return the body with every convolution lowered to a dot, or to a multiply and a reduction, over windows.

    Returns `body` itself if it has no convolution. Inputs, outputs and the results of convolutions keep their identity.
    """
    if not any(isinstance(node.attrs, Convolution) for node in body.nodes):
        return body
    lowered = Graph(body.name, body.inputs, [], body.outputs)
    for node in body.nodes:
        if isinstance(node.attrs, Convolution):
            _Lowering(lowered, node).lower()
        else:
            lowered.nodes.append(node)
    return lowered


class _Side(NamedTuple):
    """An operand of a convolution, whose features or batch may be split into groups.

    Attributes:
        group: the dim of the groups, or None if there is only one group.
        contract: the contracted dims: input features, then the offsets within a window.
        free: the other dims, in the order of the corresponding result dims.
    """

    value: Value
    group: int | None
    contract: tuple[int, ...]
    free: tuple[int, ...]


class _Lowering:
    """Lowers one convolution: appends the ops that compute it to a graph."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.attrs = graph, node, node.attrs
        self.groups = self.attrs.feature_group_count * self.attrs.batch_group_count

    def lower(self) -> None:
        if not all(value.type.size for value in (*self.node.operands, self.node.result)):
            empty_sum = self._zero(self.node.result.type.dtype)  # a sum over no elements is 0
            self.graph.nodes.append(
                Node("broadcast_in_dim", [empty_sum], self.node.results, {"dims": ()}, self.node.loc)
            )
            return
        image, kernel = self._image(), self._kernel()
        self._reorder_result((self._multiply_and_sum if is_depthwise(self.node) else self._dot)(image, kernel))

    def _op(
        self, op: str, operands: Sequence[Value], attrs: Mapping[str, Any], like: TensorType | None = None
    ) -> Value:
        types = [like] if like is not None else infer_types(op, attrs, [v.type for v in operands])
        assert types is not None, op
        return self.graph.add(op, operands, types, attrs, loc=self.node.loc).result

    # ---- operands

    def _image(self) -> _Side:
        """Return the windows of the padded image: first the dims of window positions, then the dims of offsets within a
        window.
        """
        attrs, (image, kernel) = self.attrs, self.node.operands
        padded = self._padded(image)
        sizes = tuple(kernel.type.sizes[d] for d in attrs.kernel_spatial)
        spatial = tuple(attrs.input_spatial)
        windows = {"dims": spatial, "sizes": sizes, "strides": attrs.window_strides, "dilations": attrs.rhs_dilation}
        value = self._op("windows", [padded], windows)
        batch, feature = attrs.input_batch, attrs.input_feature
        offset_dims = tuple(range(image.type.rank, value.type.rank))
        if self.groups == 1:
            return _Side(value, None, (feature, *offset_dims), (batch, *spatial))
        group_dim = feature if attrs.feature_group_count > 1 else batch
        value = self._split_groups(value, group_dim)
        batch, feature, *spatial = (d + (d > group_dim) for d in (batch, feature, *spatial))
        batch, feature = (d + (d == group_dim) for d in (batch, feature))
        return _Side(value, group_dim, (feature, *(d + 1 for d in offset_dims)), (batch, *spatial))

    def _padded(self, image: Value) -> Value:
        attrs, count = self.attrs, image.type.rank
        low, high, interior = [0] * count, [0] * count, [0] * count
        for i, dim in enumerate(attrs.input_spatial):
            low[dim], high[dim] = attrs.low[i], attrs.high[i]
            interior[dim] = attrs.lhs_dilation[i] - 1
        if not any((*low, *high, *interior)):
            return image
        zero = self._zero(image.type.dtype)
        attributes = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
        return self._op("pad", [image, zero], attributes)

    def _kernel(self) -> _Side:
        attrs, value = self.attrs, self.node.operands[1]
        spatial = tuple(attrs.kernel_spatial)
        reversed_dims = tuple(d for d, is_reversed in zip(spatial, attrs.window_reversal, strict=True) if is_reversed)
        if reversed_dims:
            value = self._op("reverse", [value], {"dims": reversed_dims})
        feature, output = attrs.kernel_input_feature, attrs.kernel_output_feature
        if self.groups == 1:
            return _Side(value, None, (feature, *spatial), (output,))
        value = self._split_groups(value, output)
        contract = tuple(d + (d > output) for d in (feature, *spatial))
        return _Side(value, output, contract, (output + 1,))

    def _split_groups(self, value: Value, dim: int) -> Value:
        """Split dim `dim` of a value into two dims: the group, and the element within the group."""
        sizes = value.type.sizes
        split_sizes = (*sizes[:dim], self.groups, sizes[dim] // self.groups, *sizes[dim + 1 :])
        return self._op("reshape", [value], {}, value.type.with_shape(split_sizes))

    def _zero(self, dtype: str) -> Value:
        """Return the scalar constant 0 of `dtype`."""
        return self._op("constant", [], {"value": np.zeros((), DTYPES[dtype])}, TensorType((), dtype))

    # ---- the matmul: its dims are the group, batch, spatial dims and output feature

    def _dot(self, image: _Side, kernel: _Side) -> Value:
        order = sorted(range(len(kernel.contract)), key=lambda i: kernel.contract[i])
        sides = {"lhs": image, "rhs": kernel}
        attrs: dict[str, Any] = {f"{name}_batch": _listed(side.group) for name, side in sides.items()}
        attrs |= {f"{name}_contract": tuple(side.contract[i] for i in order) for name, side in sides.items()}
        shape = [*self._group_sizes(), *_dim_sizes(image, sorted(image.free)), *_dim_sizes(kernel, kernel.free)]
        like = TensorType(tuple(shape), self.node.result.type.dtype)
        value = self._op("dot_general", [image.value, kernel.value], {**attrs, "precision": self.attrs.precision}, like)
        first_free = len(shape) - 1 - len(image.free)
        position_of = {dim: first_free + i for i, dim in enumerate(sorted(image.free))}
        perm = (*range(first_free), *(position_of[dim] for dim in image.free), len(shape) - 1)
        return self._op("transpose", [value], {"perm": perm})

    def _multiply_and_sum(self, image: _Side, kernel: _Side) -> Value:
        """Return a depthwise convolution as an element-wise multiply and a sum over the leading dims.

        The convolution has one output feature per group.
        """
        dtype = self.node.result.type.dtype
        sum_dtype = "f32" if is_float(dtype) and dtype != "f64" else dtype
        num_summed = len(image.contract)
        shape = (*_dim_sizes(image, image.contract), *_dim_sizes(image, image.free), self.groups)
        like = TensorType(shape, sum_dtype)
        summed_dims = tuple(range(num_summed))
        left = self._broadcast_operand(
            image, (*image.contract, *image.free, *_listed(image.group)), range(len(shape)), like
        )
        right = self._broadcast_operand(
            kernel, (*kernel.contract, *_listed(kernel.group)), (*summed_dims, len(shape) - 1), like
        )
        product = self._op("multiply", [left, right], {}, like)
        accumulator_type = TensorType(shape[num_summed:], sum_dtype)
        total = self._op(
            "reduce", [product, self._zero(sum_dtype)], {"dims": summed_dims, "kind": "add"}, accumulator_type
        )
        if sum_dtype != dtype:
            total = self._op("convert", [total], {}, TensorType(accumulator_type.shape, dtype))
        group_dim = accumulator_type.rank - 1
        total = self._op("transpose", [total], {"perm": (group_dim, *range(group_dim))})
        return self._op("reshape", [total], {}, total.type.with_shape((*total.type.sizes, 1)))

    def _broadcast_operand(self, side: _Side, perm: Sequence[int], dims: Sequence[int], like: TensorType) -> Value:
        """Transpose dims `perm` of an operand to the front, drop its other dims of size 1, and broadcast it along
        `dims` of `like`.
        """
        value = side.value
        unit_dims = [d for d in range(value.type.rank) if d not in perm]
        value = self._op("transpose", [value], {"perm": (*perm, *unit_dims)})
        value = self._op("reshape", [value], {}, value.type.with_shape(value.type.sizes[: len(perm)]))
        if value.type.dtype != like.dtype:
            value = self._op("convert", [value], {}, TensorType(value.type.shape, like.dtype))
        return self._op("broadcast_in_dim", [value], {"dims": tuple(dims)}, like)

    def _group_sizes(self) -> list[int]:
        return [self.groups] if self.groups > 1 else []

    # ---- the result

    def _reorder_result(self, unordered: Value) -> None:
        """Transpose and reshape the matmul's dims to the order of the result's dims."""
        attrs, first = self.attrs, len(self._group_sizes())
        source_dims = {attrs.output_batch: [first], attrs.output_feature: [*range(first), unordered.type.rank - 1]}
        source_dims |= {dim: [first + 1 + i] for i, dim in enumerate(attrs.output_spatial)}
        perm = tuple(i for dim in sorted(source_dims) for i in source_dims[dim])
        value = self._op("transpose", [unordered], {"perm": perm})
        self.graph.nodes.append(Node("reshape", [value], self.node.results, {}, self.node.loc))


def _listed(dim: int | None) -> tuple[int, ...]:
    return () if dim is None else (dim,)


def _dim_sizes(side: _Side, dims: Sequence[int]) -> list[int]:
    return [side.value.type.sizes[d] for d in dims]
