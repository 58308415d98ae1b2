"""Lower shard_map without Shardy, execute it on eight CPU devices, and write texts and arrays.

    python tests/frontend/shard_map_without_shardy.py OUT.npz

The argument of all cases is `given`. Each case has `text` (StableHLO with GSPMD's conversions) and the results
`expected/0`, `expected/1`, ... The results are those of the same program with Shardy, because GSPMD aborts on some
partly manual programs. This is a separate process because the number of devices is fixed when JAX starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

ARGUMENT = np.random.default_rng(0).uniform(-1, 1, (8, 8)).astype(np.float32)
# meshes of the cases whose mesh is not 2 x 4
OTHER_MESHES = {"auto of three": (2, 2, 2), "auto size one": (1, 4), "auto with one": (2, 1)}
RING = [(number, (number + 1) % 4) for number in range(4)]


def mesh_of(sizes: tuple[int, ...], names: str = "xyz") -> Any:
    import jax

    return jax.make_mesh(sizes, tuple(names[: len(sizes)]), axis_types=(jax.sharding.AxisType.Auto,) * len(sizes))


def mapped(body: Callable[..., Any], ins: Any, outs: Any, sizes: tuple[int, ...] = (2, 4), **options: Any) -> Any:
    import jax

    return jax.shard_map(body, mesh=mesh_of(sizes), in_specs=ins, out_specs=outs, check_vma=False, **options)


def whole_bodies() -> dict[str, Any]:
    """Return programs with a body that is manual over all mesh axes."""
    import jax
    from jax import lax
    from jax.sharding import PartitionSpec as P

    jnp, xy = jax.numpy, P("x", "y")

    def ring(a: Any, b: Any) -> Any:
        """Multiply the rows that circulate around the ring by this device's columns."""

        def step(carry: Any, iteration: Any) -> Any:
            product, rows = carry
            source = (lax.axis_index("y") - iteration) % 4
            product = lax.dynamic_update_slice_in_dim(product, rows @ b, source * 2, 0)
            return (product, lax.ppermute(rows, "y", RING)), None

        return lax.scan(step, (jnp.zeros((8, 2), a.dtype), a), jnp.arange(4))[0][0]

    def in_loop(a: Any) -> Any:
        body = mapped(lambda b: lax.ppermute(jnp.sin(b), "y", RING), xy, xy)
        return lax.scan(lambda carry, _: (body(carry) + 1, carry.sum()), a, None, length=3)

    def in_while(a: Any) -> Any:
        body = mapped(lambda b: b + lax.pmax(b, ("x", "y")), xy, xy)
        return lax.while_loop(lambda carry: carry[0] < 3, lambda carry: (carry[0] + 1, body(carry[1])), (0, a))

    def two(a: Any) -> Any:
        first = mapped(lambda b: (lax.ppermute(b, "y", RING), lax.psum(b, "x")), xy, (xy, P(None, "y")))(a)
        return mapped(
            lambda b, c: lax.all_gather(b @ b.T, "y", axis=1, tiled=True) + lax.psum(c.sum(), "y"),
            (xy, P(None, "y")),
            P("x"),
        )(*first)

    def loss(a: Any) -> Any:
        body = mapped(lambda b, scale: lax.psum((jnp.sin(b) * scale) ** 2, "y"), (xy, P()), P("x"))
        return body(a, jnp.float32(3)).sum() + (a**2).sum()

    captured = np.arange(8, dtype=np.float32)
    return {
        "psum": mapped(lambda a: lax.psum(a, "y"), xy, P("x")),
        "all_gather": mapped(lambda a: lax.all_gather(a, "x", axis=0, tiled=True) * 2, xy, P(None, "y")),
        "ring": lambda a: mapped(ring, (P("y"), P(None, "y")), P(None, "y"))(a, a),
        "psum_scatter": mapped(lambda a: lax.psum_scatter(a, "y", scatter_dimension=1, tiled=True), P("x"), xy),
        "all_to_all": mapped(lambda a: lax.all_to_all(a, "y", 0, 1, tiled=True), P(None, ("x", "y")), P("y", "x"), (4, 2)),
        "axis_index": mapped(lambda a: a + lax.axis_index("y") * 10 + lax.axis_index("x"), xy, xy),
        "index alone": lambda a: a + mapped(lambda: lax.axis_index(("x", "y"))[None], (), P(("x", "y")))(),
        "scan inside": mapped(lambda a: lax.scan(lambda c, row: (c + lax.psum(row, "y"), c), a[0], a), xy, (P(("x", "y")), xy)),
        "in scan": in_loop,
        "in while": in_while,
        "captured": mapped(lambda a: a * captured + lax.psum(captured, "x").sum(), P(("y", "x")), P(("y", "x"))),
        "gradient": jax.value_and_grad(loss),
        "remat": jax.grad(lambda a: jax.checkpoint(loss)(a)),
        "two": two,
        "branch": lambda a: lax.cond(a.sum() > 0, mapped(jnp.abs, xy, xy), mapped(lambda b: lax.pmean(b, "x"), xy, xy), a),
        "transposed": mapped(lambda a: a - lax.psum(a, "x"), P("y", "x"), P("y", "x")),
        "size one": mapped(lambda a: lax.psum(a, "x") + lax.axis_index("y"), P("x", "y"), P(None, "y"), (1, 8)),
        "one axis": mapped(lambda a: lax.ppermute(a, "x", [(0, 3), (3, 0)]), P(None, "x"), P(None, "x"), (8,)),
        "vmap": jax.vmap(mapped(lambda a: lax.psum(a, "x"), P("x"), P(), (8,))),
        "jit inside": mapped(lambda a: jax.jit(lambda b: lax.psum(b, "y") * 2)(a), xy, P("x")),
        "same": mapped(lambda a: a, P("x"), P("x")),
    }  # fmt: skip


def partial_bodies() -> dict[str, Any]:
    """Return programs with a body that is manual over some mesh axes. Some are nested, some have constraints over the
    other axes.
    """
    import jax
    from jax import lax
    from jax.sharding import PartitionSpec as P

    jnp, put = jax.numpy, lax.with_sharding_constraint

    def mixed(body: Callable[..., Any], outs: Any, sizes: tuple[int, ...] = (2, 4), axes: str = "x") -> Any:
        return mapped(body, P("x"), outs, sizes, axis_names=set(axes))

    def nested(a: Any) -> Any:
        inner = jax.shard_map(lambda b: lax.psum(b, "y") * lax.axis_index("y"), in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}, check_vma=False)  # fmt: skip
        return jnp.cos(inner(jnp.sin(a)))

    def loop(a: Any) -> Any:
        return lax.scan(lambda c, _: (jnp.sin(put(c, P(None, "y"))) + lax.psum(c, "x"), None), a, None, length=3)[0]

    return {
        "auto": mixed(lambda a: lax.psum(jnp.sin(put(a, P(None, "y"))), "x"), P()),
        "auto index": mixed(lambda a: jnp.tanh(a) + lax.axis_index("x"), P("x")),
        "auto matmul": mixed(lambda a: put(a, P(None, "y")) @ lax.all_gather(a, "x", axis=0, tiled=True), P("x")),
        "auto loop": mixed(loop, P("x")),
        "auto gradient": jax.grad(lambda a: mixed(lambda b: lax.psum(jnp.sin(put(b, P("y"))), "x"), P())(a).sum()),
        "auto in scan": lambda a: lax.scan(lambda c, _: (mixed(lambda b: jnp.sin(b) + lax.psum(b, "x"), P("x"))(c), None), a, None, length=2)[0],
        "auto of three": mixed(lambda a: put(lax.psum(a, ("x", "z")), P("y")), P("x"), (2, 2, 2), "xz"),
        "auto size one": mixed(lambda a: jnp.sin(put(a, P(None, "y"))), P("x"), (1, 4)),
        "auto with one": mixed(lambda a: jnp.sin(a) + lax.axis_index("x"), P("x"), (2, 1)),
        "nested": mixed(nested, P("x")),
    }  # fmt: skip


def main(path: str) -> None:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    arrays: dict[str, Any] = {"given": ARGUMENT}
    for name, function in (whole_bodies() | partial_bodies()).items():
        with jax.set_mesh(mesh_of(OTHER_MESHES.get(name, (2, 4)))) if name in partial_bodies() else nullcontext():
            jax.config.update("jax_use_shardy_partitioner", True)
            results = jax.tree_util.tree_leaves(jax.jit(function)(ARGUMENT))
            jax.config.update("jax_use_shardy_partitioner", False)
            arrays[f"{name}/text"] = jax.jit(function).lower(ARGUMENT).as_text()
        arrays |= {f"{name}/expected/{index}": np.asarray(result) for index, result in enumerate(results)}
        arrays[f"{name}/count"] = len(results)
    np.savez(path, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
