"""Rules of convolutions and windowed reductions: batch and channels are tied, spatial tiles need a halo."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.ir.evaluate_window import fold_kind
from meshgen.ir.graph import Node
from meshgen.sharding.rules.registry import letters, sharding_rule
from meshgen.sharding.rules.rule import Linear, Rule, rule


@sharding_rule("reduce_window")
def reduce_window(node: Node) -> Rule:
    """A tile of the result needs the rows under its windows; dims that are dilated first stay whole."""
    if (dim := scanned_dim(node)) is not None:
        names = letters(node.operands[0].type.rank)
        text = f"{' '.join(names)}, () -> {' '.join(names)}"
        return rule(text, [v.type for v in node.operands], [node.result.type], scan=[names[dim]])
    count, attrs = len(node.operands) // 2, node.attrs
    names, moving = letters(node.operands[0].type.rank), _windowed(node)
    stuck = [d for d in moving if attrs["base_dilations"][d] != 1]
    source = " ".join(f"{n}_0" if d in stuck else n for d, n in enumerate(names)) or "()"
    target = " ".join(f"{n}_r" if d in stuck else n for d, n in enumerate(names)) or "()"
    text = f"{', '.join([source] * count + ['()'] * count)} -> {', '.join([target] * count)}"
    whole = [f"{names[d]}_{side}" for d in stuck for side in "0r"]
    rows = {
        (names[d], i): (
            -attrs["low"][d],
            attrs["window_strides"][d],
            _span(attrs["window_dimensions"][d], attrs["window_dilations"][d]),
        )
        for d in moving
        if d not in stuck
        for i in range(count)
    }
    return rule(text, [v.type for v in node.operands], [v.type for v in node.results], whole=whole, windows=rows)


def scanned_dim(node: Node) -> int | None:
    """The dim of a cumulative op: each window reaches from one end of the dim to its row. None if it is none.

    Its region must be one op with a neutral element, so that totals of tiles can be put together.
    """
    attrs, moving = node.attrs, _windowed(node)
    if len(node.operands) != 2 or len(moving) != 1 or fold_kind(node.regions[0]) is None:
        return None
    dim = moving[0]
    size = node.operands[0].type.sizes[dim]
    ones = {attrs[name][dim] for name in ("window_strides", "base_dilations", "window_dilations")}
    ends = sorted((attrs["low"][dim], attrs["high"][dim]))
    covers = size > 1 and attrs["window_dimensions"][dim] == size and ends == [0, size - 1] and ones == {1}
    return dim if covers else None


def _span(size: int, dilation: int) -> int:
    """Rows from the first to the last element of a dilated window."""
    return (size - 1) * dilation + 1


@sharding_rule("select_and_scatter")
def select_and_scatter(node: Node) -> Rule:
    """Windows that lie side by side are a factor of their own; dims of other windows stay whole."""
    names, moving, attrs, shape = letters(node.result.type.rank), _windowed(node), node.attrs, node.result.type.sizes
    apart = [d for d in moving if attrs["window_dimensions"][d] == attrs["window_strides"][d]]
    apart = [d for d in apart if shape[d] % attrs["window_strides"][d] == attrs["low"][d] == attrs["high"][d] == 0]
    stuck = [d for d in moving if d not in apart]
    operand = " ".join(f"({n} {n}_w)" if d in apart else n for d, n in enumerate(names)) or "()"
    source = " ".join(f"{n}_s" if d in stuck else n for d, n in enumerate(names)) or "()"
    whole = [names[d] for d in stuck] + [f"{names[d]}_s" for d in stuck] + [f"{names[d]}_w" for d in apart]
    sizes = {f"{names[d]}_w": attrs["window_strides"][d] for d in apart}
    sizes |= {names[d]: shape[d] // attrs["window_strides"][d] for d in apart}
    text = f"{operand}, {source}, () -> {operand}"
    return rule(text, [v.type for v in node.operands], [node.result.type], whole=whole, sizes=sizes)


def _windowed(node: Node) -> list[int]:
    """Dims along which a window is wider than one element, strides, or pads."""
    attrs = node.attrs
    ones = [1] * len(attrs["window_dimensions"])
    parts = zip(
        attrs["window_dimensions"], attrs["window_strides"], attrs["low"], attrs["high"],
        attrs.get("base_dilations", ones), attrs.get("window_dilations", ones), strict=True,
    )  # fmt: skip
    return [
        d
        for d, (size, stride, low, high, base, _) in enumerate(parts)
        if (size, stride, low, high, base) != (1, 1, 0, 0, 1)
    ]


@dataclass(frozen=True)
class SpatialLoop:
    """What may be split of a spatial dim of a convolution: places of the result (then a tile needs a halo), or taps of
    the kernel where these are more, as in the gradient of a kernel (then the result is a partial sum).

    `rows` are the base, stride and width of the window (see `Window`); a unit of the loop is `unit` rows of the result.
    """

    of_kernel: bool
    rows: tuple[int, int, int]
    unit: int = 1


def spatial_loop(node: Node, number: int) -> SpatialLoop | None:
    """The loop of a spatial dim that may be split; None if none may."""
    attrs, sizes = node.attrs, node.operands[1].type.sizes
    taps, places = sizes[attrs["kernel_spatial"][number]], node.result.type.sizes[attrs["output_spatial"][number]]
    low, stride = attrs["low"][number], attrs["window_strides"][number]
    spread, dilation = attrs["lhs_dilation"][number], attrs["rhs_dilation"][number]
    span = _span(taps, dilation)
    if spread == 1 and taps > places:
        return SpatialLoop(True, (-low, dilation, _span(places, stride)))
    if places % spread:
        return None
    first, last = -(low // spread), (spread * stride - stride - low + span - 1) // spread  # rows under the first unit
    return SpatialLoop(False, (first, stride, last - first + 1), spread) if last >= first else None


@sharding_rule("convolution")
def convolution(node: Node) -> Rule:
    """`b (g i) h, (g o) i kh -> b (g o) h`: the input channels of a group are summed over.

    With groups of the batch (a gradient's form), batch and channels stay whole.
    """
    attrs = node.attrs
    image, kernel = (v.type for v in node.operands)
    result = node.result.type
    left, right, out = [""] * image.rank, [""] * kernel.rank, [""] * result.rank
    sizes, whole = _channels(node, left, right, out)
    rows: dict[tuple[str, int], tuple[int, int, int]] = {}
    reduced = {"i": "sum"} if "i" in sizes else {}
    spatial = zip(attrs["input_spatial"], attrs["kernel_spatial"], attrs["output_spatial"], strict=True)
    for number, (source, window, target) in enumerate(spatial):
        loop = spatial_loop(node, number)
        x, k, r, u = (f"{letter}{number}" for letter in "xkru")
        left[source], right[window], out[target] = (k, k, r) if loop and loop.of_kernel else (x, k, x)
        if loop is None:
            out[target] = r
            whole += [x, k, r]
        elif loop.of_kernel:
            rows[k, 0], reduced[k], sizes[k] = loop.rows, "sum", kernel.sizes[window]
            whole.append(r)
        else:
            rows[x, 0], sizes[x], sizes[u] = loop.rows, result.sizes[target] // loop.unit, loop.unit
            out[target] = f"({x} {u})" if loop.unit > 1 else x
            whole += [k, u] if loop.unit > 1 else [k]
    text = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
    linear = (Linear((0,)), Linear((1,)))
    return rule(text, [image, kernel], [result], reduce=reduced, whole=whole, linear=linear, windows=rows, sizes=sizes)


def _channels(node: Node, left: list[str], right: list[str], out: list[str]) -> tuple[dict[str, int], list[str]]:
    """Write batch and channels of a convolution into the words of its sides; sizes of factors, and those that stay whole."""
    attrs, kernel = node.attrs, node.operands[1].type
    dims = [attrs[name] for name in ("input_batch", "input_feature", "kernel_input_feature", "kernel_output_feature", "output_batch", "output_feature")]  # fmt: skip
    if attrs["batch_group_count"] != 1:
        words = ["b0", "i0", "i1", "o1", "br", "or"]
        left[dims[0]], left[dims[1]], right[dims[2]], right[dims[3]], out[dims[4]], out[dims[5]] = words
        return {}, words
    groups = attrs["feature_group_count"]
    inputs, outputs = kernel.sizes[dims[2]], kernel.sizes[dims[3]]
    sizes = {"g": groups, "i": inputs, "o": outputs // groups}
    if groups > 1:  # a factor of one element would only stand in the way of an uneven split
        sizes = {name: size for name, size in sizes.items() if size != 1}
    else:
        del sizes["g"]
    grouped = {name: " ".join(factor for factor in ("g", name) if factor in sizes) for name in "io"}
    words = {name: f"({word})" if " " in word else word for name, word in grouped.items()}
    left[dims[0]] = out[dims[4]] = "b"
    left[dims[1]], right[dims[2]] = words["i"], "i" if "i" in sizes else "1"
    right[dims[3]] = out[dims[5]] = words["o"]
    return sizes, []
