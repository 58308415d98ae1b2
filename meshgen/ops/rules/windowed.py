"""Sharding rules of convolutions and windowed reductions.

Batch and channel dims share their factors. A tile of a spatial dim needs a halo: operand rows of adjacent tiles.
"""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.rules.rule import Rule, letters, linear_in_each, rule


def reduce_window(node: Node) -> Rule:
    """Return the rule of a windowed reduction: a tile of the result needs all operand rows that its windows cover."""
    if (dim := scanned_dim(node)) is not None:
        names = letters(node.operands[0].type.rank)
        text = f"{' '.join(names)}, () -> {' '.join(names)}"
        return rule(text, [v.type for v in node.operands], [node.result.type], scan=[names[dim]])
    count, attrs = len(node.operands) // 2, node.attrs
    names = letters(node.operands[0].type.rank)
    dims = " ".join(names) or "()"
    text = f"{', '.join([dims] * count + ['()'] * count)} -> {', '.join([dims] * count)}"
    windows = {
        (names[d], i): (
            -attrs.low[d],
            attrs.window_strides[d],
            _span(attrs.window_dimensions[d], attrs.window_dilations[d]),
            attrs.base_dilations[d],
        )
        for d in windowed(node)
        for i in range(count)
    }
    return rule(text, [v.type for v in node.operands], [v.type for v in node.results], windows=windows)


def scanned_dim(node: Node) -> int | None:
    """Return the dim along which a windowed reduction is cumulative, or None if it is not cumulative.

    In a cumulative reduction, each window extends from one end of the dim to the row of the result. The region must be
    a single op with a neutral element, so that the devices can combine the totals of their tiles.
    """
    attrs, window_dims = node.attrs, windowed(node)
    if len(node.operands) != 2 or len(window_dims) != 1 or fold_kind(node.regions[0]) is None:
        return None
    dim = window_dims[0]
    size = node.operands[0].type.sizes[dim]
    ones = {getattr(attrs, name)[dim] for name in ("window_strides", "base_dilations", "window_dilations")}
    ends = sorted((attrs.low[dim], attrs.high[dim]))
    covers = size > 1 and attrs.window_dimensions[dim] == size and ends == [0, size - 1] and ones == {1}
    return dim if covers else None


def _span(size: int, dilation: int) -> int:
    """Return the number of rows that a window of `size` elements covers, including the gaps of the dilation."""
    return (size - 1) * dilation + 1 if size else 0


def select_and_scatter(node: Node) -> Rule:
    """Return the rule of `select_and_scatter`: a tile of the result needs the sources of all windows that overlap the
    tile.

    Each device selects the elements of these windows. The windows may extend into the tiles of adjacent devices.
    """
    attrs, names = node.attrs, letters(node.result.type.rank)
    dims = " ".join(names) or "()"
    windows: dict[tuple[str, int], tuple[int, ...]] = {}
    for d in windowed(node):
        size, stride, low = (getattr(attrs, name)[d] for name in ("window_dimensions", "window_strides", "low"))
        overlap = max(0, size - stride)
        windows[names[d], 0] = (-overlap, 1, 1 + 2 * overlap)
        windows[names[d], 1] = (low - size + 1, 1, size, stride)
    return rule(f"{dims}, {dims}, () -> {dims}", [v.type for v in node.operands], [node.result.type], windows=windows)


def windowed(node: Node) -> list[int]:
    """Return the dims along which a window has more than one element, or there is a stride, a dilation or padding."""
    attrs = node.attrs
    ones = [1] * len(attrs.window_dimensions)
    parts = zip(
        attrs.window_dimensions, attrs.window_strides, attrs.low, attrs.high,
        attrs.get("base_dilations", ones), strict=True,
    )  # fmt: skip
    return [
        d
        for d, (size, stride, low, high, base) in enumerate(parts)
        if (size, stride, low, high, base) != (1, 1, 0, 0, 1)
    ]


def convolution(node: Node) -> Rule:
    """Return the rule of a convolution, for example `b i h, o i kh -> b o h`, which sums over the input channels i.

    Groups are parallel: feature groups are `b (g i) h, (g o) i kh -> b (g o) h` and batch groups are
    `(g b) i h, (g o) i kh -> b (g o) h`. Per spatial dim, either the rows of the result or the rows of the kernel may
    be sharded, whichever are more. Sharded kernel rows are reduced, as in a weight gradient: `b i k, o i k -> b o h`.
    """
    attrs = node.attrs
    image, kernel = (v.type for v in node.operands)
    result = node.result.type
    left, right, out = [""] * image.rank, [""] * kernel.rank, [""] * result.rank
    features, batches = attrs.feature_group_count, attrs.batch_group_count
    inputs, outputs = kernel.sizes[attrs.kernel_input_feature], kernel.sizes[attrs.kernel_output_feature]
    outputs //= max(features, batches)
    batches_per_group = result.sizes[attrs.output_batch]

    def grouped_dim(name: str, count: int, size: int) -> str:
        # If a group has one element, the factor of the dim is `g` alone, so the dim can be sharded unevenly.
        return name if count == 1 else f"(g {name})" if size != 1 else "g"

    left[attrs.input_batch], out[attrs.output_batch] = grouped_dim("b", batches, batches_per_group), "b"
    left[attrs.input_feature], right[attrs.kernel_input_feature] = grouped_dim("i", features, inputs), "i"
    right[attrs.kernel_output_feature] = grouped_dim("o", max(features, batches), outputs)
    out[attrs.output_feature] = right[attrs.kernel_output_feature]
    windows: dict[tuple[str, int], tuple[int, ...]] = {}
    sizes = {"g": max(features, batches), "i": inputs, "b": batches_per_group, "o": outputs}
    fixed: list[str] = []
    summed = ["i"]
    reduced_dims = summed_dims(node)
    spatial = zip(attrs.input_spatial, attrs.kernel_spatial, attrs.output_spatial, strict=True)
    for axis, (source, window, target) in enumerate(spatial):
        right[window], out[target] = f"k{axis}", f"x{axis}"
        steps = attrs.window_strides[axis], attrs.rhs_dilation[axis]
        lengths = result.sizes[target], kernel.sizes[window]
        if axis in reduced_dims:
            left[source], fixed_factor, steps, lengths = f"k{axis}", f"x{axis}", steps[::-1], lengths[::-1]
            sizes[f"k{axis}"] = kernel.sizes[window]
            summed.append(f"k{axis}")
        else:
            left[source], fixed_factor = f"x{axis}", f"k{axis}"
        fixed.append(fixed_factor)
        width = _span(lengths[1], steps[1])
        windows[left[source], 0] = (-attrs.low[axis], steps[0], width, attrs.lhs_dilation[axis])
    text = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
    reduced, linear = dict.fromkeys(summed, "sum"), linear_in_each([image, kernel], result)
    return rule(
        text, [image, kernel], [result], reduce=reduced, whole=fixed, linear=linear, windows=windows, sizes=sizes
    )


def summed_dims(node: Node) -> list[int]:
    """Return the indices of the spatial dims along which the rows of the kernel may be sharded instead of the result's
    rows.
    """
    attrs, kernel, result = node.attrs, node.operands[1].type.sizes, node.result.type.sizes
    pairs = zip(attrs.kernel_spatial, attrs.output_spatial, attrs.window_reversal, strict=True)
    return [
        axis
        for axis, (window, target, is_reversed) in enumerate(pairs)
        if kernel[window] > result[target] and not is_reversed
    ]
