"""JAX programs: the result of `jax.jit(f).lower(...)`, `.trace(...)` or `jax.export`, read as StableHLO text.

Operations are where the user wrote them, and inputs have JAX's names of the arguments (`params['w1']`), shown as
`params.w1`: both come with the text as locations. JAX leaves out arguments that a program does not use: callers pass them
nevertheless. JAX is imported only where one of its programs is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from meshgen.frontend.mlir import read_generated
from meshgen.frontend.signature import Signature, Slot, tree_of
from meshgen.frontend.trees import Path, dotted
from meshgen.ir.graph import Module
from meshgen.records import dataclass


def is_jax(program: Any) -> bool:
    """Whether this is a `jax.stages.Lowered` or `Traced`, or a `jax.export.Exported`, by its methods."""
    return (
        (hasattr(program, "compiler_ir") and hasattr(program, "as_text"))
        or hasattr(program, "mlir_module")
        or (hasattr(program, "jaxpr") and hasattr(program, "lower"))
    )


def from_jax(program: Any) -> tuple[Module, Signature | None]:
    """The module of a JAX function, with shardings as `sdy` attributes, and what its callers pass.

    Raises ProgramError for what the StableHLO reader refuses.
    """
    if hasattr(program, "jaxpr"):
        program = program.lower()
    is_exported = hasattr(program, "mlir_module")
    module = read_generated(program.mlir_module() if is_exported else program.as_text(debug_info=True))
    return module, _signature(module, program)


@dataclass(frozen=True)
class _Leaf:
    """A leaf of JAX's arguments: its parameter, as a number (by position) or a keyword, and the keys inside of that."""

    parameter: int | str
    keys: Path


def _signature(module: Module, program: Any) -> Signature | None:
    """The signature, from JAX's trees; None where they do not fit the text. Sets the names of the inputs."""
    tree: Any = getattr(program, "in_tree", None)
    if tree is None:
        return None
    leaves, inputs = _leaves(tree), module.graph.inputs
    kept = _kept(program, len(leaves), len(inputs))
    if kept is None:
        return None
    names = {leaf: inputs[number].name for leaf, number in kept.items() if inputs[number].name != f"arg{number}"}
    roots = _roots(_parameters(tree), leaves, names)
    paths = [(roots[leaf.parameter], *leaf.keys) for leaf in leaves]
    slots = [
        Slot(dotted(path), kept.get(at), shape)
        for at, (path, shape) in enumerate(zip(paths, _shapes(program), strict=False))
    ]
    nodes = tree_of(zip(paths, slots, strict=False))
    if nodes is None or len(slots) != len(leaves) or len({slot.name for slot in slots}) != len(slots):
        return None
    for slot in slots:
        if slot.number is not None:
            inputs[slot.number].name = slot.name
    positional = tuple(roots[key] for key in roots if isinstance(key, int))
    return Signature(
        {root: nodes.get(root, {}) for root in roots.values()},
        positional,
        exact=_flattened(tree, positional),
        opened=_opened,
        **_results(program, len(module.graph.outputs)),
    )


def _leaves(tree: Any) -> list[_Leaf]:
    """The leaves of JAX's arguments, which are a pair: a tuple, and a dict of keywords."""
    from jax import tree_util

    numbered = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    found = sorted(tree_util.tree_flatten_with_path(numbered)[0], key=lambda pair: pair[1])
    keys = [[_key(key) for key in path] for path, _ in found]
    return [_Leaf(int(path[1]) if path[0] == "0" else path[1], tuple(path[2:])) for path in keys]


def _key(key: Any) -> str:
    """A key of JAX's paths: of a dict, a sequence, an attribute, or a number."""
    return str(next(getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name)))


def _kept(program: Any, leaves: int, inputs: int) -> dict[int, int] | None:
    """The input of each used leaf, by number; None where that is not known."""
    kept: Iterable[int] | None = getattr(program, "module_kept_var_idx", None)  # of what is exported
    if kept is None:
        lowering: Any = getattr(program, "_lowering", None)
        kept = getattr(lowering, "compile_args", {}).get("kept_var_idx")
    numbers = range(leaves) if kept is None else sorted(kept)
    return {leaf: number for number, leaf in enumerate(numbers)} if len(numbers) == inputs else None


def _parameters(tree: Any) -> list[int | str]:
    """The parameters of JAX's arguments, empty ones included: numbers by position, then keywords."""
    from jax import tree_util

    args, kwargs = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    return [*range(len(args)), *sorted(kwargs)]


def _roots(parameters: Sequence[int | str], leaves: Sequence[_Leaf], names: Mapping[int, str]) -> dict[int | str, str]:
    """The name of each parameter: the function's, where an input has it, else its number."""
    numbered = {key: key if isinstance(key, str) else f"arg{key}" for key in parameters}
    found = dict(numbered)
    for number, leaf in enumerate(leaves):
        suffix = "".join(f".{key}" for key in leaf.keys)
        name = names.get(number, "")
        if isinstance(leaf.parameter, int) and name.endswith(suffix) and len(name) > len(suffix):
            found[leaf.parameter] = name.removesuffix(suffix)
    return found if len({*found.values()}) == len(found) else numbered


def _shapes(program: Any) -> list[tuple[int | None, ...]]:
    """The shapes of all leaves; a size that is a symbol is None."""
    from jax import tree_util

    kinds = tree_util.tree_leaves(program.in_avals)
    return [tuple(size if isinstance(size, int) else None for size in kind.shape) for kind in kinds]


def _flattened(tree: Any, positional: Sequence[str]) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Any] | None]:
    """A function that flattens arguments which have the structure that the program was made for."""
    from jax import tree_util

    def flattened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        args, kwargs = list(args), dict(kwargs)
        while len(args) < len(positional) and positional[len(args)] in kwargs:
            args.append(kwargs.pop(positional[len(args)]))
        try:
            leaves, given = tree_util.tree_flatten((tuple(args), kwargs))
        except (TypeError, ValueError):  # keys without an order
            return None
        return leaves if given == tree else None

    return flattened


def _opened(given: Any) -> dict[str, Any] | None:
    """The children, by key, of an object whose class is registered with JAX; None for any other."""
    from jax import tree_util

    pairs, _ = tree_util.tree_flatten_with_path(given, is_leaf=lambda part: part is not given)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    return {_key(path[0]): branch for path, branch in pairs}


def _results(program: Any, outputs: int) -> dict[str, Any]:
    """The returned structure, where its tree fits the text: how to rebuild it, and the output of each leaf."""
    from jax import tree_util

    tree: Any = getattr(program, "out_tree", None)
    if tree is None or tree.num_leaves != outputs:
        return {}
    numbered = tree_util.tree_flatten_with_path(tree_util.tree_unflatten(tree, range(outputs)))[0]
    names = ["result"] if outputs == 1 else [f"result.{number}" for number in range(outputs)]
    paths = [("result", *map(_key, path)) for path, _ in numbered]
    result = tree_of((path, Slot(names[number], number)) for path, (_, number) in zip(paths, numbered, strict=True))
    return {"rebuild": tree.unflatten, "result": result["result"] if result else None}
