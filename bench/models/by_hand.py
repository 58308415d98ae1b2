"""A program with its activations annotated by hand, as in Megatron: what plans from the weights' shardings alone are measured against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
from jax import tree_util
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from bench.models.program import Program, dotted

TRANSPOSED = "FlaxConv1D"  # GPT-2's layer, whose matrix has its outputs as rows


def by_hand(program: Program) -> Program:
    """The output of every flax module constrained: rows as the batch's, columns as those of the module's matrix or of a vocabulary.

    Raises ValueError if the program has no flax modules.
    """
    from flax import linen

    rows = next(spec[0] for spec in program.in_specs if isinstance(spec, P) and len(spec))
    columns = _column_axes(program.in_specs[0])
    sizes = tuple(program.mesh.values())
    mesh = AbstractMesh(sizes, tuple(program.mesh), axis_types=(AxisType.Auto,) * len(sizes))
    batch = {leaf.shape[0] for leaf in jax.tree.leaves(program.args[-1]) if leaf.shape}
    seen: list[str] = []

    def intercept(call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
        path = ".".join(context.module.path)
        out = call(*args, **kwargs)
        if context.method_name != "__call__":
            return out
        seen.append(path)
        axis = columns.get((path, type(context.module).__name__ == TRANSPOSED))
        return jax.tree.map(lambda each: constrained(each, axis), out)

    def constrained(each: Any, axis: Any) -> Any:
        if not isinstance(each, jax.Array) or each.ndim < 2 or each.shape[0] not in batch:
            return each
        even = axis is not None and axis != rows and each.shape[-1] % program.mesh[axis] == 0
        spec = P(rows, *[None] * (each.ndim - 2), axis if even else None)
        return jax.lax.with_sharding_constraint(each, NamedSharding(mesh, spec))

    def function(*args: Any) -> Any:
        with linen.intercept_methods(intercept):
            found = program.function(*args)
        if not seen:
            raise ValueError("no flax module to annotate")
        return found

    return replace(program, function=function)


def _column_axes(specs: Any) -> Mapping[tuple[str, bool], Any]:
    """For the path of a module and whether its matrix is transposed: the axis that splits its outputs."""
    found: dict[tuple[str, bool], Any] = {}
    for path, spec in tree_util.tree_leaves_with_path(specs, is_leaf=lambda each: isinstance(each, P)):
        module, _, leaf = dotted(path).rpartition(".")
        if leaf == "kernel":
            whole = (*spec, None, None)
            found |= {(module, False): whole[1], (module, True): whole[0]}
    return found
