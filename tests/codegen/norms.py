"""Norms backward, written op by op."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Graph, Value
from tests.codegen.bodies import Body


class Norm(Body):
    """A norm backward: of the input `x`, its weights, what comes back, and what comes back around it."""

    def __init__(self, sizes: Sequence[int], dtype: str) -> None:
        full = f"[{','.join(map(str, sizes))}]"
        super().__init__(f"{dtype}{full}", f"{dtype}[{sizes[-1]}]", f"{dtype}{full}", f"{dtype}{full}")
        self.full, self.last, self.outer, self.dtype = full, len(sizes) - 1, tuple(range(len(sizes) - 1)), dtype

    def wider(self, x: Value) -> Value:
        return x if x.type.dtype == "f32" else self.op("convert", x, to=f"f32{self.full}")

    def narrower(self, x: Value) -> Value:
        return x if self.dtype == "f32" else self.op("convert", x, to=f"{self.dtype}{self.full}")

    def mean(self, x: Value) -> Value:
        """Of each row, as wide as it."""
        total = self.wide(self.reduce("add", x, self.last), x, self.outer)
        return self.op("divide", total, self.splat(float(x.type.sizes[-1]), x))

    def gradients(self, is_centred: bool) -> Graph:
        """A layer norm's, or an RMS norm's: of the input with what comes around, of the weights and of the bias."""
        x, weights, dy, around = self.inputs
        xf, dyf = self.wider(x), self.wider(dy)
        centred = self.op("subtract", xf, self.mean(xf)) if is_centred else xf
        square = self.mean(self.op("multiply", centred, centred))
        scale = self.op("rsqrt", self.op("add", square, self.splat(1e-5, square)))
        normal = self.op("multiply", centred, scale)
        inner = self.op("multiply", dyf, self.wide(self.wider_weights(weights), dyf, (self.last,)))
        part = self.op("multiply", normal, self.mean(self.op("multiply", inner, normal)))
        rest = self.op("subtract", inner, self.op("add", part, self.mean(inner)) if is_centred else part)
        dx = self.op("add", self.narrower(self.op("multiply", scale, rest)), around)
        found = [self.reduce("add", self.op("multiply", dy, self.narrower(normal)), *self.outer)]
        found += [self.reduce("add", dy, *self.outer)] if is_centred else []
        return self.done(dx, *found)

    def wider_weights(self, x: Value) -> Value:
        return x if x.type.dtype == "f32" else self.op("convert", x, to=f"f32[{x.type.size}]")
