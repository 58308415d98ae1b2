"""Composites with factors as dims, over any of the dims of a value."""

from __future__ import annotations

from meshgen.ir.graph import TensorType
from meshgen.ops.factors import Names, notation
from meshgen.ops.rules.rule import letters
from meshgen.testing.generators.writer import Writer, has_type


def normalization(writer: Writer) -> None:
    """A normalization over some dims, with or without a mean, a scale and a bias; and the gradient of one."""
    if value := writer.pick(has_type("f32", "f64", "bf16", "f16", rank=1)):
        names = tuple(letters(value.type.rank))
        rows = names
        while rows == names:
            rows = tuple(f for f in names if writer.chance(0.5))
        affine = tuple(f for f in names if writer.chance(0.5))
        sizes = dict(zip(names, value.type.sizes, strict=True))
        beside = [affine] * writer.integer(0, 3)
        operands = [writer.new_input(value.type.with_shape(sizes[f] for f in words)) for words in beside]
        centered = writer.chance(0.7)
        statistics = [rows] * (1 + centered)
        attrs = {"factors": notation([names, *beside], [names, *statistics]), "centered": centered}
        result = writer.add("normalize", [value, *operands], None, {**attrs, "epsilon": 1.0}, rounds=True)
        if writer.chance(0.5):
            kind = TensorType(tuple(sizes[f] for f in rows), "f64" if value.type.dtype == "f64" else "f32")
            given = [writer.new_input(kind) for _ in statistics]
            attrs["factors"] = notation([names, names, *statistics, *beside[:1]], [names])
            writer.add("normalize_gradient", [result, value, *given, *operands[:1]], None, attrs, rounds=True)


def scaled_product(writer: Writer) -> None:
    """A product with scaled numbers, packed or not, of rows with groups."""
    m, n, g, i = (writer.integer(1, 8) for _ in range(4))
    sizes = {"m": m, "n": n, "g": g, "i": i}
    bits = writer.one_of((0, 0, 1, 2, 4))
    rows, numbers = ("m", "g", "i"), tuple(f for f in ("n", "g", "i") if f != "n" or writer.chance(0.8))
    if bits:
        rows, sizes["p"] = (*rows, "p"), 8 // bits
    beside = [tuple(f for f in numbers if writer.chance(0.6)) for _ in range(writer.integer(1, 3))]
    out = ("m", "n") if "n" in numbers else ("m",)

    def kind(names: Names, dtype: str) -> TensorType:
        return TensorType(tuple(sizes[f] for f in names), dtype)

    x = writer.new_input(kind(rows, writer.one_of(("f32", "bf16", "f64"))))
    whole = writer.new_input(kind(numbers, "ui8" if bits else writer.one_of(("i8", "i32", "bf16"))))
    scales = [writer.new_input(kind(names, "f32")) for names in beside]
    attrs = {"factors": notation([rows, numbers, *beside], [out]), "bits": bits}
    writer.add("scaled_dot", [x, whole, *scales], None, attrs, rounds=True)


def cross_entropy(writer: Writer) -> None:
    """The cross-entropy of rows along any dim; some labels are none of the classes."""
    if value := writer.pick(has_type("f32", "f64", "bf16", rank=1)):
        names = tuple(letters(value.type.rank))
        at = writer.integer(0, len(names))
        rows = names[:at] + names[at + 1 :]
        sizes = [size for d, size in enumerate(value.type.sizes) if d != at]
        labels = writer.new_input(TensorType(tuple(sizes), writer.one_of(("i32", "i64", "ui8"))))
        attrs = {"factors": notation([names, rows], [rows, rows])}
        writer.add("softmax_cross_entropy", [value, labels], None, attrs, rounds=True)


OPS = (normalization, scaled_product, cross_entropy)
