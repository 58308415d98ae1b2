"""Evaluation of ops that combine elements with a region: reduce_region, reduce_window, select_and_scatter, scatter.

A region of element-wise ops runs once on entire arrays; any other region runs element by element. StableHLO requires
reduction regions to be associative and leaves their order open; the evaluator fixes one order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from meshgen.ir.graph import Graph, Node
from meshgen.ir.predicates import is_constant
from meshgen.ir.regions import needed_nodes
from meshgen.ops.evaluate.common import Array, RunRegion, narrow, neutral, ufunc_of, widen
from meshgen.ops.evaluate.structure import add_batching, pad, window_positions, window_starts
from meshgen.ops.registry import broadcasts

FOLDS = ("add", "multiply", "maximum", "minimum", "and", "or", "xor")


def apply_region(region: Graph, args: list[Array], run: RunRegion) -> list[Array]:
    """Apply a region, whose arguments are scalars, to every element of the arrays."""
    shape = np.broadcast_shapes(*(a.shape for a in args))
    if all(broadcasts(node.op) for node in region.nodes):
        return [np.broadcast_to(r, shape) for r in run(region, args)]
    broadcasted = [np.broadcast_to(a, shape) for a in args]
    results = [np.empty(shape, value.type.numpy_dtype) for value in region.outputs]
    for index in np.ndindex(*shape):
        for result, value in zip(results, run(region, [np.asarray(a[index]) for a in broadcasted]), strict=True):
            result[index] = value
    return results


def fold_kind(region: Graph) -> str | None:
    """Return the reduction kind of a region that is a single binary op on its two inputs. Returns None for other
    regions.
    """
    needed = needed_nodes(region.nodes, region.outputs, lambda _: False)
    if len(needed) != 1 or len(region.inputs) != 2:
        return None
    (node,) = needed
    is_single_fold = set(map(id, node.operands)) == set(map(id, region.inputs)) and region.outputs == node.results
    return node.op if is_single_fold and node.op in FOLDS else None


def cumulative_dim(node: Node, init: Node | None) -> int | None:
    """Return the dim along which a windowed reduction is cumulative, or None if it is not cumulative.

    In a cumulative reduction, each window has all elements up to its own position, or all elements from there on.
    `init` is the producer of the initial value.
    """
    a, kind = node.attrs, fold_kind(node.regions[0])
    window_dims = [d for d, size in enumerate(a.window_dimensions) if size > 1]
    if kind is None or len(window_dims) != 1 or node.result.type.shape != node.operands[0].type.shape:
        return None
    steps = {*a.window_strides, *a.base_dilations, *a.window_dilations}
    if steps != {1} or not is_constant(init) or init.attrs.value != neutral(kind, init.result.type.dtype):
        return None
    (dim,), size = window_dims, node.result.type.sizes[window_dims[0]]
    pads = {(a.low[dim], a.high[dim]) if d == dim else (0, 0) for d in window_dims}
    has_only_one_padded_dim = all(not a.low[d] and not a.high[d] for d in range(node.result.type.rank) if d != dim)
    ends = a.window_dimensions[dim] - 1
    return dim if has_only_one_padded_dim and ends >= size - 1 and pads & {(ends, 0), (0, ends)} else None


def _fold(region: Graph, operand_groups: Iterator[list[Array]], inits: list[Array], run: RunRegion) -> list[Array]:
    """Fold the initial values and all `operand_groups` in order.

    If the region is a single op, the accumulator stays in the compute type.
    """
    kind, dtype = fold_kind(region), region.inputs[0].type.dtype
    total: list[Array] | None = None
    for group in operand_groups:
        values = [widen(p, dtype) for p in group] if kind else group
        if total is None:
            total = values
        else:
            total = [ufunc_of(kind)(total[0], values[0])] if kind else apply_region(region, total + values, run)
    if total is None:
        return inits
    if kind:
        return [narrow(ufunc_of(kind)(total[0], widen(inits[0], dtype)), dtype)]
    return apply_region(region, inits + total, run)


def reduce_region(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Combine pairs of elements, level by level, until a single element is left. The region runs log2(n) times."""
    count, dims = len(args) // 2, tuple(node.attrs.dims)
    kept = [d for d in range(args[0].ndim) if d not in dims]
    shape = [args[0].shape[d] for d in kept]
    length = math.prod(args[0].shape[d] for d in dims)
    rows = [x.transpose(*dims, *kept).reshape(length, *shape) for x in args[:count]]
    inits = [np.broadcast_to(i, shape) for i in args[count:]]
    if rows[0].shape[0] == 0:
        return inits
    while (length := rows[0].shape[0]) > 1:
        half = length // 2
        merged = apply_region(
            node.regions[0], [r[0 : 2 * half : 2] for r in rows] + [r[1 : 2 * half : 2] for r in rows], run
        )
        rows = [np.concatenate([m, r[2 * half :]]) for m, r in zip(merged, rows, strict=True)]
    return apply_region(node.regions[0], inits + [r[0] for r in rows], run)


def _window_count(size: int, window: int, stride: int, dilation: int) -> int:
    reach = (window - 1) * dilation + 1
    return 0 if size < reach else (size - reach) // stride + 1


def window_places(shape: Sequence[int], window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Iterator[tuple[slice, ...]]:  # fmt: skip
    """Yield slices for each offset inside a window: they select, from every window, the element at this offset."""
    counts = [_window_count(*part) for part in zip(shape, window, strides, dilations, strict=True)]
    for offset in np.ndindex(*window):
        parts = zip(offset, counts, strides, dilations, strict=True)
        yield tuple(slice(p * d, p * d + (n - 1) * s + 1, s) if n else slice(0, 0) for p, n, s, d in parts)


def reduce_window(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    attrs, region, count = node.attrs, node.regions[0], len(args) // 2
    if node.results[0].type.size == 0:  # If the window is larger than the operand, the result is empty.
        return [np.zeros(value.type.sizes, value.type.numpy_dtype) for value in node.results]
    interior = [d - 1 for d in attrs.base_dilations]
    padded = [pad(x, i, attrs.low, attrs.high, interior) for x, i in zip(args[:count], args[count:], strict=True)]
    kind = fold_kind(region)
    if kind:
        return [_separable(padded[0], args[1], node, kind)]
    offsets = window_places(padded[0].shape, attrs.window_dimensions, attrs.window_strides, attrs.window_dilations)
    inits = [
        np.broadcast_to(i, node.result.type.sizes if count == 1 else node.results[0].type.sizes) for i in args[count:]
    ]
    return _fold(region, ([x[offset] for x in padded] for offset in offsets), inits, run)


def _separable(x: Array, init: Array, node: Node, kind: str) -> Array:
    """Fold a window with a single op along one dim after another.

    This costs the sum of the window's sizes per element, instead of their product.
    """
    attrs, dtype, ufunc = node.attrs, node.operands[0].type.dtype, ufunc_of(kind)
    total = widen(x, dtype)
    for dim, window in enumerate(attrs.window_dimensions):
        stride, dilation = attrs.window_strides[dim], attrs.window_dilations[dim]
        ones, sizes = [1] * x.ndim, [1] * x.ndim
        sizes[dim] = window
        steps, dilations = ones.copy(), ones.copy()
        steps[dim], dilations[dim] = stride, dilation
        first, *remaining = window_places(total.shape, sizes, steps, dilations)
        folded = total[first].copy()
        for offset in remaining:
            ufunc(folded, total[offset], out=folded)
        total = folded
    return narrow(ufunc(total, widen(init, dtype)), dtype)


def select_and_scatter(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Combine each source element into the operand position that `select` prefers in the element's window.

    Padding is never selected.
    """
    operand, source, init = args
    attrs, no_interior = node.attrs, [0] * operand.ndim
    if source.size == 0:
        return [np.full(operand.shape, init, operand.dtype)]
    fill = np.zeros((), operand.dtype)
    padded = pad(operand, fill, attrs.low, attrs.high, no_interior)
    index = pad(np.arange(operand.size).reshape(operand.shape), np.array(-1), attrs.low, attrs.high, no_interior)
    best, chosen = np.zeros(source.shape, operand.dtype), np.full(source.shape, -1)
    for offset in window_places(padded.shape, attrs.window_dimensions, attrs.window_strides, [1] * operand.ndim):
        value, candidate = padded[offset], index[offset]
        (keep,) = apply_region(node.regions[0], [best, value], run)
        take = (candidate >= 0) & ((chosen < 0) | ~keep)
        best, chosen = np.where(take, value, best), np.where(take, candidate, chosen)
    result = np.full(operand.shape, init, operand.dtype)
    flat = chosen.reshape(-1)
    _scatter_into([result.reshape(-1)], flat, flat >= 0, [source.reshape(-1)], node.regions[1], run)
    return [result]


def scatter(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
    """Combine updates into the operands. An update element whose target is out of bounds is dropped."""
    attrs, count = node.attrs, len(args) // 2
    operands, indices, updates = args[:count], args[count], args[count + 1 :]
    shape, vector_dim = operands[0].shape, attrs.index_vector_dim
    starts = window_starts(indices, vector_dim, attrs.scatter_dims_to_operand_dims, len(shape))
    add_batching(starts, attrs.input_batching_dims, attrs.scatter_indices_batching_dims, vector_dim)
    dropped = (*attrs.inserted_window_dims, *attrs.input_batching_dims)
    window = iter(attrs.update_window_dims)
    sizes = [1 if d in dropped else updates[0].shape[next(window)] for d in range(len(shape))]
    positions = window_positions(starts, sizes, dropped, attrs.update_window_dims, updates[0].ndim)
    flat, inside = np.zeros(updates[0].shape, np.int64), np.ones(updates[0].shape, np.bool_)
    for position, size in zip(positions, shape, strict=True):
        inside &= (position >= 0) & (position < size)
        flat = flat * size + position
    results = [np.array(x, order="C") for x in operands]  # The copies are contiguous, so the `reshape` below is a view.
    _scatter_into([r.reshape(-1) for r in results], flat.reshape(-1), inside.reshape(-1),
                  [u.reshape(-1) for u in updates], node.regions[0], run)  # fmt: skip
    return results


def _scatter_into(targets: list[Array], flat: Array, inside: Array, updates: list[Array], region: Graph, run: RunRegion) -> None:  # fmt: skip
    """Apply updates in order, in place.

    Round r applies the r-th update of each target element, so the targets of one round are distinct.
    """
    flat, updates = flat[inside], [u[inside] for u in updates]
    kind, dtype = fold_kind(region), region.inputs[0].type.dtype
    if kind:
        wide = widen(targets[0], dtype).copy()
        ufunc_of(kind).at(wide, flat, widen(updates[0], dtype))
        targets[0][...] = narrow(wide, dtype)
        return
    order = np.argsort(flat, kind="stable")
    ranked = flat[order]
    first = np.searchsorted(ranked, ranked, side="left")
    round_of_update = np.arange(len(ranked)) - first
    for round_index in range(int(round_of_update.max(initial=-1)) + 1):
        picked = order[round_of_update == round_index]
        old = [t[flat[picked]] for t in targets]
        for target, new in zip(targets, apply_region(region, old + [u[picked] for u in updates], run), strict=True):
            target[flat[picked]] = new
