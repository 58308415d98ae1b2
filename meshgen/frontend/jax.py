"""Import of JAX programs, which are read as StableHLO text.

A program is what `jax.jit(f).lower(...)`, `.trace(...)` or `jax.export` returns. With args it may also be `jax.jit(f)`,
a framework's function that wraps one (`nnx.jit(f)`, `eqx.filter_jit(f)`), or a plain function of `jax.numpy`. The
locations in the text give each operation its line in the user's code, and each input JAX's name of the argument:
`params['w1']`, shown as `params.w1`. This module imports JAX only when a program needs it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from traceback import walk_tb
from typing import Any, TypeVar

from meshgen.calls.lines import failing_line
from meshgen.calls.signature import Signature, signature_of
from meshgen.errors import Diagnostic, MeshgenError, MissingError, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.jax_wrappers import Wrapper, is_jitted, is_lowered_by_framework, wrapper_of
from meshgen.frontend.mlir import read_generated
from meshgen.ir.graph import Module, TensorType
from meshgen.mesh import is_mesh_of_jax, make_mesh
from meshgen.packages import install
from meshgen.sizes.program import input_names

# The oldest JAX version tested. Older versions print no locations, or shardings in another dialect.
_OLDEST = (0, 7, 2)
_Result = TypeVar("_Result")


def is_jax(program: Any) -> bool:
    """Whether `program` has the methods of a JAX program.

    A JAX program is a function of `jax.jit`, a wrapper of such a function, or a lowered, traced, compiled or exported
    program.
    """
    return (
        (hasattr(program, "as_text") and (hasattr(program, "compiler_ir") or hasattr(program, "runtime_executable")))
        or hasattr(program, "mlir_module")
        or (hasattr(program, "lower") and (hasattr(program, "jaxpr") or hasattr(program, "trace")))
        or wrapper_of(program) is not None
        or is_lowered_by_framework(program)
    )


def from_jax(program: Any, args: Args) -> tuple[Module, Signature | None]:
    """Return the module of a JAX program, with shardings as `sdy` attributes, and the program's call signature.

    Args:
        program: any object for which `is_jax` holds.
        args: example arguments (arrays or types) if `program` is a function.

    Raises:
        ProgramError: the StableHLO reader rejects the program.
        UsageError: MG0001, a function has no args, JAX cannot lower it, or JAX has already compiled the program.
        MissingError: MG0602, JAX is too old.
    """
    _require_version()
    if is_lowered_by_framework(program):
        hint = "pass the function itself, with args: mg.compile(nnx.jit(f), mesh, args=(model, x))"
        text = f"a {type(program).__name__} of {type(program).__module__} does not say how its modules are passed"
        raise UsageError(Diagnostic("MG0001", text, hint=hint))
    if (wrapper := wrapper_of(program)) is not None:
        return _from_wrapper(wrapper, args)
    if hasattr(program, "runtime_executable"):
        hint = "pass what .lower(...) returned, before .compile()"
        raise UsageError(Diagnostic("MG0001", "a program that JAX has compiled is machine code", hint=hint))
    is_function = is_jitted(program) and not hasattr(program, "jaxpr")
    traced = _traced(program, args) if is_function else program if hasattr(program, "jaxpr") else None
    if traced is not None:
        program = _or_refused(lambda: lower_for_cpu(traced))
    module, signature = _read(program, traced)
    return module, replace(
        signature or signature_of(input_names(module.graph)), is_typed=True
    ) if is_function else signature


def from_function(function: Callable[..., Any], args: Args, error: MeshgenError) -> tuple[Module, Signature | None]:
    """Import a function as `jax.jit(function)` after meshgen's own tracer failed with `error`.

    Raises:
        MeshgenError: `error` itself if neither the function nor its arguments involve JAX; otherwise the errors of
            `from_jax`.
    """
    if any(fault.code == "MG0006" for fault in error.diagnostics):
        raise error  # The structure contains itself, so JAX would flatten it forever.
    is_of_jax = _is_of_jax(function) or _is_raised_in_jax(error)
    if not is_of_jax and not _has_jax_values(args) and not _names_jax(function):
        raise error
    try:
        return from_jax(_jitted(function), args)
    except MeshgenError as fault:
        if is_of_jax:
            raise
        raise error from fault


def _jitted(function: Callable[..., Any]) -> Any:
    """Return `jax.jit(function)`. Arrays that `functools.partial` binds remain arguments instead of becoming constants."""
    import jax

    if isinstance(function, partial):
        bound = jax.tree_util.tree_leaves((function.args, function.keywords))
        if all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in bound):
            return partial(jax.jit(function.func), *function.args, **function.keywords)
    return jax.jit(function)


def _is_of_jax(function: Any) -> bool:
    """Whether JAX created the function, as `jax.grad(f)` and `jax.vmap(f)` do."""
    return _is_jax_module_name(getattr(function, "__globals__", {}).get("__name__", ""))


def _names_jax(function: Callable[..., Any]) -> bool:
    """Whether a function refers to modules, functions or arrays of JAX."""
    try:
        named = inspect.getclosurevars(inspect.unwrap(function))
    # TypeError for a callable object, ValueError for a captured variable that is not assigned yet.
    except (TypeError, ValueError):
        return False
    values = [*named.globals.values(), *named.nonlocals.values()]
    module_names = [
        value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None) for value in values
    ]
    return any(
        _is_jax_module_name(module_name or type(value).__module__)
        for module_name, value in zip(module_names, values, strict=True)
    )


def _is_raised_in_jax(error: BaseException | None) -> bool:
    """Whether `error`, or an exception that caused `error`, passed through code of JAX.

    JAX may remove JAX's own frames from the traceback; it then leaves a note on the exception.
    """
    while error is not None:
        frames = (frame for frame, _ in walk_tb(error.__traceback__))
        if any(_is_jax_module_name(frame.f_globals.get("__name__", "")) for frame in frames):
            return True
        if any("JAX" in note for note in getattr(error, "__notes__", ())):
            return True
        error = error.__cause__
    return False


def _is_jax_module_name(name: str) -> bool:
    return name.partition(".")[0] in ("jax", "jaxlib")


def _has_jax_values(args: Args) -> bool:
    """Whether `args` contain arrays or types of JAX, also in structures that only JAX can flatten."""
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    try:
        leaves = jax.tree_util.tree_leaves(args)
    except (TypeError, ValueError):  # JAX cannot flatten dicts whose keys cannot be sorted.
        return False
    return any(isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)) for leaf in leaves)


def _require_version() -> None:
    """Raise MissingError MG0602 if JAX is older than `_OLDEST`."""
    import jax

    if jax.__version_info__ < _OLDEST:
        text = f"JAX {jax.__version__} is too old: its programs are read from {'.'.join(map(str, _OLDEST))} on"
        raise MissingError(Diagnostic("MG0602", text, hint=install("jax")))


def _read(program: Any, traced: Any) -> tuple[Module, Signature | None]:
    """Return the module of a lowered or exported program, and the program's call signature."""
    from meshgen.frontend.jax_signature import jax_signature

    is_exported = hasattr(program, "mlir_module")
    module = _module(program.mlir_module() if is_exported else program.as_text(debug_info=True), traced)
    return module, jax_signature(module, program)


def _module(text: str, traced: Any) -> Module:
    """Return the module of StableHLO text. If the text declares no mesh, the module gets the mesh of the trace.

    JAX prints no mesh without Shardy, nor for a `shard_map` whose manual axes have size 1.
    """
    nonempty_meshes = (
        (candidate for candidate in _meshes(traced.jaxpr.jaxpr) if candidate.shape) if traced is not None else iter(())
    )
    jax_mesh = None if "sdy.mesh" in text else next(nonempty_meshes, None)
    if jax_mesh is None:
        return read_generated(text)
    mesh = make_mesh(dict(jax_mesh.shape))
    module = read_generated(text, [mesh])
    has_other_mesh = module.stage != "import" or (module.mesh.axes and module.mesh.size != mesh.size)
    return module if has_other_mesh else replace(module, mesh=mesh)


def _meshes(jaxpr: Any) -> Iterator[Any]:
    """Yield the meshes in the parameters of a jaxpr's equations."""
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            if is_mesh_of_jax(value):
                yield value
            elif hasattr(inner := getattr(value, "jaxpr", value), "eqns"):
                yield from _meshes(inner)


def _from_wrapper(wrapper: Wrapper, args: Args) -> tuple[Module, Signature]:
    """Return the module and the signature of a wrapped function (see `jax_wrappers.py`).

    By that signature, callers pass the arguments of the wrapper, not those of the jitted function, and get the
    wrapper's result.
    """
    from meshgen.frontend.jax_wrapped_calls import placeholders, wrapped_program

    positional, named = placeholders(_call(wrapper.base, args, wrapper), _leaf_type)
    passed = _or_refused(lambda: wrapper.passed(positional, named))
    traced = _or_refused(lambda: wrapper.traced(positional, named))
    lowered = _or_refused(lambda: lower_for_cpu(traced))
    module = _module(lowered.as_text(debug_info=True), traced)
    program = _or_refused(lambda: wrapped_program(module, lowered, wrapper, passed, positional, named))
    return program or (module, replace(signature_of(input_names(module.graph)), is_typed=True))


def _call(function: Any, args: Args, wrapper: Wrapper | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments for a call of `function` with `args`.

    A dict `args` of arguments by name is bound to the function's signature, so that arguments become positional where
    possible.
    """
    if args is None:
        hint = "give args=(params, x), arrays or types, or pass jax.jit(f).lower(params, x)"
        raise UsageError(Diagnostic("MG0001", "a function of jax.jit needs its arguments, or their types", hint=hint))
    if not isinstance(args, Mapping):
        return tuple(args), {}
    if wrapper is not None and (wrapper.args or wrapper.kwargs):
        return (), dict(args)
    bound = _or_refused(lambda: inspect.signature(function).bind(**args))
    return bound.args, bound.kwargs


def _traced(function: Any, args: Args) -> Any:
    """Trace a function of `jax.jit` for arguments with the types of `args`."""
    positional, named = _call(function, args)
    return _or_refused(
        lambda: function.trace(*map(_type, positional), **{name: _type(arg) for name, arg in named.items()})
    )


def _or_refused(call: Callable[[], _Result]) -> _Result:
    """Return the result of `call`. Raises UsageError MG0001 for any error of JAX or of the function that it traces."""
    try:
        return call()
    except MeshgenError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        message = f"JAX cannot lower the function for these args: {text[:300]}"
        hint = "args are those of a call: in order, or a dict by name"
        raise UsageError(Diagnostic("MG0001", message, failing_line(error), hint=hint)) from error


def lower_for_cpu(traced: Any) -> Any:
    """Lower a trace for the CPU platform.

    JAX needs a named platform if the only mesh is an `AbstractMesh`, and CPU programs contain no calls of GPU
    libraries.
    """
    return traced.lower(lowering_platforms=("cpu",))


def _type(arg: Any) -> Any:
    """Convert meshgen's types in an argument (`"f32[8,16]"` or `mg.spec(...)`) to JAX's types.

    Other leaves do not change.
    """
    import jax

    return jax.tree_util.tree_map(_leaf_type, arg)


def _leaf_type(leaf: Any) -> Any:
    import jax

    kind = _spec_of(leaf) if isinstance(leaf, (str, TensorType)) else None
    return leaf if kind is None else jax.ShapeDtypeStruct(kind.sizes, kind.numpy_dtype)


def _spec_of(text_or_type: str | TensorType) -> TensorType | None:
    """Return the tensor type that `text_or_type` names, or None for any other text, which may be a static argument."""
    from meshgen.frontend.tracer import spec

    try:
        return spec(text_or_type)
    except MeshgenError:
        return None
