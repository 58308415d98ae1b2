"""Rules of convolutions and windowed reductions: batch and channels are tied, spatial tiles need a halo."""

from __future__ import annotations

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
    names, moving = letters(node.result.type.rank), _windowed(node)
    operand = " ".join(names) or "()"
    source = " ".join(f"{n}_s" if d in moving else n for d, n in enumerate(names)) or "()"
    whole = [names[d] for d in moving] + [f"{names[d]}_s" for d in moving]
    return rule(
        f"{operand}, {source}, () -> {operand}", [v.type for v in node.operands], [node.result.type], whole=whole
    )


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


@sharding_rule("convolution")
def convolution(node: Node) -> Rule:
    """`b i h, o i kh -> b o oh`: the input channels are summed over; with groups, channels stay whole."""
    attrs = node.attrs
    image, kernel = (v.type for v in node.operands)
    result = node.result.type
    left, right, out = [""] * image.rank, [""] * kernel.rank, [""] * result.rank
    whole: list[str] = []
    grouped = attrs["feature_group_count"] != 1 or attrs["batch_group_count"] != 1
    left[attrs["input_batch"]], out[attrs["output_batch"]] = (
        ("b0", "br") if attrs["batch_group_count"] != 1 else ("b", "b")
    )
    left[attrs["input_feature"]], right[attrs["kernel_input_feature"]] = ("i0", "i1") if grouped else ("i", "i")
    right[attrs["kernel_output_feature"]], out[attrs["output_feature"]] = ("o1", "or") if grouped else ("o", "o")
    rows: dict[tuple[str, int], tuple[int, int, int]] = {}
    spatial = zip(attrs["input_spatial"], attrs["kernel_spatial"], attrs["output_spatial"], strict=True)
    for number, (source, window, target) in enumerate(spatial):
        stuck = attrs["lhs_dilation"][number] != 1
        left[source], right[window] = f"x{number}", f"k{number}"
        out[target] = f"r{number}" if stuck else f"x{number}"
        whole += [f"x{number}", f"k{number}", f"r{number}"] if stuck else [f"k{number}"]
        if not stuck:
            span = _span(kernel.sizes[window], attrs["rhs_dilation"][number])
            rows[f"x{number}", 0] = (-attrs["low"][number], attrs["window_strides"][number], span)
    whole += [n for n in ("b0", "br", "i0", "i1", "o1", "or") if n in (*left, *right, *out)]
    text = f"{' '.join(left)}, {' '.join(right)} -> {' '.join(out)}"
    reduced = {} if grouped else {"i": "sum"}
    linear = (Linear((0,)), Linear((1,)))
    return rule(text, [image, kernel], [result], reduce=reduced, whole=whole, linear=linear, windows=rows)
