"""Import a program of any supported kind (traced function, JAX, PyTorch, ONNX, MLIR) as a module."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, MeshgenError, UsageError, is_interrupt, location_in_program
from meshgen.frontend.arguments import Args
from meshgen.frontend.carried_names import name_carried_values
from meshgen.frontend.constants import refuse_constants
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh

_CALLS_TORCH = re.compile(
    r"\w\(\): argument '\w+' \(position \d+\) must be .*Tensor"
)  # The text of torch's error for arguments that are not tensors.


def import_program(
    graph: Any, meshes: tuple[Mesh, ...], args: Args, entry: str = ""
) -> tuple[Module, Signature | None]:
    """Return the module of a program, and the program's call signature.

    Args:
        graph: a program in any form that `meshgen.compile` accepts.
        meshes: the user's meshes; specs and annotations of a traced function may refer to them.
        args: the types of the parameters of a Python function, or of a function of `jax.jit`.
        entry: the function of MLIR text to import, if it is neither @main nor the only public function.

    Returns:
        The module and the signature. The signature is None if the input names already determine it, as for MLIR text.

    Raises:
        UsageError: `graph` is not a program, cannot be found, or is a function without args.
        ProgramError: the reader of the program rejects it.
    """
    module, signature = _imported(graph, meshes, args, entry)
    if module is not graph and module.stage == "import":
        name_carried_values(module.graph)
    return module, signature


def _imported(graph: Any, meshes: tuple[Mesh, ...], args: Args, entry: str) -> tuple[Module, Signature | None]:
    from meshgen.frontend.onnx.files import is_onnx
    from meshgen.frontend.torch.recognition import is_torch, is_training_step

    if is_onnx(graph) and not entry:
        from meshgen.frontend.onnx.model import from_onnx

        return from_onnx(graph, meshes, args)
    refuse_constants(args)
    if is_training_step(graph) and not entry:
        from meshgen.frontend.torch.training import read_step

        return read_step(graph, args)
    if is_torch(graph) and not entry:
        from meshgen.frontend.torch.export import from_torch

        return from_torch(graph, args)
    if isinstance(graph, (str, Path)):
        return _from_text(graph, meshes, args, entry)
    if type(graph).__module__.startswith("xdsl."):
        return _read_mlir(str(graph), meshes, entry), None
    if entry:
        hint = "leave it out: this program is one function"
        raise UsageError(Diagnostic("MG0001", f"entry '{entry}' is not a function of MLIR text", hint=hint))
    if isinstance(graph, Module):
        return graph, None
    from meshgen.frontend.jax import from_jax, is_jax

    if is_jax(graph):
        return from_jax(graph, args)
    if isinstance(graph, type):
        hint = "pass an object of the class, such as a module with its parameters, or a function"
        raise UsageError(Diagnostic("MG0001", f"expected a program, got the class {graph.__name__}", hint=hint))
    if not callable(graph):
        raise UsageError(
            Diagnostic("MG0001", f"expected a program, got {graph!r:.60}", hint="pass a function, MLIR text or a path")
        )
    return _from_function(graph, meshes, args)


def _from_function(graph: Callable[..., Any], meshes: tuple[Mesh, ...], args: Args) -> tuple[Module, Signature | None]:
    if args is None:
        raise UsageError(
            Diagnostic(
                "MG0001",
                "a Python function needs the type of each parameter",
                hint="give args=['f32[8,16]', ...], on the command line --arg 'f32[8,16]' for each, in their order",
            )
        )
    from meshgen.frontend.jax import from_function
    from meshgen.frontend.tracer import trace

    try:
        traced = trace(graph, args, meshes[0] if meshes else None, meshes if len(meshes) > 1 else ())
    except MeshgenError as error:
        if _CALLS_TORCH.search(str(error)):
            text = f"the function {getattr(graph, '__name__', 'given')} calls operations of PyTorch, which only accept PyTorch's tensors"
            hint = "pass a torch.nn.Module with it as forward, or what make_fx or torch.export.export returns"
            raise UsageError(Diagnostic("MG0001", text, hint=hint)) from error
        return from_function(graph, args, error)
    return traced.module, traced.signature


def _from_text(graph: str | Path, meshes: tuple[Mesh, ...], args: Args, entry: str) -> tuple[Module, Signature | None]:
    text = str(graph)
    if entry and Path(text).suffix in (".onnx", ".pt2") and "\n" not in text:
        raise UsageError(Diagnostic("MG0001", f"entry '{entry}' is not a function of '{text}', which is one program"))
    if isinstance(graph, str) and (text == "-" or "\n" in text or "{" in text):
        return _read_mlir(text, meshes, entry), None
    if isinstance(graph, str) and ":" in text and not os.path.exists(text) and Path(text).suffix != ".mlir":
        return import_program(_imported_function(text), meshes, args, entry)
    _refuse_other_file(Path(text))
    return _read_mlir(Path(text), meshes, entry), None


def _refuse_other_file(path: Path) -> None:
    """Raise UsageError MG0002 with a hint if `path` is a Python file or a compiled module instead of a program."""
    if path.suffix == ".py":
        hint = f"pass the function, on the command line {path.stem}:FUNCTION, its module and the function's name"
        raise UsageError(Diagnostic("MG0002", f"'{path}' is a Python file, not a program", hint=hint))
    if path.suffix == ".mgx":
        hint = "meshgen.load, and on the command line explain, report, run and inspect, take modules"
        raise UsageError(Diagnostic("MG0002", f"'{path}' is a compiled module, not a program", hint=hint))


def _read_mlir(source: str | Path, meshes: Sequence[Mesh], entry: str) -> Module:
    from meshgen.frontend.mlir import read_mlir

    return read_mlir(source, meshes, entry)


def _imported_function(reference: str) -> Any:
    """Import the object that `pkg.mod:function` names, searching the working directory first.

    Raises:
        UsageError: MG0002, the import fails.
    """
    module_name, _, name = reference.partition(":")
    dotted_module = module_name.removesuffix(".py").replace("/", ".")
    suggestion = (
        f"'{dotted_module}:{name}' names the module by its file"
        if dotted_module != module_name
        else "pkg.mod:function or the path of a .mlir file"
    )
    sys.path.insert(0, here := os.getcwd())
    try:
        return getattr(importlib.import_module(module_name), name)
    except BaseException as error:  # Importing the user's module can raise anything.
        if is_interrupt(error):
            raise
        location = location_in_program(error)
        reason = f"{type(error).__name__}: {error}" if location else error
        hint = "" if location else f"write {suggestion}"
        raise UsageError(
            Diagnostic("MG0002", f"'{reference}' cannot be imported: {reason}", location, hint=hint)
        ) from error
    finally:
        with contextlib.suppress(ValueError):  # The user's module may have removed itself from `sys.modules`.
            sys.path.remove(here)
