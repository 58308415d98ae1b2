"""The Python frontend: run a function on traced tensors and keep what it did as a module at the import stage."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, Location, MeshgenError, ProgramError, UsageError
from meshgen.frontend.shardings import SpecLike, axes_by_dim
from meshgen.frontend.tracer.linear import axis_name
from meshgen.frontend.tracer.operands import dtype_of, tensor
from meshgen.frontend.tracer.recording import CURRENT, Trace, current, failing_line, user_location
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType, Value, dtype_name
from meshgen.ir.manual import settle_manual
from meshgen.mesh import Mesh, make_mesh
from meshgen.spec import Sharding, fit


def spec(text: Any, shape: Sequence[int] | None = None) -> TensorType:
    """A tensor type from `"bf16[8,512,1024]"`, from a dtype and a shape, or from anything with both."""
    if isinstance(text, TensorType):
        return text
    if shape is not None:
        return TensorType(tuple(shape), dtype_of(text))
    if hasattr(text, "shape") and hasattr(text, "dtype"):
        return TensorType(tuple(text.shape), dtype_name(np.dtype(text.dtype)))
    match = re.fullmatch(r"\s*(\w+)\s*\[\s*((?:\d+\s*(?:,\s*\d+\s*)*)?)\]\s*", text) if isinstance(text, str) else None
    if not match or match[1] not in DTYPES:
        hint = "write for example bf16[8,512,1024], or f32[] for a 0-d one"
        if "?" in str(text):
            hint = "sizes of a Python function are known: open ones (?) are for MLIR text and JAX's exported functions"
        raise UsageError(Diagnostic("MG0001", f"{text!r} is not a tensor type", hint=hint))
    return TensorType(tuple(int(s) for s in match[2].split(",") if s.strip()), match[1])


def annotate(
    x: Tensor, sharding: SpecLike | None = None, required: bool = True, as_result: bool = True, *, mesh: str | Mesh = ""
) -> Tensor:
    """The tensor with a wish for its sharding, or, in a program on several meshes, for the mesh that it is on.

    Args:
        sharding: `mg.P("dp", None)`, the same as text, `"dp,_"`, or integers as `[[0], []]`; trailing dims may be left out. None leaves it open.
        mesh: as in `mg.P(..., mesh=...)`: from here on the tensor is on this mesh.
        required: kept exactly, or an error; False is a hint.
        as_result: the producer delivers it so; False: only the users of this result read it so.
    """
    x = tensor(x)
    wish = to_sharding(() if sharding is None else sharding, x.ndim)
    if mesh:
        wish = replace(wish, mesh=mesh if isinstance(mesh, str) else mesh.name)
    attrs = {"sharding": wish, "required": required, "as_result": as_result, "open_dims": (sharding is None,) * x.ndim}
    node = current().graph.add("annotate", [x.value], [x.type], attrs, loc=user_location())
    return Tensor(node.result)


def to_sharding(sharding: SpecLike, rank: int) -> Sharding:
    """A user's sharding at the tensor's rank, by axis names; a list after the last dim holds partial axes."""
    written = axes_by_dim(sharding)
    if isinstance(written, Sharding):
        return fit(written, rank)
    entries = [tuple(axis_name(axis) for axis in axes) for axes in written]
    partial = tuple((axis, "sum") for axis in entries.pop()) if len(entries) == rank + 1 else ()
    return fit(Sharding(tuple(entries), partial), rank)


@dataclass(frozen=True)
class Traced:
    """A traced function: the module, and how to put its outputs back into the structure that was returned."""

    module: Module
    rebuild: Callable[[Sequence[Any]], Any]


def trace(function: Callable[..., Any], args: Sequence[Any] | Mapping[str, Any], mesh: Mesh | None = None,
          meshes: Sequence[Mesh] = ()) -> Traced:  # fmt: skip
    """Run `function` on traced tensors of the given types.

    Args:
        args: per parameter a type (text as for `spec`, or anything with shape and dtype), or a dict, list or tuple
            of such; a mapping gives them by parameter name.
    Raises:
        ProgramError: with the user's line, for shapes that do not fit, what cannot be traced, and exceptions of the function.
        UsageError: the arguments do not fit the function's parameters.
    """
    bound = _bind(function, args)
    name = getattr(function, "__name__", "")
    graph = Graph(name if name.isidentifier() else "main")
    loc = _definition(function)
    token = CURRENT.set(Trace(graph, mesh, meshes=tuple(meshes)))
    try:
        inputs = {name: _inputs(graph, name, tree, loc) for name, tree in bound.arguments.items()}
        bound.arguments.update(inputs)
        result = _called(function, bound)
        leaves = [_output(path, leaf, loc) for path, leaf in flatten(result, "result")]
    finally:
        CURRENT.reset(token)
    graph.outputs = [leaf.value for leaf in leaves]
    mesh = mesh or make_mesh({})
    module = Module(mesh, settle_manual(graph, mesh, *meshes), name=graph.name, meshes=tuple(meshes))
    module.in_annotations = [None] * len(graph.inputs)
    module.out_annotations = [None] * len(graph.outputs)
    return Traced(module, lambda arrays: unflatten(result, iter(arrays)))


def _bind(function: Callable[..., Any], args: Sequence[Any] | Mapping[str, Any]) -> inspect.BoundArguments:
    try:
        signature = inspect.signature(function)
        bound = signature.bind(**args) if isinstance(args, Mapping) else signature.bind(*args)
    except (TypeError, ValueError) as error:  # ValueError: a builtin or a class that has no signature
        name = getattr(function, "__name__", "the function")
        raise UsageError(
            Diagnostic("MG0001", f"the given args do not fit {name}: {error}", _definition(function))
        ) from error
    return bound


def _called(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """What the function returns. What goes wrong in it is a fault at the user's line, with the exception as its cause."""
    try:
        return function(*bound.args, **bound.kwargs)
    except MeshgenError as error:  # what is not about the trace, such as `mg.P(3)`, does not know its line
        line = failing_line(error)
        raise type(error)(*(replace(each, loc=each.loc or line) for each in error.diagnostics)) from error.__cause__
    except Exception as error:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ProgramError(Diagnostic("MG0105", text, failing_line(error))) from error


def _definition(function: Callable[..., Any]) -> Location | None:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return Location(code.co_filename, code.co_firstlineno) if code else None


def _inputs(graph: Graph, name: str, tree: Any, loc: Location | None) -> Any:
    """Traced tensors in the structure of `tree`, each an input of the graph with a dotted name."""
    values = [Value(spec(leaf), path, loc=loc) for path, leaf in flatten(tree, name)]
    graph.inputs += values
    return unflatten(tree, iter(Tensor(value) for value in values))


def _output(path: str, leaf: Any, loc: Location | None) -> Tensor:
    if isinstance(leaf, (Tensor, bool, int, float, np.generic, np.ndarray)):
        return tensor(leaf)
    hint = "return tensors, or dicts, lists or tuples of them"
    raise ProgramError(Diagnostic("MG0104", f"{path} is a {type(leaf).__name__}, not a tensor", loc, hint=hint))


def flatten(tree: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The leaves of nested dicts, lists and tuples with dotted names, in order; None holds no leaf."""
    if isinstance(tree, Mapping):
        for key, branch in tree.items():
            yield from flatten(branch, f"{name}.{key}")
    elif isinstance(tree, (list, tuple)):
        for number, branch in enumerate(tree):
            yield from flatten(branch, f"{name}.{number}")
    elif tree is not None:
        yield name, tree


def unflatten(tree: Any, leaves: Iterator[Any]) -> Any:
    """The structure of `tree` with its leaves replaced in order."""
    if isinstance(tree, Mapping):
        return {key: unflatten(branch, leaves) for key, branch in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*[unflatten(branch, leaves) for branch in tree])
    if isinstance(tree, (list, tuple)):
        return type(tree)(unflatten(branch, leaves) for branch in tree)
    return None if tree is None else next(leaves)
