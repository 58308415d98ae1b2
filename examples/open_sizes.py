"""A module for several mesh sizes and batch sizes. Some sizes are compiled ahead of time, all others when the module is
loaded with them.

    python examples/open_sizes.py
"""

import sys

import numpy as np

import meshgen as mg

PROGRAM = """
sdy.mesh @mesh = <["dp"=2, "tp"=4]>
func.func @main(%x: tensor<?x64xf32>, %w: tensor<64x32xf32>) -> tensor<?x32xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<?x64xf32>, tensor<64x32xf32>) -> tensor<?x32xf32>
  %y = stablehlo.tanh %h : tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}
"""


def main(target: str = "cpu") -> None:
    sizes = [{"mesh": {"dp": 2}, "args": {"x": (rows, 64)}} for rows in (8, 16)]
    specs = {"x": mg.P("dp"), "w": mg.P(None, "tp")}
    mg.compile(PROGRAM, {"dp": None, "tp": 4}, in_specs=specs, sizes=sizes, target=target).save("open.mgx")
    w = np.ones((64, 32), np.float32) / 64
    for devices, rows in ((2, 8), (2, 16), (3, 10)):
        module = mg.load("open.mgx", mesh={"dp": devices})
        y = module(x=np.ones((rows, 64), np.float32), w=w)
        sys.stdout.write(f"dp={devices}, {rows} rows: {y.shape}, {y[0, 0]:.4f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
