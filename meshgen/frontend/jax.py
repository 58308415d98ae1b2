"""JAX programs: the result of `jax.jit(f).lower(...)`, `.trace(...)` or `jax.export`, read as StableHLO text; `jax.jit(f)` with args.

Operations are where the user wrote them, and inputs have JAX's names of the arguments (`params['w1']`), shown as
`params.w1`: both come with the text as locations. JAX is imported only where one of its programs is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from meshgen.calls.signature import Signature, signature_of
from meshgen.errors import Diagnostic, MeshgenError, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.mlir import read_generated
from meshgen.ir.graph import Module, TensorType
from meshgen.sizes.program import input_names


def is_jax(program: Any) -> bool:
    """Whether this is a function of `jax.jit`, a `jax.stages.Lowered`, `Traced` or `Compiled`, or a `jax.export.Exported`, by its methods."""
    return (
        (hasattr(program, "as_text") and (hasattr(program, "compiler_ir") or hasattr(program, "runtime_executable")))
        or hasattr(program, "mlir_module")
        or (hasattr(program, "lower") and (hasattr(program, "jaxpr") or hasattr(program, "trace")))
    )


def from_jax(program: Any, args: Args) -> tuple[Module, Signature | None]:
    """The module of a JAX function, with shardings as `sdy` attributes, and what its callers pass.

    `args` are those of a function of `jax.jit`: arrays, or types. Raises ProgramError for what the StableHLO reader refuses,
    UsageError MG0001 for a function without args, and for what `lower` refuses, and a program that JAX has compiled.
    """
    from meshgen.frontend.jax_signature import jax_signature

    if hasattr(program, "runtime_executable"):
        hint = "pass what .lower(...) returned, before .compile()"
        raise UsageError(Diagnostic("MG0001", "a program that JAX has compiled is machine code", hint=hint))
    is_function = hasattr(program, "trace") and not hasattr(program, "jaxpr")
    if is_function:
        program = _lowered(program, args)
    elif hasattr(program, "jaxpr"):
        program = lowered_for_any_mesh(program)
    is_exported = hasattr(program, "mlir_module")
    module = read_generated(program.mlir_module() if is_exported else program.as_text(debug_info=True))
    signature = jax_signature(module, program)
    return module, replace(
        signature or signature_of(input_names(module.graph)), is_typed=True
    ) if is_function else signature


def _lowered(function: Any, args: Args) -> Any:
    """A function of `jax.jit`, lowered for arguments of these types. Those given by name go by position where they can."""
    if args is None:
        hint = "give args=(params, x), arrays or types, or pass jax.jit(f).lower(params, x)"
        raise UsageError(Diagnostic("MG0001", "a function of jax.jit needs its arguments, or their types", hint=hint))
    by_name = isinstance(args, Mapping)
    try:
        if by_name:
            bound = inspect.signature(function).bind(**args)
            kwargs = {name: _type(each) for name, each in bound.kwargs.items()}
            return lowered_for_any_mesh(function.trace(*map(_type, bound.args), **kwargs))
        return lowered_for_any_mesh(function.trace(*map(_type, args)))
    except MeshgenError:
        raise
    except Exception as error:  # whatever tracing the function raises
        text = " ".join(str(error).split())
        message = f"JAX cannot lower the function for these args: {text[:300]}"
        hint = "args are those of a call: in order, or a dict by name"
        raise UsageError(Diagnostic("MG0001", message, hint=hint)) from error


def lowered_for_any_mesh(traced: Any) -> Any:
    """Lowered for a named platform, which JAX asks for where the only mesh is an `AbstractMesh`; the host's has no calls of a GPU's libraries."""
    return traced.lower(lowering_platforms=("cpu",))


def _type(given: Any) -> Any:
    """An argument with `f32[8,16]` and `mg.spec` as JAX's types; other leaves as they are."""
    import jax

    def leaf(each: Any) -> Any:
        kind = _spec_of(each) if isinstance(each, (str, TensorType)) else None
        return each if kind is None else jax.ShapeDtypeStruct(kind.sizes, kind.numpy_dtype)

    return jax.tree_util.tree_map(leaf, given)


def _spec_of(given: str | TensorType) -> TensorType | None:
    """The type that a text names; None for other texts, which may be static arguments."""
    from meshgen.frontend.tracer import spec

    try:
        return spec(given)
    except MeshgenError:
        return None
