"""Gradients of layer norms and RMS norms, written op by op."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Graph, Value
from tests.codegen.bodies import Body


class Norm(Body):
    """A builder of the gradient of a norm.

    Its inputs are `x`, the weights, the result's gradient and the residual's gradient.
    """

    def __init__(self, sizes: Sequence[int], dtype: str) -> None:
        full = f"[{','.join(map(str, sizes))}]"
        super().__init__(f"{dtype}{full}", f"{dtype}[{sizes[-1]}]", f"{dtype}{full}", f"{dtype}{full}")
        self.full, self.last, self.outer, self.dtype = full, len(sizes) - 1, tuple(range(len(sizes) - 1)), dtype

    def wider(self, x: Value) -> Value:
        return x if x.type.dtype == "f32" else self.op("convert", x, to=f"f32{self.full}")

    def narrower(self, x: Value) -> Value:
        return x if self.dtype == "f32" else self.op("convert", x, to=f"{self.dtype}{self.full}")

    def mean(self, x: Value) -> Value:
        """Return the mean of each row, broadcast to the shape of `x`."""
        total = self.wide(self.reduce("add", x, self.last), x, self.outer)
        return self.op("divide", total, self.splat(float(x.type.sizes[-1]), x))

    def gradients(self, is_centered: bool) -> Graph:
        """Return the gradients of the input (plus the residual's), of the weights, and of the bias for a layer norm."""
        x, weights, dy, residual = self.inputs
        xf, dyf = self.wider(x), self.wider(dy)
        centered = self.op("subtract", xf, self.mean(xf)) if is_centered else xf
        square = self.mean(self.op("multiply", centered, centered))
        scale = self.op("rsqrt", self.op("add", square, self.splat(1e-5, square)))
        normal = self.op("multiply", centered, scale)
        inner = self.op("multiply", dyf, self.wide(self.wider_weights(weights), dyf, (self.last,)))
        projection = self.op("multiply", normal, self.mean(self.op("multiply", inner, normal)))
        input_gradient = self.op(
            "subtract", inner, self.op("add", projection, self.mean(inner)) if is_centered else projection
        )
        dx = self.op("add", self.narrower(self.op("multiply", scale, input_gradient)), residual)
        weight_gradients = [self.reduce("add", self.op("multiply", dy, self.narrower(normal)), *self.outer)]
        weight_gradients += [self.reduce("add", dy, *self.outer)] if is_centered else []
        return self.done(dx, *weight_gradients)

    def wider_weights(self, x: Value) -> Value:
        return x if x.type.dtype == "f32" else self.op("convert", x, to=f"f32[{x.type.size}]")
