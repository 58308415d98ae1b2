"""Lower partly manual computations with JAX, execute them on eight CPU devices, and write texts and arrays.

    python tests/frontend/partly_manual_in_jax.py OUT.npz

The file has three entries for each case `NAME MESH`: `text` (StableHLO), `given` (the argument) and `expected` (the
result). This is a separate process because the number of devices is fixed when JAX starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

MESHES = {"2x2x2": ((2, 2, 2), (16, 8)), "1x2x2": ((1, 2, 2), (8, 8)), "2x1x3": ((2, 1, 3), (10, 5))}


def bodies() -> dict[str, Callable[[Any], Any]]:
    """Return functions of one device's tile, which are manual over axis x. The axes y and z are free."""
    import jax
    from jax import lax

    np_jax, spec, put = jax.numpy, jax.sharding.PartitionSpec, jax.lax.with_sharding_constraint

    def loop(a: Any) -> Any:
        def step(carry: Any, _: None) -> tuple[Any, None]:
            return put(np_jax.sin(put(carry, spec("y"))), spec(None, "z")), None

        return lax.scan(step, a, None, length=3)[0]

    def nested(a: Any) -> Any:
        inner = jax.shard_map(lambda b: lax.psum(put(b, spec("z")), "y"), in_specs=spec(None, "y"), out_specs=spec(),
                              axis_names={"y"}, check_vma=False)  # fmt: skip
        return put(inner(a), spec(None, "z"))

    return {
        "another axis": lambda a: np_jax.tanh(put(np_jax.abs(put(a, spec("y"))), spec("z"))),
        "another dim": lambda a: np_jax.tanh(put(np_jax.abs(put(a, spec("y"))), spec(None, "y"))),
        "another order": lambda a: np_jax.tanh(put(np_jax.abs(put(a, spec(("y", "z")))), spec(("z", "y")))),
        "two dims": lambda a: np_jax.tanh(put(np_jax.abs(put(a, spec("y", "z"))), spec("z", "y"))),
        "sums": lambda a: put(lax.psum(put(a, spec(None, ("z", "y"))).sum(1), "x"), spec("z")),
        "neighbors": lambda a: put(put(a, spec("y", "z"))[2:] - put(a, spec("z"))[:-2], spec("z")),
        "index": lambda a: np_jax.sort(put(a, spec(None, "z")), 1) + lax.axis_index("x").astype(a.dtype),
        "gathered": lambda a: lax.all_gather(a, "x", axis=1, tiled=True).sum(1, keepdims=True) + a,
        "around": lambda a: lax.ppermute(a, "x", [(0, 0)]) + 1,
        "loop": loop,
        "nested": nested,
    }


def cases() -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield the name, the lowered program, the argument and JAX's result of each case."""
    import jax
    from jax.sharding import AxisType, PartitionSpec

    for mesh_name, (sizes, shape) in MESHES.items():
        mesh = jax.make_mesh(sizes, ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)
        argument = np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)
        for name, body in bodies().items():
            if name == "sums" and sizes[0] == 1:  # XLA rejects this program after JAX has lowered it
                continue
            out = PartitionSpec() if name == "sums" else PartitionSpec("x")
            with jax.set_mesh(mesh):
                mapped = jax.shard_map(body, mesh=mesh, in_specs=PartitionSpec("x"), out_specs=out, axis_names={"x"}, check_vma=False)  # fmt: skip
                program = jax.jit(mapped, keep_unused=True)
                yield f"{name} {mesh_name}", program.lower(argument), argument, np.asarray(program(argument))


def main(path: str) -> None:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    arrays: dict[str, Any] = {}
    for name, lowered, argument, expected in cases():
        arrays |= {f"{name}/text": lowered.as_text(), f"{name}/given": argument, f"{name}/expected": expected}
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
