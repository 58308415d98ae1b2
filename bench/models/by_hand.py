"""Programs with hand-annotated activations, as in Megatron. They are the baseline for plans that start from the
weights' shardings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
from jax import tree_util
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, dotted

TRANSPOSED = "FlaxConv1D"  # a layer of GPT-2 whose matrix has a row, not a column, for each output


def by_hand(program: Program) -> Program:
    """Return the program with a sharding constraint on the output of every flax module. Rows are split like the batch,
    columns like the matrix of the module. Raises ValueError if the program has no flax modules.
    """
    from flax import linen

    rows = next(spec[0] for spec in program.in_specs if isinstance(spec, P) and len(spec))
    columns = _column_axes(program.in_specs[0])
    sizes = tuple(program.mesh.values())
    mesh = AbstractMesh(sizes, tuple(program.mesh), axis_types=(AxisType.Auto,) * len(sizes))
    batch = {leaf.shape[0] for leaf in jax.tree.leaves(program.args[-1]) if leaf.shape}
    constrained_paths: list[str] = []

    def intercept(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        path = ".".join(context.module.path)
        out = call(*args, **kwargs)
        if context.method_name != "__call__":
            return out
        constrained_paths.append(path)
        axis = columns.get((path, type(context.module).__name__ == TRANSPOSED))
        return jax.tree.map(lambda value: constrained(value, axis), out)

    def constrained(value: Any, axis: Any) -> Any:
        if not isinstance(value, jax.Array) or value.ndim < 2 or value.shape[0] not in batch:
            return value
        even = axis is not None and axis != rows and value.shape[-1] % program.mesh[axis] == 0
        spec = P(rows, *[None] * (value.ndim - 2), axis if even else None)
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))

    def function(*args: Any) -> Any:
        with linen.intercept_methods(intercept):
            result = program.function(*args)
        if not constrained_paths:
            raise ValueError("no flax module to annotate")
        return result

    return replace(program, function=function)


def _column_axes(specs: Any) -> Mapping[tuple[str, bool], Any]:
    """Return the mesh axis that splits a module's output columns, by the path of the module and by whether its matrix
    is transposed.
    """
    axes: dict[tuple[str, bool], Any] = {}
    for path, spec in tree_util.tree_leaves_with_path(specs, is_leaf=lambda leaf_spec: isinstance(leaf_spec, P)):
        module, _, leaf = dotted(path).rpartition(".")
        if leaf == "kernel":
            padded_spec = (*spec, None, None)
            axes |= {(module, False): padded_spec[1], (module, True): padded_spec[0]}
    return axes
