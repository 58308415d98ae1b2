"""A pipeline over two meshes of different sizes: the first layers run on four devices, the last ones on two.

python examples/pipeline.py
"""

import sys

import numpy as np

import meshgen as mg

MESHES = {"first": {"dp": 2, "tp": 2}, "last": {"tp": 2}}
SPECS = {
    "x": mg.P("dp", mesh="first"),
    "w0": mg.P(None, "tp", mesh="first"),
    "w1": mg.P("tp", mesh="first"),
    "w2": mg.P(None, "tp", mesh="last"),
}


def model(x, w0, w1, w2, w3):
    x = x + mg.gelu(x @ w0) @ w1
    # values from here on are on the other mesh, where propagation chooses the sharding of x
    x = mg.annotate(x, mesh="last")
    return x + mg.gelu(x @ w2) @ w3


def main(target: str = "cpu") -> None:
    shapes = [(16, 32), (32, 128), (128, 32), (32, 128), (128, 32)]
    types = [f"f32[{rows},{columns}]" for rows, columns in shapes]
    exe = mg.compile(model, MESHES, args=types, in_specs=SPECS, target=target)
    for part in exe.parts:
        sys.stdout.write(f"{part.mesh}: {part.comms.counts}\n")
    rng = np.random.default_rng(0)
    y = exe(*(rng.standard_normal(shape, np.float32) / 8 for shape in shapes))
    sys.stdout.write(f"y: {y.shape}, largest {np.abs(y).max():.3g}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
