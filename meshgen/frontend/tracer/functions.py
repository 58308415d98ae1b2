"""Trace a Python function: run it on traced tensors and record a module, at the import stage of the compiler."""

from __future__ import annotations

import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, cast

import numpy as np

from meshgen.calls.argument_tree import Node, Slot, node_of
from meshgen.calls.arrays import is_key
from meshgen.calls.callers import at_callers_line, tell
from meshgen.calls.lines import failing_line
from meshgen.calls.signature import Signature
from meshgen.calls.trees import Path, bracketed, dotted, flatten, unflatten
from meshgen.errors import Diagnostic, Location, MeshgenError, ProgramError, UsageError, is_interrupt
from meshgen.frontend.shardings import SpecLike, axes_by_dim
from meshgen.frontend.tracer.linear import axis_name
from meshgen.frontend.tracer.operands import dtype_of, tensor
from meshgen.frontend.tracer.recording import CURRENT, Trace, current, user_location
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.flatten_manual import settle_manual
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import Sharding, fit


@at_callers_line
def spec(text: Any, shape: Sequence[int] | None = None) -> TensorType:
    """Return a tensor type. `text` is `"bf16[8,512,1024]"`, a dtype (with `shape`), or a value with dtype and shape."""
    if isinstance(text, TensorType):
        return text
    if shape is not None:
        return TensorType(_shape(shape), dtype_of(text))
    if hasattr(text, "shape") and hasattr(text, "dtype"):
        return TensorType(_shape(text.shape), dtype_of(text.dtype))
    match = (
        re.fullmatch(r"\s*(\w+)\s*\[\s*((?:[0-9]{1,18}\s*(?:,\s*[0-9]{1,18}\s*)*)?)\]\s*", text)
        if isinstance(text, str)
        else None
    )
    if not match or match[1] not in DTYPES:
        hint = "write for example bf16[8,512,1024], or f32[] for a 0-d one"
        if "?" in str(text):
            hint = "a Python function needs static sizes: open ones (?) are for MLIR text and JAX's exported functions"
        raise UsageError(Diagnostic("MG0001", f"{text!r} is not a tensor type", hint=hint))
    return TensorType(tuple(int(s) for s in match[2].split(",") if s.strip()), match[1])


def _shape(shape: Any) -> tuple[int | None, ...]:
    """Return a user's shape as a tuple, in which None is an open size. Raises UsageError for any other value."""
    sizes: list[Any] | None = list(cast("list[Any]", shape)) if isinstance(shape, (list, tuple)) else None
    if sizes is None or not all(map(_is_size, sizes)):
        raise UsageError(Diagnostic("MG0001", f"{shape!r:.60} is not a shape", hint="sizes are non-negative integers"))
    return tuple(None if size is None else int(size) for size in sizes)


def _is_size(size: Any) -> bool:
    return size is None or (isinstance(size, Integral) and size is not True and size is not False and int(size) >= 0)


def annotate(
    x: Tensor, sharding: SpecLike | None = None, required: bool = True, as_result: bool = True, *, mesh: str | Mesh = ""
) -> Tensor:
    """Annotate a tensor with a sharding or, in a program on several meshes, with a mesh. Returns the annotated tensor.

    Args:
        sharding: `mg.P("dp", None)`, its text `"dp,_"`, or axis numbers `[[0], []]`; None leaves the sharding open.
            Trailing dims may be omitted.
        mesh: the mesh on which the tensor is from here on, as in `mg.P(..., mesh=...)`.
        required: whether the sharding is a constraint, which the compiler keeps exactly or rejects with an error. False
            makes it a hint.
        as_result: whether the producer of the tensor delivers this sharding. False applies the sharding only to the
            users of the result.
    """
    x = tensor(x)
    annotation = to_sharding(() if sharding is None else sharding, x.ndim)
    if mesh:
        annotation = replace(annotation, mesh=mesh if isinstance(mesh, str) else mesh.name)
    attrs = {
        "sharding": annotation,
        "required": required,
        "as_result": as_result,
        "open_dims": (sharding is None,) * x.ndim,
    }
    node = current().graph.add("annotate", [x.value], [x.type], attrs, loc=user_location())
    return Tensor(node.result)


def to_sharding(sharding: SpecLike, rank: int) -> Sharding:
    """Return a user's sharding for a tensor of `rank` dims, with axes by name.

    An additional entry after the last dim lists the axes over which the tensor is partial.
    """
    axes_of_dims = axes_by_dim(sharding)
    if isinstance(axes_of_dims, Sharding):
        return fit(axes_of_dims, rank)
    entries = [tuple(axis_name(axis) for axis in axes) for axes in axes_of_dims]
    partial = tuple((axis, "sum") for axis in entries.pop()) if len(entries) == rank + 1 else ()
    return fit(Sharding(tuple(entries), partial), rank)


@dataclass(frozen=True)
class Traced:
    """The module of a traced function, and its call signature."""

    module: Module
    signature: Signature

    def rebuild(self, outputs: Sequence[Any]) -> Any:
        """Return the outputs of the module in the structure that the function returned."""
        return self.signature.results(outputs)


@at_callers_line
def trace(function: Callable[..., Any], args: Sequence[Any] | Mapping[str, Any], mesh: Mesh | None = None,
          meshes: Sequence[Mesh] = ()) -> Traced:  # fmt: skip
    """Run `function` on traced tensors of the types `args` and return the recorded module.

    Args:
        args: a list with an entry per parameter, or a mapping by parameter name. An entry is a type (text as for
            `spec`, or any value with shape and dtype), or a dict, list or tuple of types. The function gets dicts with
            sorted keys.

    Raises:
        ProgramError: at the user's line, for shapes that do not fit, unsupported operations, and exceptions of
            `function`.
        UsageError: the arguments do not fit the parameters of `function`.
    """
    bound = _bind(function, args)
    name = getattr(function, "__name__", "")
    graph = Graph(name if name.isidentifier() else "main")
    loc = _definition(function)
    recording = Trace(graph, mesh, meshes=tuple(meshes))
    token = CURRENT.set(recording)
    try:
        inputs, nodes = _inputs(graph, bound.arguments, loc)
        bound.arguments.update(inputs)
        result = _called(function, bound)
        if result is None:
            hint = "return tensors, or dicts, lists or tuples of them; a 'return' may be missing"
            raise ProgramError(Diagnostic("MG0104", f"{graph.name} returns nothing", loc, hint=hint))
        returned = flatten(result, ("result",), written=True)
        outputs = [_output(dotted(path), leaf, loc) for path, leaf in returned]
    finally:
        CURRENT.reset(token)
    tell(recording.warnings)
    graph.outputs = [output.value for output in outputs]
    mesh = mesh or make_mesh({})
    module = Module(mesh, settle_manual(graph, mesh, *meshes), name=graph.name, meshes=tuple(meshes))
    module.in_annotations = [None] * len(graph.inputs)
    module.out_annotations = [None] * len(graph.outputs)
    return Traced(module, _signature(bound.signature, nodes, result, tuple(recording.warnings)))


def _signature(
    python: inspect.Signature, nodes: Mapping[str, Node], result: Any, warnings: tuple[Diagnostic, ...]
) -> Signature:
    """Return the call signature. It contains only parameters for which the user gave types."""
    kinds = {name: python.parameters[name].kind for name in nodes}
    by_kind = {kind: name for name, kind in kinds.items()}
    return Signature(
        nodes,
        tuple(name for name, kind in kinds.items() if kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD),
        by_kind.get(inspect.Parameter.VAR_POSITIONAL, ""),
        by_kind.get(inspect.Parameter.VAR_KEYWORD, ""),
        is_typed=True,
        rebuild=partial(_rebuilt, result),
        result=_returned(result),
        warnings=warnings,
    )


def _returned(result: Any) -> Node:
    """Return the structure of the traced function's result, with the number of the output at each leaf."""
    count = sum(1 for _ in flatten(result, written=True))
    numbers = itertools.count()

    def slot(_path: Path, _leaf: Any) -> Slot:
        number = next(numbers)
        return Slot(f"result.{number}" if count > 1 else "result", number)

    return node_of(result, slot, written=True)


def _rebuilt(result: Any, outputs: Sequence[Any], _given: Any) -> Any:
    """Return the structure of `result` with the arrays `outputs` as leaves.

    This is a top-level function so that pickle can store it.
    """
    return unflatten(result, iter(outputs), written=True)


def _bind(function: Callable[..., Any], args: Sequence[Any] | Mapping[str, Any]) -> inspect.BoundArguments:
    try:
        signature = inspect.signature(function)
        bound = signature.bind(**args) if isinstance(args, Mapping) else signature.bind(*args)
    except (TypeError, ValueError) as error:  # ValueError: builtin functions and classes may have no signature.
        values: Any = args.values() if isinstance(args, Mapping) else args
        for value in values if isinstance(values, Iterable) else ():  # The user may have passed any object as args.
            if isinstance(value, str):
                spec(value)  # A malformed type is a frequent reason why the arguments do not fit.
        name = getattr(function, "__name__", "the function")
        raise UsageError(
            Diagnostic("MG0001", f"the given args do not fit {name}: {error}", _definition(function))
        ) from error
    return bound


def _called(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """Call the function. An exception in it becomes an error at the user's line, whose cause is the exception."""
    try:
        return function(*bound.args, **bound.kwargs)
    # Errors that operations of the trace did not raise, such as that of `mg.P(3)`, have no line.
    except MeshgenError as error:
        line = failing_line(error)
        located = type(error)(*(replace(diagnostic, loc=diagnostic.loc or line) for diagnostic in error.diagnostics))
        raise located.with_traceback(error.__traceback__) from error.__cause__
    except BaseException as error:  # Includes exceptions that would end the process, such as SystemExit.
        if is_interrupt(error):
            raise
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ProgramError(Diagnostic("MG0105", text, failing_line(error))) from error


def _definition(function: Callable[..., Any]) -> Location | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Location(code.co_filename, code.co_firstlineno) if code else None


def _inputs(graph: Graph, trees: Mapping[str, Any], loc: Location | None) -> tuple[dict[str, Any], dict[str, Node]]:
    """Create a graph input for each leaf of the arguments `trees`.

    Returns the arguments with traced tensors as leaves, and the arguments with the number of the input at each leaf.
    """
    arguments: dict[str, Any] = {}
    nodes: dict[str, Node] = {}
    used_names: set[str] = set()
    for parameter, tree in trees.items():
        slots: list[tuple[Path, Slot]] = []
        for path, leaf in flatten(tree, (parameter,)):
            name = dotted(path) if dotted(path) not in used_names else bracketed(path)
            used_names.add(name)
            key_type, key = _key(leaf)
            slots.append((path, Slot(name, len(graph.inputs), key=key)))
            graph.inputs.append(Value(key_type or spec(leaf), name, loc=loc))
        tensors = [Tensor(graph.inputs[slot.number or 0]) for _, slot in slots]
        arguments[parameter] = unflatten(tree, iter(tensors))
        by_path = dict(slots)
        nodes[parameter] = node_of(tree, lambda path, _leaf, slot_by_path=by_path: slot_by_path[path], (parameter,))
    return arguments, nodes


def _key(leaf: Any) -> tuple[TensorType | None, str]:
    """Return (type of the data, name of the implementation) of a typed PRNG key of JAX, or (None, "") for other leaves."""
    if not is_key(leaf):
        return None, ""
    jax = sys.modules["jax"]
    return spec(jax.random.key_data(leaf)), str(jax.random.key_impl(leaf))


def _output(path: str, leaf: Any, loc: Location | None) -> Tensor:
    if isinstance(leaf, (Tensor, bool, int, float, np.generic, np.ndarray)):
        return tensor(leaf)
    hint = "return tensors, or dicts, lists or tuples of them"
    raise ProgramError(Diagnostic("MG0104", f"{path} is a {type(leaf).__name__}, not a tensor", loc, hint=hint))
