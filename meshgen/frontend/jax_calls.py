"""JAX functions as operations of traced programs: `mg.from_jax(jax.grad(loss))(params, x)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from meshgen.errors import MeshgenError
from meshgen.frontend.jax import lowered_for_any_mesh
from meshgen.frontend.mlir import read_generated
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import current, refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.inline import copy_nodes
from meshgen.packages import install


def from_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """A JAX function as an operation on tensors of a traced function.

    Called on any structure that JAX knows, with tensors, arrays and numbers in it, it lowers `function` for their types and adds its operations, at
    their places in the user's code, to the program; results have the structure that `function` returns. What JAX can do to a function
    is done before: `mg.from_jax(jax.grad(f))`, `jax.vmap`, `jax.checkpoint`, layers of flax. Types of 64 bits become those of 32 unless
    `jax_enable_x64` is set.
    Raises ProgramError MG0104 at the caller's line where JAX is missing or cannot lower the function, and what the reader of StableHLO refuses.
    """

    @functools.wraps(function)
    def operation(*args: Any, **kwargs: Any) -> Any:
        try:
            import jax
        except ImportError:
            refuse("mg.from_jax needs JAX, which is not installed", install("jax"))
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        types = [jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in leaves]
        given, named = jax.tree_util.tree_unflatten(tree, types)
        try:
            lowered = lowered_for_any_mesh(jax.jit(function, keep_unused=True).trace(*given, **named))
        except MeshgenError:
            raise
        except Exception as error:  # whatever tracing the function raises
            text = " ".join(str(error).split())[:300]
            refuse(f"JAX cannot lower {getattr(function, '__name__', 'the function')} for these arguments: {text}")
        body = read_generated(lowered.as_text(debug_info=True)).graph
        values = [convert(tensor(x), kind.type.dtype).value for x, kind in zip(leaves, body.inputs, strict=True)]
        results = [Tensor(value) for value in copy_nodes(body, values, current().graph)]
        return jax.tree_util.tree_unflatten(lowered.out_tree, results)

    return operation
