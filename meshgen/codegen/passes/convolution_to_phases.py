"""Compute a convolution of a dilated image without multiplying by dilation zeros: result phases become features.

    before   %2 = convolution %x, %w {lhs_dilate = 2}        f32[N, 8, C], f32[3, C, O] -> f32[N, 16, O]
    after    %v = the taps of %w for even and for odd results, as features of one kernel            f32[2, C, 2 * O]
             %1 = convolution %x, %v                         f32[N, 8, C], f32[2, C, 2 * O] -> f32[N, 8, 2 * O]
             %2 = reshape %1                                 -> f32[N, 16, O]

In the example, half of the 3 taps of each result meet zeros. Gradients of strided convolutions have this form. A
convolution kernel of size 1 needs no phases: the pass convolves the undilated image and puts the zeros between the
results (`pad`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.contraction import Convolution
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.rewriter import rewritten
from meshgen.ops.types.inference import infer_types


@module_pass("convolution-to-phases", "partition")
def convolution_to_phases(module: Module, context: Compilation) -> Module:
    """Return the local program with convolutions of dilated images rewritten so that they multiply no dilation zeros."""
    return on_graphs(module, _with_phases)


def _with_phases(graph: Graph) -> Graph:
    return rewritten(graph, _rule)


def _rule(builder: Builder, node: Node) -> Sequence[Value] | None:
    phases = _phases(node) if isinstance(node.attrs, Convolution) else []
    return [_PhasedConvolution(builder, node, phases).written()] if phases else None


@dataclass(frozen=True)
class _Phases:
    """A split of the results along spatial dim `dim` into `count` phases: result `count` * q + r is element q of phase
    r.

    Attributes:
        taps: largest number of kernel elements that a phase needs.
        before, behind: zero padding of the kernel. With it, tap t of phase r is kernel element (t + 1) * count - 1 - r.
        low, high: padding of the undilated image.
        size: number of results per phase.
    """

    dim: int
    count: int
    taps: int
    before: int
    behind: int
    low: int
    high: int
    size: int


def _phases(node: Node) -> list[_Phases]:
    """Return the phases along each dilated dim in which results of different phases use different kernel elements."""
    attrs = node.attrs
    if attrs.feature_group_count > 1 or attrs.batch_group_count > 1 or not node.result.type.size:
        return []
    phases: list[_Phases] = []
    for dim, count in enumerate(attrs.lhs_dilation):
        if count == 1 or attrs.window_strides[dim] > 1 or attrs.rhs_dilation[dim] > 1:
            continue
        taps = node.operands[1].type.sizes[attrs.kernel_spatial[dim]]
        image = node.operands[0].type.sizes[attrs.input_spatial[dim]]
        results = node.result.type.sizes[attrs.output_spatial[dim]]
        low = attrs.low[dim] // count
        most_taps = (count + taps - 2 - attrs.low[dim]) // count + low + 1
        size, before = -(-results // count), count - 1 - attrs.low[dim] % count
        if taps == 1 or most_taps < taps:
            behind = count * most_taps - before - taps
            phases.append(_Phases(dim, count, most_taps, before, behind, low, size - image - low + most_taps - 1, size))
    return phases


class _PhasedConvolution:
    """Rewrites one convolution of a dilated image to a convolution with phases as features."""

    def __init__(self, builder: Builder, node: Node, phases: Sequence[_Phases]) -> None:
        self.builder, self.node, self.attrs = builder, node, node.attrs
        sizes = [node.operands[1].type.sizes[d] for d in node.attrs.kernel_spatial]
        self.spread = [dim_phases for dim_phases in phases if sizes[dim_phases.dim] == 1]
        self.phases = [dim_phases for dim_phases in phases if sizes[dim_phases.dim] > 1]

    def written(self) -> Value:
        """Append the nodes of the rewritten convolution and return its result."""
        attrs = {name: list(self.attrs[name]) for name in ("lhs_dilation", "low", "high", "window_reversal")}
        for phase in (*self.spread, *self.phases):
            attrs["lhs_dilation"][phase.dim] = 1
            attrs["low"][phase.dim], attrs["high"][phase.dim] = phase.low, phase.high
        for phase in self.spread:
            attrs["low"][phase.dim] = attrs["high"][phase.dim] = 0
        for phase in self.phases:
            attrs["window_reversal"][phase.dim] = False
        new_attrs = {**self.attrs, **{name: tuple(values) for name, values in attrs.items()}}
        operands = [self.node.operands[0], self._kernel()]
        value = self._interleaved(self.builder.emit("convolution", operands, self._convolved(operands), **new_attrs))
        return self._spread(value) if self.spread else value

    def _kernel(self) -> Value:
        """Return the convolution kernel with one output feature per phase and original output feature."""
        kernel, output = self.node.operands[1], self.attrs.kernel_output_feature
        dims = {dim_phases: self.attrs.kernel_spatial[dim_phases.dim] for dim_phases in self.phases}
        reversed_dims = tuple(d for dim_phases, d in dims.items() if self.attrs.window_reversal[dim_phases.dim])
        if reversed_dims:
            kernel = self.builder.emit("reverse", [kernel], kernel.type, dims=reversed_dims)
        kernel = self._padded(kernel, {d: (dim_phases.before, dim_phases.behind, 0) for dim_phases, d in dims.items()})
        phase = {d: dim_phases for dim_phases, d in dims.items()}
        cut, order, moved = list[int](), list[int](), list[int]()
        for d, size in enumerate(kernel.type.sizes):
            order.append(len(cut))
            cut += [phase[d].taps, phase[d].count] if d in phase else [size]
        moved = [order[d] + 1 for d in dims.values()]
        if moved:
            kernel = self.builder.reshape(kernel, cut)
            kernel = self.builder.emit("reverse", [kernel], kernel.type, dims=tuple(moved))
            kernel = self.builder.transpose(kernel, [*order[:output], *moved, *order[output:]])
        sizes = [cut[order[d]] for d in range(len(order))]
        for dim_phases in self.phases:
            sizes[output] *= dim_phases.count
        return self.builder.reshape(kernel, sizes)

    def _interleaved(self, value: Value) -> Value:
        """Interleave the phases: move them from the feature dim back to the spatial dims."""
        if not self.phases:
            return value
        feature, counts = self.attrs.output_feature, [dim_phases.count for dim_phases in self.phases]
        phase_dims = {
            self.attrs.output_spatial[dim_phases.dim]: feature + i for i, dim_phases in enumerate(self.phases)
        }
        sizes = value.type.sizes
        result_sizes = self.node.result.type.sizes
        cut = self.builder.reshape(value, [*sizes[:feature], *counts, result_sizes[feature], *sizes[feature + 1 :]])
        perm, joined = list[int](), list[int]()
        for d, size in enumerate(sizes):
            perm.append(d + len(counts) * (d >= feature))
            joined.append(result_sizes[feature] if d == feature else size)
            if d in phase_dims:
                perm.append(phase_dims[d])
                joined[-1] *= cut.type.sizes[phase_dims[d]]
        value = self.builder.reshape(self.builder.transpose(cut, perm), joined)
        limit = tuple(result_sizes[d] if d in phase_dims else size for d, size in enumerate(joined))
        if limit == tuple(joined):
            return value
        return self.builder.slice(value, (0,) * len(limit), limit)

    def _spread(self, value: Value) -> Value:
        """Pad the result with zeros between its elements, and before and behind them."""
        attrs = self.attrs
        around = {
            attrs.output_spatial[dim_phases.dim]: (
                attrs.low[dim_phases.dim],
                attrs.high[dim_phases.dim],
                dim_phases.count - 1,
            )
            for dim_phases in self.spread
        }
        return self._padded(value, around)

    def _padded(self, value: Value, around: Mapping[int, tuple[int, int, int]]) -> Value:
        """Pad `value` with zeros, by (before, behind, between) of each dim in `around`."""
        if not any(any(amounts) for amounts in around.values()):
            return value
        low, high, interior = zip(*(around.get(d, (0, 0, 0)) for d in range(value.type.rank)), strict=True)
        operands = [value, self.builder.splat(0, value.type.with_shape(()))]
        types = infer_types("pad", {"low": low, "high": high, "interior": interior}, [v.type for v in operands])
        assert types is not None, "zeros can be put around any value"
        return self.builder.emit("pad", operands, types[0], low=low, high=high, interior=interior)

    def _convolved(self, operands: Sequence[Value]) -> TensorType:
        attrs, sizes = self.attrs, list(self.node.result.type.sizes)
        for phase in self.phases:
            sizes[attrs.output_spatial[phase.dim]] = phase.size
        for phase in self.spread:
            sizes[attrs.output_spatial[phase.dim]] = operands[0].type.sizes[attrs.input_spatial[phase.dim]]
        sizes[attrs.output_feature] = operands[1].type.sizes[attrs.kernel_output_feature]
        return TensorType(tuple(sizes), self.node.result.type.dtype)
