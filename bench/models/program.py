"""A benchmark program for JAX: a function, its mesh, and the types and shardings of its arguments."""

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
SCALAR = 3  # value of integer arguments without dims, such as a position in a cache or a step index


@dataclass(frozen=True)
class Program:
    """A call `function(*args)` on a mesh. `args` are pytrees of `ShapeDtypeStruct`.

    For each argument, `in_specs` has a pytree of PartitionSpec, a single PartitionSpec, or None, which leaves the
    sharding open. `out_specs` has the same form for the result. Random integer arguments (table rows, classes) are less
    than `below`.
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
        """Return no compile options, because JAX's lowering contains the mesh and the shardings."""
        return {}

    def lowered(self, devices: bool = False) -> Any:
        """Return the result of `jax.jit(...).lower(...)`. The mesh has existing devices if `devices`, else it is
        abstract.
        """
        sizes, names = tuple(self.mesh.values()), tuple(self.mesh)
        types = (AxisType.Auto,) * len(sizes)  # constraints need automatic axes; newer JAX defaults to explicit ones
        mesh = jax.make_mesh(sizes, names, types) if devices else AbstractMesh(sizes, names, axis_types=types)
        shardings = {"in_shardings": _placed(mesh, self.in_specs)}
        if self.out_specs is not None:
            shardings["out_shardings"] = _placed(mesh, self.out_specs)
        return (
            jax.jit(self.function, donate_argnums=self.donate, **shardings)
            .trace(*self.args)
            .lower(lowering_platforms=("cpu",))
        )

    def values(self, seed: int = 0) -> tuple[Any, ...]:
        """Return random arguments. Values that optimizers and norms divide by (`nu`, `var`) are positive."""
        rng = np.random.default_rng(seed)

        def value(path: Any, leaf_type: Any) -> Any:
            name = dotted(path)
            if jax.dtypes.issubdtype(leaf_type.dtype, jax.dtypes.prng_key):
                return jax.random.key(seed)
            if leaf_type.dtype == bool:
                return np.ones(leaf_type.shape, bool)
            if np.issubdtype(leaf_type.dtype, np.integer):
                numbers = rng.integers(0, self.below, leaf_type.shape) if leaf_type.shape else SCALAR
                return np.asarray(numbers, leaf_type.dtype)
            numbers = rng.standard_normal(leaf_type.shape)
            positive = any(word in ("nu", "var", "v_row", "v_col") for word in name.split("."))
            return np.asarray(np.abs(numbers) + 0.1 if positive else 0.2 * numbers).astype(leaf_type.dtype)

        return tree_util.tree_map_with_path(value, self.args)


def _placed(mesh: Mesh | AbstractMesh, specs: Any) -> Any:
    return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=lambda leaf: isinstance(leaf, P))


def dotted(path: Any) -> str:
    """Return the name of a leaf, such as `params.h.0.attn.kernel`."""
    return tree_util.keystr(path, simple=True, separator=".")


def by_name(rules: Rules) -> Callable[[Any], Any]:
    """Return a function that maps a tree of types to specs.

    A leaf has the spec of the first pattern in `rules` that matches its name (`*.c_attn.kernel`), else P(). The names
    in an optimizer's state end in parameter names, so the state is split like the parameters.
    """

    def spec(path: Any, leaf_type: Any) -> P:
        name = dotted(path)
        return next(
            (
                rule_spec
                for pattern, rule_spec in rules.items()
                if fnmatch(name, pattern) and len(rule_spec) <= len(leaf_type.shape)
            ),
            P(),
        )

    return lambda tree: tree_util.tree_map_with_path(spec, tree)


def by_size(axis: str, devices: int, least: int = 1024) -> Callable[[Any], Any]:
    """Return a function that maps a tree of types to fully sharded specs. Tensors with at least `least` elements are
    split along their largest dim that `devices` divides.
    """

    def spec(leaf_type: Any) -> P:
        even = [dim for dim, size in enumerate(leaf_type.shape) if size % devices == 0]
        if not even or np.prod(leaf_type.shape) < least:
            return P()
        dim = max(even, key=lambda dim_index: leaf_type.shape[dim_index])
        return P(*[None] * dim, axis)

    return lambda tree: jax.tree.map(spec, tree)


def whole(tree: Any) -> Any:
    """Return replicated specs for all leaves of `tree`, as for the parameters in data parallelism."""
    return jax.tree.map(lambda _: P(), tree)


def array(*shape: int, dtype: Any = "float32") -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def tokens(rows: int, length: int) -> jax.ShapeDtypeStruct:
    return array(rows, length, dtype="int32")
