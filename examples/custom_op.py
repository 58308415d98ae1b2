"""A custom operation with its own sharding rule, for Python and for MLIR text.

    python examples/custom_op.py

Each letter of the rule names a dim of operands and results. The rows `b` may be split. The columns `d`, over which the
op sums, may be split too; then each device has a partial sum.
"""

import sys

import numpy as np

import meshgen as mg


@mg.op_rule("b d, d f -> b f")
def quantized_matmul(x, w):
    """Multiply x and w in 8 bits, with one scale per row of x and per column of w."""
    rows = mg.max(mg.abs(x), axis=1, keepdims=True) / 127
    columns = mg.max(mg.abs(w), axis=0, keepdims=True) / 127
    product = mg.round(x / rows).astype("int8").astype("int32") @ mg.round(w / columns).astype("int8").astype("int32")
    return product.astype("float32") * rows * columns


def model(x, w):
    return mg.relu(quantized_matmul(x, w, sharding_option=[["dp"], ["tp"], []]))  # the rule's letters b, f and d


def main(target: str = "cpu") -> None:
    exe = mg.compile(model, {"dp": 2, "tp": 4}, args=["f32[16,64]", "f32[64,32]"], target=target)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((16, 64), np.float32), rng.standard_normal((64, 32), np.float32)
    error = np.abs(exe(x, w) - np.maximum(x @ w, 0)).max()
    sys.stdout.write(f"{exe.comms.counts}; largest difference from f32: {error:.3f}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
