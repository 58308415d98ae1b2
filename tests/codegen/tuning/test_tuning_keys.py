"""Tests of tuning keys, which contain kernel structure and shape class but no names, sizes or constants."""

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


def test_kernel_digest_ignores_names_sizes_and_constants() -> None:
    digest = kernel_digest(layer())
    assert digest == kernel_digest(layer(rows=3000, name="other", scale=0.25))
    assert len({digest, kernel_digest(layer(op="exponential")), kernel_digest(layer(dtype="f16"))}) == 3


def test_kernel_digest_contains_dim_numbers() -> None:
    def product(left: int) -> Graph:
        b = Body("bf16[64,64]", "bf16[64,64]")
        return b.done(b.dot(b.inputs[0], b.inputs[1], ((left,), (0,))))

    assert kernel_digest(product(1)) != kernel_digest(product(0))


def test_shape_class_rounds_large_sizes_only() -> None:
    assert shape_class(layer(4000)) == shape_class(layer(4096)) == "bf16[4096,64], bf16[64,256] -> bf16[4096,256]"
    assert shape_class(layer(4001)) == "bf16[~4096,64], bf16[64,256] -> bf16[~4096,256]"
    assert shape_class(layer(4112)).startswith("bf16[8192,64]")
    assert shape_class(layer(7)).startswith("bf16[7,64]")
