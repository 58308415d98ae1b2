"""A two-layer MLP from Python to a module file: it is traced, sharded over a 2 x 4 mesh, compiled, saved, loaded and
run.

    python examples/mlp.py
"""

import sys

import ml_dtypes
import numpy as np

import meshgen as mg

mesh = mg.make_mesh({"dp": 2, "tp": 4})


def mlp(x, w1, w2):
    h = mg.gelu(x @ w1)
    return mg.annotate(h @ w2, mg.P("dp", None, None))


def main(target: str = "cuda:sm_90") -> None:
    exe = mg.compile(
        mlp,
        mesh,
        args=[mg.spec("bf16[8,64,256]"), mg.spec("bf16[256,1024]"), mg.spec("bf16[1024,256]")],
        in_specs={"x": mg.P("dp"), "w1": mg.P(None, "tp"), "w2": mg.P("tp", None)},
        target=target,
    )
    sys.stdout.write(f"{exe.comms}\n\n{exe.cost}\n")
    exe.save("mlp.mgx")
    rng = np.random.default_rng(0)
    arrays = [
        (rng.standard_normal(shape) * 0.05).astype(ml_dtypes.bfloat16)
        for shape in [(8, 64, 256), (256, 1024), (1024, 256)]
    ]
    y = mg.load("mlp.mgx")(*arrays)
    sys.stdout.write(f"\ny: {y.dtype}{list(y.shape)}, largest {np.max(np.abs(y.astype(np.float32))):.3g}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
