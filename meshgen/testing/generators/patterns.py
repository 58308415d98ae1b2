"""Sequences of ops as in real models, which passes and kernels recognize as a unit."""

from __future__ import annotations

from meshgen.ir.graph import TensorType, Value
from meshgen.testing.generators.writer import MAX_ELEMENTS, Writer


def _statistic(writer: Writer, value: Value, dim: int, kind: str) -> Value:
    """Return a reduction over one dim, broadcast back to the shape of the value."""
    init = writer.scalar(-100 if kind == "maximum" else 0, value.type.dtype)
    total = writer.add("reduce", [value, init], None, {"dims": (dim,), "kind": kind}, rounds=kind == "add")
    return _broadcast_back(writer, total, value.type, dim)


def _broadcast_back(writer: Writer, value: Value, type_: TensorType, dim: int) -> Value:
    return writer.add("broadcast_in_dim", [value], type_, {"dims": tuple(d for d in range(type_.rank) if d != dim)})


def softmax(writer: Writer) -> None:
    if value := writer.pick(writer.reals(rank=1), empty=True):
        dim = writer.integer(0, value.type.rank)
        shifted = writer.add("subtract", [value, _statistic(writer, value, dim, "maximum")])
        power = writer.add("exponential", [shifted])
        writer.add("divide", [power, _statistic(writer, power, dim, "add")])


def normalize_layer(writer: Writer) -> None:
    """Append a layer normalization.

    The variance is the mean of the squares of the centered values, or of the values themselves.
    """
    if value := writer.pick(writer.reals(rank=1)):
        dim = writer.integer(0, value.type.rank)
        count = writer.add(
            "broadcast_in_dim", [writer.scalar(value.type.sizes[dim], value.type.dtype)], value.type, {"dims": ()}
        )
        mean = writer.add("divide", [_statistic(writer, value, dim, "add"), count])
        centered = writer.add("subtract", [value, mean])
        squared = writer.add("multiply", [centered, centered] if writer.chance(0.5) else [value, value])
        variance = writer.add("divide", [_statistic(writer, squared, dim, "add"), count])
        one = writer.add("broadcast_in_dim", [writer.scalar(1, value.type.dtype)], value.type, {"dims": ()})
        scale = writer.add("rsqrt", [writer.add("add", [writer.add("abs", [variance]), one])])
        writer.add("multiply", [centered, scale])


def attend(writer: Writer) -> None:
    """Append softmax(q k^T) v for batches of rows.

    Keys and values are new inputs or existing values, which may be the queries themselves.
    """
    if value := writer.pick(writer.reals(rank=3, most=3)):
        batch, rows, _ = value.type.sizes
        keys, values = (writer.partner(value) for _ in "kv")
        if batch * rows * rows > MAX_ELEMENTS:
            return
        default = ("DEFAULT", "DEFAULT")
        attrs = {"lhs_batch": (0,), "rhs_batch": (0,), "lhs_contract": (2,), "rhs_contract": (2,), "precision": default}
        scores = writer.add("dot_general", [value, keys], None, attrs, rounds=True)
        shifted = writer.add("subtract", [scores, _statistic(writer, scores, 2, "maximum")])
        power = writer.add("exponential", [shifted])
        weights = writer.add("divide", [power, _statistic(writer, power, 2, "add")])
        value_attrs = {**attrs, "rhs_contract": (1,)}
        writer.add("dot_general", [weights, values], None, value_attrs, rounds=True)


def feed_forward(writer: Writer) -> None:
    """Append two matmuls with a tanh between them and a residual connection."""
    if value := writer.pick(writer.reals(rank=1, most=3)):
        width, hidden = value.type.sizes[-1], writer.integer(1, 14)
        attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (value.type.rank - 1,), "rhs_contract": (0,),
                 "precision": ("DEFAULT", "DEFAULT")}  # fmt: skip
        up, down = (
            writer.new_input(TensorType(shape, value.type.dtype)) for shape in ((width, hidden), (hidden, width))
        )
        activated = writer.add("tanh", [writer.add("dot_general", [value, up], None, attrs, rounds=True)])
        writer.add("add", [writer.add("dot_general", [activated, down], None, attrs, rounds=True), value])


OPS = (softmax, normalize_layer, attend, feed_forward)
