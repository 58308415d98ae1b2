"""Rules of convolutions and windowed reductions: batch and channels are tied, spatial tiles need a halo."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.rules.rule import Rule, letters, linear_in_each, rule


def reduce_window(node: Node) -> Rule:
    """A tile of the result needs the rows under its windows."""
    if (dim := scanned_dim(node)) is not None:
        names = letters(node.operands[0].type.rank)
        text = f"{' '.join(names)}, () -> {' '.join(names)}"
        return rule(text, [v.type for v in node.operands], [node.result.type], scan=[names[dim]])
    count, attrs = len(node.operands) // 2, node.attrs
    names = letters(node.operands[0].type.rank)
    dims = " ".join(names) or "()"
    text = f"{', '.join([dims] * count + ['()'] * count)} -> {', '.join([dims] * count)}"
    rows = {
        (names[d], i): (
            -attrs.low[d],
            attrs.window_strides[d],
            _span(attrs.window_dimensions[d], attrs.window_dilations[d]),
            attrs.base_dilations[d],
        )
        for d in windowed(node)
        for i in range(count)
    }
    return rule(text, [v.type for v in node.operands], [v.type for v in node.results], windows=rows)


def scanned_dim(node: Node) -> int | None:
    """The dim of a cumulative op: each window reaches from one end of the dim to its row. None if it is none.

    Its region must be one op with a neutral element, so that totals of tiles can be put together.
    """
    attrs, moving = node.attrs, windowed(node)
    if len(node.operands) != 2 or len(moving) != 1 or fold_kind(node.regions[0]) is None:
        return None
    dim = moving[0]
    size = node.operands[0].type.sizes[dim]
    ones = {getattr(attrs, name)[dim] for name in ("window_strides", "base_dilations", "window_dilations")}
    ends = sorted((attrs.low[dim], attrs.high[dim]))
    covers = size > 1 and attrs.window_dimensions[dim] == size and ends == [0, size - 1] and ones == {1}
    return dim if covers else None


def _span(size: int, dilation: int) -> int:
    """Rows from the first to the last element of a dilated window."""
    return (size - 1) * dilation + 1 if size else 0


def select_and_scatter(node: Node) -> Rule:
    """A tile of the result needs the sources of all windows that touch it.

    Each device finds what the windows of its own sources choose, from the rows under them: as far as windows overlap,
    those are other devices'.
    """
    attrs, names = node.attrs, letters(node.result.type.rank)
    dims = " ".join(names) or "()"
    rows: dict[tuple[str, int], tuple[int, ...]] = {}
    for d in windowed(node):
        size, stride, low = (getattr(attrs, name)[d] for name in ("window_dimensions", "window_strides", "low"))
        overlap = max(0, size - stride)
        rows[names[d], 0] = (-overlap, 1, 1 + 2 * overlap)
        rows[names[d], 1] = (low - size + 1, 1, size, stride)
    return rule(f"{dims}, {dims}, () -> {dims}", [v.type for v in node.operands], [node.result.type], windows=rows)


def windowed(node: Node) -> list[int]:
    """Dims along which a window is wider than one element, strides, or pads."""
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
    """`b i h, o i kh -> b o h`: the input channels are summed over.

    Groups are parallel: `b (g i) h, (g o) i kh -> b (g o) h`, those of batches `(g b) i h, (g o) i kh -> b (g o) h`.
    Of a spatial dim either the result's or the kernel's rows are split, whichever are more. A split kernel, as in
    the gradient of one, is summed over: `b i k, o i k -> b o h`.
    """
    attrs = node.attrs
    image, kernel = (v.type for v in node.operands)
    result = node.result.type
    left, right, out = [""] * image.rank, [""] * kernel.rank, [""] * result.rank
    features, batches = attrs.feature_group_count, attrs.batch_group_count
    inputs, outputs = kernel.sizes[attrs.kernel_input_feature], kernel.sizes[attrs.kernel_output_feature]
    outputs //= max(features, batches)
    rows_of_group = result.sizes[attrs.output_batch]

    def of_groups(name: str, count: int, size: int) -> str:
        """The dim of groups of `size`. One that is groups alone may be split unevenly."""
        return name if count == 1 else f"(g {name})" if size != 1 else "g"

    left[attrs.input_batch], out[attrs.output_batch] = of_groups("b", batches, rows_of_group), "b"
    left[attrs.input_feature], right[attrs.kernel_input_feature] = of_groups("i", features, inputs), "i"
    right[attrs.kernel_output_feature] = of_groups("o", max(features, batches), outputs)
    out[attrs.output_feature] = right[attrs.kernel_output_feature]
    rows: dict[tuple[str, int], tuple[int, ...]] = {}
    sizes = {"g": max(features, batches), "i": inputs, "b": rows_of_group, "o": outputs}
    whole: list[str] = []
    summed = ["i"]
    walks_kernel = summed_dims(node)
    spatial = zip(attrs.input_spatial, attrs.kernel_spatial, attrs.output_spatial, strict=True)
    for number, (source, window, target) in enumerate(spatial):
        right[window], out[target] = f"k{number}", f"x{number}"
        steps = attrs.window_strides[number], attrs.rhs_dilation[number]
        lengths = result.sizes[target], kernel.sizes[window]
        if number in walks_kernel:
            left[source], kept, steps, lengths = f"k{number}", f"x{number}", steps[::-1], lengths[::-1]
            sizes[f"k{number}"] = kernel.sizes[window]
            summed.append(f"k{number}")
        else:
            left[source], kept = f"x{number}", f"k{number}"
        whole.append(kept)
        width = _span(lengths[1], steps[1])
        rows[left[source], 0] = (-attrs.low[number], steps[0], width, attrs.lhs_dilation[number])
    text = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
    reduced, linear = dict.fromkeys(summed, "sum"), linear_in_each([image, kernel], result)
    return rule(text, [image, kernel], [result], reduce=reduced, whole=whole, linear=linear, windows=rows, sizes=sizes)


def summed_dims(node: Node) -> list[int]:
    """The spatial dims (by number) of a convolution of which the kernel's rows are split, not the result's."""
    attrs, kernel, result = node.attrs, node.operands[1].type.sizes, node.result.type.sizes
    pairs = zip(attrs.kernel_spatial, attrs.output_spatial, attrs.window_reversal, strict=True)
    return [n for n, (window, target, turned) in enumerate(pairs) if kernel[window] > result[target] and not turned]
