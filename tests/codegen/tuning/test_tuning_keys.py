"""Tiles are kept for kernels of the same structure and class of shapes, whatever their names, sizes and constants."""

from __future__ import annotations

from meshgen.codegen.tuning.keys import kernel_digest, shape_class
from meshgen.ir.graph import Graph
from tests.codegen.bodies import Body


def layer(rows: int = 4096, op: str = "tanh", name: str = "layer", scale: float = 0.5, dtype: str = "bf16") -> Graph:
    b = Body(f"{dtype}[{rows},64]", f"{dtype}[64,256]", name=name)
    h = b.dot(b.inputs[0], b.inputs[1], ((1,), (0,)))
    for value in b.inputs:
        value.name = f"{name}_{value.name}"
    return b.done(b.op(op, b.op("multiply", h, b.splat(scale, h))))


def test_names_sizes_and_constants_are_not_in_a_digest() -> None:
    own = kernel_digest(layer())
    assert own == kernel_digest(layer(rows=3000, name="other", scale=0.25))
    assert len({own, kernel_digest(layer(op="exponential")), kernel_digest(layer(dtype="f16"))}) == 3


def test_numbers_of_dims_are_in_a_digest() -> None:
    def product(left: int) -> Graph:
        b = Body("bf16[64,64]", "bf16[64,64]")
        return b.done(b.dot(b.inputs[0], b.inputs[1], ((left,), (0,))))

    assert kernel_digest(product(1)) != kernel_digest(product(0))


def test_shapes_are_rounded_and_small_and_uneven_sizes_stay_apart() -> None:
    assert shape_class(layer(4000)) == shape_class(layer(4096)) == "bf16[4096,64], bf16[64,256] -> bf16[4096,256]"
    assert shape_class(layer(4001)) == "bf16[~4096,64], bf16[64,256] -> bf16[~4096,256]"
    assert shape_class(layer(4112)).startswith("bf16[8192,64]")
    assert shape_class(layer(7)).startswith("bf16[7,64]")
