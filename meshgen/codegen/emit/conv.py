"""Convolutions as products over windows: what the templates of dots and reductions are generated from.

    before   %2 = convolution %x, %w {stride 2}                f32[8,32,32,16], f32[3,3,16,64] -> f32[8,16,16,64]
    after    %p = pad %x {low = [0, 1, 1, 0], ...}
             %t = windows %p {dims = [1, 2], sizes = [3, 3], strides = [2, 2]}       -> f32[8,16,16,16,3,3]
             %2 = dot_general %t, %w {contract = 3, 4, 5 with 2, 0, 1}

Padding, dilation, windows and reversed kernels are index maps, so nothing is in memory but the operands (implicit GEMM).
Groups are batch dims of the dot. Where a group has one output feature (depthwise), matrices would have one column: it is a
product of elements and a sum.
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
    """The body with every convolution as a dot, or as a product and a sum, over windows; itself if it has none.

    Results of convolutions, inputs and outputs keep their identity.
    """
    if not any(isinstance(node.attrs, Convolution) for node in body.nodes):
        return body
    found = Graph(body.name, body.inputs, [], body.outputs)
    for node in body.nodes:
        if isinstance(node.attrs, Convolution):
            _Lowering(found, node).lower()
        else:
            found.nodes.append(node)
    return found


class _Side(NamedTuple):
    """An operand whose features, and whose batch, may be in groups.

    Attributes:
        group: the dim that numbers the groups; None if there is one group only.
        contract: dims that are summed out: input features, then the places in a window.
        free: the other dims, in the order of the dims of the result that they become.
    """

    value: Value
    group: int | None
    contract: tuple[int, ...]
    free: tuple[int, ...]


class _Lowering:
    """One convolution, appended to a graph."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.attrs = graph, node, node.attrs
        self.groups = self.attrs.feature_group_count * self.attrs.batch_group_count

    def lower(self) -> None:
        if not all(value.type.size for value in (*self.node.operands, self.node.result)):
            zero = self._number(self.node.result.type.dtype)  # nothing is summed
            self.graph.nodes.append(Node("broadcast_in_dim", [zero], self.node.results, {"dims": ()}, self.node.loc))
            return
        image, kernel = self._image(), self._kernel()
        self._arrange((self._product if is_depthwise(self.node) else self._dot)(image, kernel))

    def _op(
        self, op: str, operands: Sequence[Value], attrs: Mapping[str, Any], like: TensorType | None = None
    ) -> Value:
        types = [like] if like is not None else infer_types(op, attrs, [v.type for v in operands])
        assert types is not None, op
        return self.graph.add(op, operands, types, attrs, loc=self.node.loc).result

    # ---- operands

    def _image(self) -> _Side:
        """The image's windows: its dims are where a window is, then the places in it."""
        attrs, (image, kernel) = self.attrs, self.node.operands
        padded = self._padded(image)
        sizes = tuple(kernel.type.sizes[d] for d in attrs.kernel_spatial)
        spatial = tuple(attrs.input_spatial)
        windows = {"dims": spatial, "sizes": sizes, "strides": attrs.window_strides, "dilations": attrs.rhs_dilation}
        value = self._op("windows", [padded], windows)
        batch, feature = attrs.input_batch, attrs.input_feature
        places = tuple(range(image.type.rank, value.type.rank))
        if self.groups == 1:
            return _Side(value, None, (feature, *places), (batch, *spatial))
        cut = feature if attrs.feature_group_count > 1 else batch
        value = self._cut(value, cut)
        batch, feature, *spatial = (d + (d > cut) for d in (batch, feature, *spatial))
        batch, feature = (d + (d == cut) for d in (batch, feature))
        return _Side(value, cut, (feature, *(d + 1 for d in places)), (batch, *spatial))

    def _padded(self, image: Value) -> Value:
        attrs, count = self.attrs, image.type.rank
        low, high, interior = [0] * count, [0] * count, [0] * count
        for place, dim in enumerate(attrs.input_spatial):
            low[dim], high[dim] = attrs.low[place], attrs.high[place]
            interior[dim] = attrs.lhs_dilation[place] - 1
        if not any((*low, *high, *interior)):
            return image
        zero = self._number(image.type.dtype)
        attributes = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
        return self._op("pad", [image, zero], attributes)

    def _kernel(self) -> _Side:
        attrs, value = self.attrs, self.node.operands[1]
        spatial = tuple(attrs.kernel_spatial)
        turned = tuple(d for d, is_turned in zip(spatial, attrs.window_reversal, strict=True) if is_turned)
        if turned:
            value = self._op("reverse", [value], {"dims": turned})
        feature, output = attrs.kernel_input_feature, attrs.kernel_output_feature
        if self.groups == 1:
            return _Side(value, None, (feature, *spatial), (output,))
        value = self._cut(value, output)
        contract = tuple(d + (d > output) for d in (feature, *spatial))
        return _Side(value, output, contract, (output + 1,))

    def _cut(self, value: Value, dim: int) -> Value:
        """The dim as groups and what is in one."""
        sizes = value.type.sizes
        parts = (*sizes[:dim], self.groups, sizes[dim] // self.groups, *sizes[dim + 1 :])
        return self._op("reshape", [value], {}, value.type.with_shape(parts))

    def _number(self, dtype: str) -> Value:
        """The scalar 0."""
        return self._op("constant", [], {"value": np.zeros((), DTYPES[dtype])}, TensorType((), dtype))

    # ---- the product: its dims are the group, batch, spatial dims and output feature

    def _dot(self, image: _Side, kernel: _Side) -> Value:
        order = sorted(range(len(kernel.contract)), key=lambda place: kernel.contract[place])
        sides = {"lhs": image, "rhs": kernel}
        attrs: dict[str, Any] = {f"{name}_batch": _listed(side.group) for name, side in sides.items()}
        attrs |= {f"{name}_contract": tuple(side.contract[place] for place in order) for name, side in sides.items()}
        shape = [*self._group_sizes(), *_dim_sizes(image, sorted(image.free)), *_dim_sizes(kernel, kernel.free)]
        like = TensorType(tuple(shape), self.node.result.type.dtype)
        value = self._op("dot_general", [image.value, kernel.value], {**attrs, "precision": self.attrs.precision}, like)
        first = len(shape) - 1 - len(image.free)
        place = {dim: first + number for number, dim in enumerate(sorted(image.free))}
        perm = (*range(first), *(place[dim] for dim in image.free), len(shape) - 1)
        return self._op("transpose", [value], {"perm": perm})

    def _product(self, image: _Side, kernel: _Side) -> Value:
        """Of one output feature per group: rows of what is summed, then the dims of the result."""
        dtype = self.node.result.type.dtype
        wide = "f32" if is_float(dtype) and dtype != "f64" else dtype
        summed = len(image.contract)
        shape = (*_dim_sizes(image, image.contract), *_dim_sizes(image, image.free), self.groups)
        like = TensorType(shape, wide)
        ends = tuple(range(summed))
        left = self._spread(image, (*image.contract, *image.free, *_listed(image.group)), range(len(shape)), like)
        right = self._spread(kernel, (*kernel.contract, *_listed(kernel.group)), (*ends, len(shape) - 1), like)
        product = self._op("multiply", [left, right], {}, like)
        kept = TensorType(shape[summed:], wide)
        total = self._op("reduce", [product, self._number(wide)], {"dims": ends, "kind": "add"}, kept)
        if wide != dtype:
            total = self._op("convert", [total], {}, TensorType(kept.shape, dtype))
        last = kept.rank - 1
        total = self._op("transpose", [total], {"perm": (last, *range(last))})
        return self._op("reshape", [total], {}, total.type.with_shape((*total.type.sizes, 1)))

    def _spread(self, side: _Side, perm: Sequence[int], dims: Sequence[int], like: TensorType) -> Value:
        """Dims `perm` of an operand as dims `dims` of the product; its other dims have one element."""
        value = side.value
        rest = [d for d in range(value.type.rank) if d not in perm]
        value = self._op("transpose", [value], {"perm": (*perm, *rest)})
        value = self._op("reshape", [value], {}, value.type.with_shape(value.type.sizes[: len(perm)]))
        if value.type.dtype != like.dtype:
            value = self._op("convert", [value], {}, TensorType(value.type.shape, like.dtype))
        return self._op("broadcast_in_dim", [value], {"dims": tuple(dims)}, like)

    def _group_sizes(self) -> list[int]:
        return [self.groups] if self.groups > 1 else []

    # ---- the result

    def _arrange(self, product: Value) -> None:
        """The product in the order of the result's dims."""
        attrs, first = self.attrs, len(self._group_sizes())
        where = {attrs.output_batch: [first], attrs.output_feature: [*range(first), product.type.rank - 1]}
        where |= {dim: [first + 1 + place] for place, dim in enumerate(attrs.output_spatial)}
        perm = tuple(place for dim in sorted(where) for place in where[dim])
        value = self._op("transpose", [product], {"perm": perm})
        self.graph.nodes.append(Node("reshape", [value], self.node.results, {}, self.node.loc))


def _listed(dim: int | None) -> tuple[int, ...]:
    return () if dim is None else (dim,)


def _dim_sizes(side: _Side, dims: Sequence[int]) -> list[int]:
    return [side.value.type.sizes[d] for d in dims]
