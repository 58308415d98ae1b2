"""Random programs of all kinds of ops that kernels contain."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import Graph, Value
from tests.codegen.bodies import Body


def all_reduce(b: Body, x: Value) -> Value:
    return b.graph.add("all_reduce", [x], [x.type], {"axes": ("x",), "kind": "sum"}).result


def random_program(seed: int) -> Graph:
    """Return a random mix of all kinds of ops over three compatible shapes."""
    rng = np.random.default_rng(seed)
    b = Body("f32[6,8]", "f32[8]", "f32[8,8]", "f32[6]")
    wide, rows, columns = [b.inputs[0]], [b.inputs[3]], [b.inputs[1]]

    def recent(values: list[Value]) -> Value:
        return values[int(rng.integers(max(0, len(values) - 4), len(values)))]

    for _ in range(int(rng.integers(6, 22))):
        x = recent(wide)
        match int(rng.integers(12)):
            case 0 | 1:
                wide.append(b.op(str(rng.choice(["tanh", "negate", "logistic"])), x))
            case 2 | 3:
                wide.append(b.op(str(rng.choice(["add", "subtract", "maximum"])), x, recent(wide)))
            case 4:
                rows.append(b.reduce(str(rng.choice(["add", "maximum"])), x, 1))
            case 5:
                columns.append(b.op("tanh", b.reduce("add", x, 0)))
            case 6:
                wide.append(b.op("subtract", x, b.wide(recent(rows), x, (0,))))
            case 7:
                wide.append(b.op("add", x, b.wide(recent(columns), x, (1,))))
            case 8:
                wide.append(b.op("tanh", b.dot(x, b.inputs[2], ((1,), (0,)))))
            case 9:
                transposed = b.op("transpose", x, perm=(1, 0))
                wide.append(b.op("transpose", b.op("sine", b.op("reverse", transposed, dims=(0,))), perm=(1, 0)))
            case 10:
                wide.append(all_reduce(b, x))
            case _:
                middle = b.op("slice", x, start=(1, 0), limit=(4, 8), stride=(1, 1))
                wide.append(b.op("concatenate", middle, b.op("cosine", middle), dim=0))
    outputs = [wide[-1], rows[-1], columns[-1], *([recent(wide)] if rng.random() < 0.5 else [])]
    return b.done(*outputs)
