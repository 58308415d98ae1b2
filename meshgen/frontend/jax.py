"""JAX programs: the result of `jax.jit(f).lower(...)`, `.trace(...)` or `jax.export`, read as StableHLO text; with args `jax.jit(f)`,
functions of frameworks that wrap one (`nnx.jit(f)`, `eqx.filter_jit(f)`), and plain functions of `jax.numpy`.

Operations are where the user wrote them, and inputs have JAX's names of the arguments (`params['w1']`), shown as
`params.w1`: both come with the text as locations. JAX is imported only where one of its programs is given.
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
from meshgen.frontend.jax_wrappers import Wrapper, is_jitted, is_lowered_elsewhere, wrapper_of
from meshgen.frontend.mlir import read_generated
from meshgen.ir.graph import Module, TensorType
from meshgen.mesh import is_mesh_of_jax, make_mesh
from meshgen.packages import install
from meshgen.sizes.program import input_names

_OLDEST = (0, 7, 2)  # the oldest JAX that was tried; older ones print no locations, or another dialect of shardings
_Result = TypeVar("_Result")


def is_jax(program: Any) -> bool:
    """Whether this is a program of JAX, by its methods: a function of `jax.jit`, or a wrapper of one; what is lowered, traced, compiled or exported."""
    return (
        (hasattr(program, "as_text") and (hasattr(program, "compiler_ir") or hasattr(program, "runtime_executable")))
        or hasattr(program, "mlir_module")
        or (hasattr(program, "lower") and (hasattr(program, "jaxpr") or hasattr(program, "trace")))
        or wrapper_of(program) is not None
        or is_lowered_elsewhere(program)
    )


def from_jax(program: Any, args: Args) -> tuple[Module, Signature | None]:
    """The module of a JAX function, with shardings as `sdy` attributes, and what its callers pass.

    `args` are those of a function: arrays, or types. Raises ProgramError for what the StableHLO reader refuses,
    UsageError MG0001 for a function without args, for what `lower` refuses, and for a program that JAX has compiled;
    MissingError MG0602 where JAX is too old.
    """
    _require_version()
    if is_lowered_elsewhere(program):
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
        program = _or_refused(lambda: lowered_for_any_mesh(traced))
    module, signature = _read(program, traced)
    return module, replace(
        signature or signature_of(input_names(module.graph)), is_typed=True
    ) if is_function else signature


def from_function(function: Callable[..., Any], args: Args, error: MeshgenError) -> tuple[Module, Signature | None]:
    """A function that has no `jax.jit` around it and cannot be traced by meshgen, as a function of `jax.jit`.

    Raises `error`, that of the tracer, where neither the function nor its arguments have to do with JAX, and what `from_jax`
    raises where they do.
    """
    if any(fault.code == "MG0006" for fault in error.diagnostics):
        raise error  # a structure that contains itself, which JAX would flatten without end
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
    """The function under `jax.jit`; arrays that `functools.partial` binds stay arguments."""
    import jax

    if isinstance(function, partial):
        bound = jax.tree_util.tree_leaves((function.args, function.keywords))
        if all(hasattr(leaf, "shape") and hasattr(leaf, "dtype") for leaf in bound):
            return partial(jax.jit(function.func), *function.args, **function.keywords)
    return jax.jit(function)


def _is_of_jax(function: Any) -> bool:
    """Whether JAX made the function, as `jax.grad(f)` and `jax.vmap(f)`."""
    return _is_jax_s_module(getattr(function, "__globals__", {}).get("__name__", ""))


def _names_jax(function: Callable[..., Any]) -> bool:
    """Whether a function names modules, functions or arrays of JAX."""
    try:
        named = inspect.getclosurevars(inspect.unwrap(function))
    except (TypeError, ValueError):  # an object that is called, or a variable that has no value yet
        return False
    values = [*named.globals.values(), *named.nonlocals.values()]
    places = [each.__name__ if inspect.ismodule(each) else getattr(each, "__module__", None) for each in values]
    return any(_is_jax_s_module(place or type(each).__module__) for place, each in zip(places, values, strict=True))


def _is_raised_in_jax(error: BaseException | None) -> bool:
    """Whether an exception, or one of its causes, passed JAX, which may remove its frames and then leaves a note."""
    while error is not None:
        frames = (frame for frame, _ in walk_tb(error.__traceback__))
        if any(_is_jax_s_module(frame.f_globals.get("__name__", "")) for frame in frames):
            return True
        if any("JAX" in note for note in getattr(error, "__notes__", ())):
            return True
        error = error.__cause__
    return False


def _is_jax_s_module(name: str) -> bool:
    return name.partition(".")[0] in ("jax", "jaxlib")


def _has_jax_values(args: Args) -> bool:
    """Whether arguments are arrays or types of JAX, or structures that only JAX opens."""
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    try:
        leaves = jax.tree_util.tree_leaves(args)
    except (TypeError, ValueError):  # dicts whose keys have no order
        return False
    return any(isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)) for leaf in leaves)


def _require_version() -> None:
    """Raises MissingError MG0602 for a JAX whose programs cannot be read."""
    import jax

    if jax.__version_info__ < _OLDEST:
        text = f"JAX {jax.__version__} is too old: its programs are read from {'.'.join(map(str, _OLDEST))} on"
        raise MissingError(Diagnostic("MG0602", text, hint=install("jax")))


def _read(program: Any, traced: Any) -> tuple[Module, Signature | None]:
    """The module of what is lowered or exported, and its signature."""
    from meshgen.frontend.jax_signature import jax_signature

    is_exported = hasattr(program, "mlir_module")
    module = _module(program.mlir_module() if is_exported else program.as_text(debug_info=True), traced)
    return module, jax_signature(module, program)


def _module(text: str, traced: Any) -> Module:
    """The module of a text. Where that declares no mesh, it is that of the trace.

    JAX writes none without Shardy, and none for a `shard_map` whose manual axes have size 1.
    """
    named = (each for each in _meshes(traced.jaxpr.jaxpr) if each.shape) if traced is not None else iter(())
    found = None if "sdy.mesh" in text else next(named, None)
    if found is None:
        return read_generated(text)
    mesh = make_mesh(dict(found.shape))
    module = read_generated(text, [mesh])
    is_other = module.stage != "import" or (module.mesh.axes and module.mesh.size != mesh.size)
    return module if is_other else replace(module, mesh=mesh)


def _meshes(jaxpr: Any) -> Iterator[Any]:
    """The meshes that the operations of a jaxpr are over."""
    for equation in jaxpr.eqns:
        for value in equation.params.values():
            if is_mesh_of_jax(value):
                yield value
            elif hasattr(inner := getattr(value, "jaxpr", value), "eqns"):
                yield from _meshes(inner)


def _from_wrapper(wrapper: Wrapper, args: Args) -> tuple[Module, Signature]:
    """The module of a wrapped function, whose callers pass and get what the wrapper takes and returns."""
    from meshgen.frontend.jax_wrapped_calls import placeholders, wrapped_program

    given, named = placeholders(_call(wrapper.base, args, wrapper), _leaf_type)
    passed = _or_refused(lambda: wrapper.passed(given, named))
    traced = _or_refused(lambda: wrapper.traced(given, named))
    lowered = _or_refused(lambda: lowered_for_any_mesh(traced))
    module = _module(lowered.as_text(debug_info=True), traced)
    found = _or_refused(lambda: wrapped_program(module, lowered, wrapper, passed, given, named))
    return found or (module, replace(signature_of(input_names(module.graph)), is_typed=True))


def _call(function: Any, args: Args, wrapper: Wrapper | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call. Those given by name go by position where they can."""
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
    """The trace of a function of `jax.jit` for arguments of these types."""
    given, named = _call(function, args)
    return _or_refused(
        lambda: function.trace(*map(_type, given), **{name: _type(each) for name, each in named.items()})
    )


def _or_refused(call: Callable[[], _Result]) -> _Result:
    """What the call returns. Raises UsageError MG0001 for whatever JAX, or the function that it traces, raises."""
    try:
        return call()
    except MeshgenError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        message = f"JAX cannot lower the function for these args: {text[:300]}"
        hint = "args are those of a call: in order, or a dict by name"
        raise UsageError(Diagnostic("MG0001", message, failing_line(error), hint=hint)) from error


def lowered_for_any_mesh(traced: Any) -> Any:
    """Lowered for a named platform, which JAX asks for where the only mesh is an `AbstractMesh`; the host's has no calls of a GPU's libraries."""
    return traced.lower(lowering_platforms=("cpu",))


def _type(given: Any) -> Any:
    """An argument with `f32[8,16]` and `mg.spec` as JAX's types; other leaves as they are."""
    import jax

    return jax.tree_util.tree_map(_leaf_type, given)


def _leaf_type(leaf: Any) -> Any:
    import jax

    kind = _spec_of(leaf) if isinstance(leaf, (str, TensorType)) else None
    return leaf if kind is None else jax.ShapeDtypeStruct(kind.sizes, kind.numpy_dtype)


def _spec_of(given: str | TensorType) -> TensorType | None:
    """The type that a text names; None for other texts, which may be static arguments."""
    from meshgen.frontend.tracer import spec

    try:
        return spec(given)
    except MeshgenError:
        return None
