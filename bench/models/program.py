"""A program of the zoo: a function, its mesh, the types of its arguments and their shardings, all in the words of JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import jax
import numpy as np
from jax import tree_util
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

Rules = Mapping[str, P]
SCALAR = 3  # integers without dims: a place in a cache, the number of a step


@dataclass(frozen=True)
class Program:
    """`function(*args)` on a mesh.

    `args` are pytrees of `ShapeDtypeStruct`. `in_specs` has for each argument a pytree of PartitionSpec, one for the whole
    argument, or None, which leaves it open; `out_specs` so for the result. Integers in arguments are below `below`: rows of tables, classes.
    """

    function: Callable[..., Any]
    mesh: Mapping[str, int]
    args: tuple[Any, ...]
    in_specs: tuple[Any, ...]
    out_specs: Any = None
    donate: tuple[int, ...] = ()
    below: int = 8

    @property
    def options(self) -> Mapping[str, Any]:
        """What is given beside the program: nothing, its mesh and shardings are in what JAX lowers."""
        return {}

    def lowered(self, devices: bool = False) -> Any:
        """What `jax.jit(...).lower(...)` gives: for devices that are there if `devices`, else for a mesh without any."""
        sizes, names = tuple(self.mesh.values()), tuple(self.mesh)
        types = (AxisType.Auto,) * len(sizes)  # constraints are for these; newer JAX has explicit axes by default
        mesh = jax.make_mesh(sizes, names, types) if devices else AbstractMesh(sizes, names, axis_types=types)
        given = {"in_shardings": _placed(mesh, self.in_specs)}
        if self.out_specs is not None:
            given["out_shardings"] = _placed(mesh, self.out_specs)
        return (
            jax.jit(self.function, donate_argnums=self.donate, **given)
            .trace(*self.args)
            .lower(lowering_platforms=("cpu",))
        )

    def values(self, seed: int = 0) -> tuple[Any, ...]:
        """Random arguments. What optimizers and norms divide by (`nu`, `var`) is positive."""
        rng = np.random.default_rng(seed)

        def value(path: Any, kind: Any) -> Any:
            name = dotted(path)
            if jax.dtypes.issubdtype(kind.dtype, jax.dtypes.prng_key):
                return jax.random.key(seed)
            if kind.dtype == bool:
                return np.ones(kind.shape, bool)
            if np.issubdtype(kind.dtype, np.integer):
                drawn = rng.integers(0, self.below, kind.shape) if kind.shape else SCALAR
                return np.asarray(drawn, kind.dtype)
            drawn = rng.standard_normal(kind.shape)
            positive = any(word in ("nu", "var", "v_row", "v_col") for word in name.split("."))
            return np.asarray(np.abs(drawn) + 0.1 if positive else 0.2 * drawn).astype(kind.dtype)

        return tree_util.tree_map_with_path(value, self.args)


def _placed(mesh: Mesh | AbstractMesh, specs: Any) -> Any:
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda each: isinstance(each, P))


def dotted(path: Any) -> str:
    """The name of a leaf: `params.h.0.attn.kernel`."""
    return tree_util.keystr(path, simple=True, separator=".")


def by_name(rules: Rules) -> Callable[[Any], Any]:
    """From a tree of types the tree of their specs: of the first pattern that a leaf's name matches (`*.c_attn.kernel`), else P().

    The state of an optimizer has its parameters' names at the end of its own, so it is split as they are.
    """

    def spec(path: Any, kind: Any) -> P:
        name = dotted(path)
        return next(
            (each for pattern, each in rules.items() if fnmatch(name, pattern) and len(each) <= len(kind.shape)), P()
        )

    return lambda tree: tree_util.tree_map_with_path(spec, tree)


def by_size(axis: str, devices: int, least: int = 1024) -> Callable[[Any], Any]:
    """Fully sharded: each tensor of at least `least` elements along the largest dim that the devices divide evenly."""

    def spec(kind: Any) -> P:
        even = [dim for dim, size in enumerate(kind.shape) if size % devices == 0]
        if not even or np.prod(kind.shape) < least:
            return P()
        dim = max(even, key=lambda each: kind.shape[each])
        return P(*[None] * dim, axis)

    return lambda tree: jax.tree.map(spec, tree)


def whole(tree: Any) -> Any:
    """Every tensor on every device: data parallel."""
    return jax.tree.map(lambda _: P(), tree)


def array(*shape: int, dtype: Any = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def tokens(rows: int, length: int) -> jax.ShapeDtypeStruct:
    return array(rows, length, dtype="int32")
