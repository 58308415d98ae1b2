"""JAX programs: what `jax.jit(f).lower(...)` or `jax.export` holds, read as StableHLO text. JAX is not imported here."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from meshgen.frontend.mlir import read_mlir
from meshgen.ir.graph import Module


def is_jax(program: Any) -> bool:
    """Whether this is a `jax.stages.Lowered` or a `jax.export.Exported`, by what it can do."""
    return (hasattr(program, "compiler_ir") and hasattr(program, "as_text")) or hasattr(program, "mlir_module")


def from_jax(program: Any) -> Module:
    """The module of a lowered or exported JAX function; shardings come with it as `sdy` attributes.

    Raises ProgramError for what the StableHLO reader refuses.
    """
    if hasattr(program, "mlir_module"):
        text = program.mlir_module()
    else:
        text = str(program.compiler_ir("stablehlo"))
    module = read_mlir(text)
    _name_inputs(module, program)
    return module


def _name_inputs(module: Module, program: Any) -> None:
    """Give inputs the names of JAX's arguments (`params.w1`), where the tree is known and says so."""
    tree: Any = getattr(program, "in_tree", None)
    if tree is None:
        return
    paths = _paths(program)
    if len(paths) != len(module.graph.inputs) or len({*paths}) != len(paths):
        return
    for value, path in zip(module.graph.inputs, paths, strict=True):
        value.name = path


def _paths(program: Any) -> list[str]:
    """Dotted names of the flat arguments; empty where JAX keeps no structured description."""
    described: Any = getattr(program, "args_info", None)
    if described is None:
        return []
    (args, kwargs) = described
    return [*_leaves(args, ""), *_leaves(kwargs, "")]


def _leaves(tree: Any, name: str) -> list[str]:
    """Leaves in JAX's order: dict keys sorted (of an OrderedDict as they are), sequences by number; an argument's number alone becomes `argN`."""
    if isinstance(tree, dict):
        keys = list(tree) if isinstance(tree, OrderedDict) else sorted(tree)
        return [leaf for key in keys for leaf in _leaves(tree[key], f"{name}.{key}" if name else str(key))]
    if isinstance(tree, (list, tuple)):
        return [leaf for i, branch in enumerate(tree) for leaf in _leaves(branch, f"{name}.{i}" if name else f"arg{i}")]
    return [] if tree is None else [name]
