"""What callers of a JAX program pass and get: its trees, the names of its parameters, unused arguments, typed PRNG keys.

JAX leaves out arguments that a program does not use: callers pass them nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax import tree_util

from meshgen.calls.nodes import Slot, leaves_of, node_of, slots_of
from meshgen.calls.signature import Signature
from meshgen.calls.trees import Path, bracketed, canonical, dotted
from meshgen.frontend.jax_wrappers import is_nnx_variable
from meshgen.ir.graph import Module


def jax_signature(module: Module, program: Any) -> Signature | None:
    """The signature, from JAX's trees; None where they do not fit the text. Sets the names of the inputs."""
    tree: Any = getattr(program, "in_tree", None)
    if tree is None:
        return None
    inputs = module.graph.inputs
    kept = kept_leaves(program, tree.num_leaves, len(inputs))
    if kept is None:
        return None
    args, kwargs = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    parameters: dict[int | str, Any] = {**dict(enumerate(args)), **dict(sorted(kwargs.items()))}
    names = {leaf: inputs[number].name for leaf, number in kept.items() if inputs[number].name != f"arg{number}"}
    roots = _roots(parameters, names | _traced_names(program, tree.num_leaves))
    kinds = tree_util.tree_leaves(program.in_avals)
    taken: set[str] = set()
    plain = without_values(parameters)

    def slot(path: Path, leaf: int) -> Slot:
        path = plain(path, leaf)
        name = dotted(path) if dotted(path) not in taken else bracketed(path)
        taken.add(name)
        return Slot(name, kept.get(leaf), leaf_shape(kinds[leaf]), key_kind(kinds[leaf]))

    nodes = {root: node_of(parameters[key], slot, (root,)) for key, root in roots.items()}
    slots = list(slots_of(nodes))
    if len({each.name for each in slots}) != len(slots):
        return None
    for each in slots:
        if each.number is not None:
            inputs[each.number].name = each.name
    positional = tuple(roots[key] for key in roots if isinstance(key, int))
    results = _results(program, len(module.graph.outputs))
    return Signature(nodes, positional, exact=_flattened(tree, positional), narrows=not x64_enabled(), **results)


def x64_enabled() -> bool:
    """Whether JAX keeps 64-bit numbers."""
    return bool(jax.config.read("jax_enable_x64"))


def without_values(
    parameters: Mapping[Any, Any], key: Callable[[Any], Any] = lambda leaf: leaf
) -> Callable[[Path, Any], Path]:
    """A function of the path of a leaf, and the leaf: the path without the `value` that a variable of `flax.nnx` has for its array."""
    variables = filter(is_nnx_variable, tree_util.tree_leaves([*parameters.values()], is_leaf=is_nnx_variable))
    held = {key(leaf) for variable in variables for leaf in tree_util.tree_leaves(variable)}
    return lambda path, leaf: path[:-1] if path[-1] == "value" and key(leaf) in held else path


def _traced_names(program: Any, leaves: int) -> dict[int, str]:
    """The name of each leaf, used or not, where JAX still has those that it traced the function with."""
    lowering: Any = getattr(program, "_lowering", None)
    info = getattr(lowering, "compile_args", {}).get("all_args_info")
    names: Sequence[str] = getattr(getattr(info, "debug_info", None), "arg_names", None) or ()
    return {leaf: canonical(name) for leaf, name in enumerate(names) if name} if len(names) == leaves else {}


def kept_leaves(program: Any, leaves: int, inputs: int) -> dict[int, int] | None:
    """The input of each used leaf, by number; None where that is not known."""
    kept: Iterable[int] | None = getattr(program, "module_kept_var_idx", None)  # of what is exported
    if kept is None:
        lowering: Any = getattr(program, "_lowering", None)
        kept = getattr(lowering, "compile_args", {}).get("kept_var_idx")
    numbers = range(leaves) if kept is None else sorted(kept)
    return {leaf: number for number, leaf in enumerate(numbers)} if len(numbers) == inputs else None


def _roots(parameters: Mapping[int | str, Any], names: Mapping[int, str]) -> dict[int | str, str]:
    """The name of each parameter: the function's, where an input has it, else its number."""
    numbered = {key: key if isinstance(key, str) else f"arg{key}" for key in parameters}
    found = dict(numbered)
    for key, tree in parameters.items():
        for path, leaf in leaves_of(tree):
            suffix, name = "".join(f".{each}" for each in path), names.get(leaf, "")
            if isinstance(key, int) and name.endswith(suffix) and len(name) > len(suffix):
                found[key] = name.removesuffix(suffix)
    return found if len({*found.values()}) == len(found) else numbered


def leaf_shape(kind: Any) -> tuple[int | None, ...]:
    """The shape of a leaf as the program has it; a size that is a symbol is None."""
    words = kind.dtype._impl.key_shape if key_kind(kind) else ()
    return tuple(size if isinstance(size, int) else None for size in (*kind.shape, *words))


def key_kind(kind: Any) -> str:
    """The kind of a typed PRNG key; empty for other leaves."""
    return kind.dtype._impl.name if jax.numpy.issubdtype(kind.dtype, jax.dtypes.prng_key) else ""


def _flattened(tree: Any, positional: Sequence[str]) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Any] | None]:
    """A function that flattens arguments which have the structure that the program was made for."""

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


def _results(program: Any, outputs: int) -> dict[str, Any]:
    """The returned structure, where its tree fits the text: how to rebuild it, and the output of each leaf."""
    tree: Any = getattr(program, "out_tree", None)
    if tree is None or tree.num_leaves != outputs:
        return {}
    kinds = tree_util.tree_leaves(program.out_avals if hasattr(program, "out_avals") else program.out_info)

    def slot(_path: Path, number: int) -> Slot:
        return Slot(f"result.{number}" if outputs > 1 else "result", number, key=key_kind(kinds[number]))

    return {
        "rebuild": lambda made, _given: tree.unflatten(made),
        "result": node_of(tree_util.tree_unflatten(tree, range(outputs)), slot),
    }
