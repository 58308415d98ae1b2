"""JAX functions as operations of traced programs: `mg.from_jax(jax.grad(loss))(params, x)`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from meshgen.errors import MeshgenError
from meshgen.frontend.jax import lower_for_cpu
from meshgen.frontend.mlir import read_generated
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import current, refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.inline import copy_nodes
from meshgen.packages import install


def from_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a JAX function to an operation on tensors of a traced function.

    The operation takes any structure of tensors, arrays and numbers that JAX can flatten. It lowers `function` for
    their types and adds the lowered operations to the program, located at the lines of the user's code. The results
    have the structure that `function` returns. Apply JAX transformations first: `mg.from_jax(jax.grad(f))`, and
    likewise `jax.vmap`, `jax.checkpoint`, or layers of flax. 64-bit types become 32-bit ones unless `jax_enable_x64` is
    set.

    Raises:
        ProgramError: MG0104 at the caller's line, JAX is missing or cannot lower the function; or an error of the
            StableHLO reader.
    """

    @functools.wraps(function)
    def operation(*args: Any, **kwargs: Any) -> Any:
        try:
            import jax
        except ImportError:
            refuse("mg.from_jax needs JAX, which is not installed", install("jax"))
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        types = [jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, Tensor) else x for x in leaves]
        positional, named = jax.tree_util.tree_unflatten(tree, types)
        try:
            lowered = lower_for_cpu(jax.jit(function, keep_unused=True).trace(*positional, **named))
        except MeshgenError:
            raise
        except Exception as error:  # The user's function can raise anything.
            text = " ".join(str(error).split())[:300]
            refuse(f"JAX cannot lower {getattr(function, '__name__', 'the function')} for these arguments: {text}")
        body = read_generated(lowered.as_text(debug_info=True)).graph
        values = [convert(tensor(x), kind.type.dtype).value for x, kind in zip(leaves, body.inputs, strict=True)]
        results = [Tensor(value) for value in copy_nodes(body, values, current().graph)]
        return jax.tree_util.tree_unflatten(lowered.out_tree, results)

    return operation
