"""Composite ops, whose attributes refer to dims by factor names, over random dims of a value."""

from __future__ import annotations

from meshgen.ir.graph import TensorType
from meshgen.ops.factors import Names, notation
from meshgen.ops.rules.rule import letters
from meshgen.testing.generators.writer import Writer, has_type


def normalization(writer: Writer) -> None:
    """Append a normalization over some dims, with or without mean, scale and bias, and sometimes its gradient."""
    if value := writer.pick(has_type("f32", "f64", "bf16", "f16", rank=1)):
        names = tuple(letters(value.type.rank))
        rows = names
        while rows == names:
            rows = tuple(f for f in names if writer.chance(0.5))
        affine = tuple(f for f in names if writer.chance(0.5))
        sizes = dict(zip(names, value.type.sizes, strict=True))
        affine_operands = [affine] * writer.integer(0, 3)
        operands = [writer.new_input(value.type.with_shape(sizes[f] for f in words)) for words in affine_operands]
        centered = writer.chance(0.7)
        statistics = [rows] * (1 + centered)
        attrs = {"factors": notation([names, *affine_operands], [names, *statistics]), "centered": centered}
        result = writer.add("normalize", [value, *operands], None, {**attrs, "epsilon": 1.0}, rounds=True)
        if writer.chance(0.5):
            statistics_type = TensorType(tuple(sizes[f] for f in rows), "f64" if value.type.dtype == "f64" else "f32")
            saved_statistics = [writer.new_input(statistics_type) for _ in statistics]
            attrs["factors"] = notation([names, names, *statistics, *affine_operands[:1]], [names])
            writer.add(
                "normalize_gradient", [result, value, *saved_statistics, *operands[:1]], None, attrs, rounds=True
            )


def scaled_product(writer: Writer) -> None:
    """Append a `scaled_dot` with a quantized operand, which may be packed, and with one scale per group of elements."""
    m, n, g, i = (writer.integer(1, 8) for _ in range(4))
    sizes = {"m": m, "n": n, "g": g, "i": i}
    bits = writer.one_of((0, 0, 1, 2, 4))
    rows, numbers = ("m", "g", "i"), tuple(f for f in ("n", "g", "i") if f != "n" or writer.chance(0.8))
    if bits:
        rows, sizes["p"] = (*rows, "p"), 8 // bits
    scale_factors = [tuple(f for f in numbers if writer.chance(0.6)) for _ in range(writer.integer(1, 3))]
    out = ("m", "n") if "n" in numbers else ("m",)

    def kind(names: Names, dtype: str) -> TensorType:
        return TensorType(tuple(sizes[f] for f in names), dtype)

    x = writer.new_input(kind(rows, writer.one_of(("f32", "bf16", "f64"))))
    quantized = writer.new_input(kind(numbers, "ui8" if bits else writer.one_of(("i8", "i32", "bf16"))))
    scales = [writer.new_input(kind(names, "f32")) for names in scale_factors]
    attrs = {"factors": notation([rows, numbers, *scale_factors], [out]), "bits": bits}
    writer.add("scaled_dot", [x, quantized, *scales], None, attrs, rounds=True)


def cross_entropy(writer: Writer) -> None:
    """Append a softmax cross-entropy along a random dim; some labels are out of range."""
    if value := writer.pick(has_type("f32", "f64", "bf16", rank=1)):
        names = tuple(letters(value.type.rank))
        class_dim = writer.integer(0, len(names))
        rows = names[:class_dim] + names[class_dim + 1 :]
        sizes = [size for d, size in enumerate(value.type.sizes) if d != class_dim]
        labels = writer.new_input(TensorType(tuple(sizes), writer.one_of(("i32", "i64", "ui8"))))
        attrs = {"factors": notation([names, rows], [rows, rows])}
        writer.add("softmax_cross_entropy", [value, labels], None, attrs, rounds=True)


OPS = (normalization, scaled_product, cross_entropy)
