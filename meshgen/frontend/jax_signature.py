"""The call signature of a JAX program: argument and result trees, parameter names, unused arguments, typed PRNG keys.

JAX drops the arguments that a program does not use from the module, but callers still pass them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
from jax import tree_util

from meshgen.calls.argument_tree import Slot, leaves_of, node_of, slots_of
from meshgen.calls.signature import Signature
from meshgen.calls.trees import Path, bracketed, canonical, dotted
from meshgen.frontend.jax_wrappers import is_nnx_variable
from meshgen.ir.graph import Module


def jax_signature(module: Module, program: Any) -> Signature | None:
    """Return the signature that JAX's argument and result trees describe, and rename the inputs of `module` after it.

    Returns None if the trees have another number of leaves than the module has inputs and outputs.
    """
    tree: Any = getattr(program, "in_tree", None)
    if tree is None:
        return None
    inputs = module.graph.inputs
    input_of_leaf = input_of_used_leaf(program, tree.num_leaves, len(inputs))
    if input_of_leaf is None:
        return None
    args, kwargs = tree_util.tree_unflatten(tree, range(tree.num_leaves))
    parameters: dict[int | str, Any] = {**dict(enumerate(args)), **dict(sorted(kwargs.items()))}
    names = {
        leaf: inputs[number].name for leaf, number in input_of_leaf.items() if inputs[number].name != f"arg{number}"
    }
    roots = _roots(parameters, names | _traced_names(program, tree.num_leaves))
    kinds = tree_util.tree_leaves(program.in_avals)
    used_names: set[str] = set()
    plain = strip_value_keys(parameters)

    def slot(path: Path, leaf: int) -> Slot:
        path = plain(path, leaf)
        name = dotted(path) if dotted(path) not in used_names else bracketed(path)
        used_names.add(name)
        return Slot(name, input_of_leaf.get(leaf), leaf_shape(kinds[leaf]), key_kind(kinds[leaf]))

    nodes = {root: node_of(parameters[key], slot, (root,)) for key, root in roots.items()}
    slots = list(slots_of(nodes))
    if len({named_slot.name for named_slot in slots}) != len(slots):
        return None
    for named_slot in slots:
        if named_slot.number is not None:
            inputs[named_slot.number].name = named_slot.name
    positional = tuple(roots[key] for key in roots if isinstance(key, int))
    results = _results(program, len(module.graph.outputs))
    return Signature(nodes, positional, exact=_flattened(tree, positional), narrows=not x64_enabled(), **results)


def x64_enabled() -> bool:
    """Whether the option `jax_enable_x64` is set, so that JAX keeps 64-bit dtypes."""
    return bool(jax.config.read("jax_enable_x64"))


def strip_value_keys(
    parameters: Mapping[Any, Any], key: Callable[[Any], Any] = lambda leaf: leaf
) -> Callable[[Path, Any], Path]:
    """Return a function of a leaf's path and the leaf that drops a final key `value` from the path.

    It does so for the arrays of `flax.nnx` variables: `params.w.value` becomes `params.w`. `parameters` contains the
    variables; `key` returns a hashable identity of a leaf.
    """
    variables = filter(is_nnx_variable, tree_util.tree_leaves([*parameters.values()], is_leaf=is_nnx_variable))
    variable_leaves = {key(leaf) for variable in variables for leaf in tree_util.tree_leaves(variable)}
    return lambda path, leaf: path[:-1] if path[-1] == "value" and key(leaf) in variable_leaves else path


def _traced_names(program: Any, leaves: int) -> dict[int, str]:
    """Map leaf numbers, of used and unused leaves, to the names that JAX kept from tracing (possibly none)."""
    lowering: Any = getattr(program, "_lowering", None)
    info = getattr(lowering, "compile_args", {}).get("all_args_info")
    names: Sequence[str] = getattr(getattr(info, "debug_info", None), "arg_names", None) or ()
    return {leaf: canonical(name) for leaf, name in enumerate(names) if name} if len(names) == leaves else {}


def input_of_used_leaf(program: Any, leaves: int, inputs: int) -> dict[int, int] | None:
    """Map the number of each argument leaf that the program uses to the number of the program input for that leaf.

    Returns None if the number of used leaves differs from the number of inputs.
    """
    # Only exported programs have this attribute.
    kept: Iterable[int] | None = getattr(program, "module_kept_var_idx", None)
    if kept is None:
        lowering: Any = getattr(program, "_lowering", None)
        kept = getattr(lowering, "compile_args", {}).get("kept_var_idx")
    used_leaves = range(leaves) if kept is None else sorted(kept)
    return {leaf: number for number, leaf in enumerate(used_leaves)} if len(used_leaves) == inputs else None


def _roots(parameters: Mapping[int | str, Any], names: Mapping[int, str]) -> dict[int | str, str]:
    """Return a name for each parameter: the common prefix of its input names, or `arg0`, `arg1`, ... without any."""
    numbered = {key: key if isinstance(key, str) else f"arg{key}" for key in parameters}
    root_names = dict(numbered)
    for key, tree in parameters.items():
        for path, leaf in leaves_of(tree):
            suffix, name = "".join(f".{key_in_path}" for key_in_path in path), names.get(leaf, "")
            if isinstance(key, int) and name.endswith(suffix) and len(name) > len(suffix):
                root_names[key] = name.removesuffix(suffix)
    return root_names if len({*root_names.values()}) == len(root_names) else numbered


def leaf_shape(kind: Any) -> tuple[int | None, ...]:
    """Return the shape of an argument leaf from its JAX type `kind`. Symbolic sizes become None."""
    key_words = kind.dtype._impl.key_shape if key_kind(kind) else ()
    return tuple(size if isinstance(size, int) else None for size in (*kind.shape, *key_words))


def key_kind(kind: Any) -> str:
    """Return the implementation name of a typed PRNG key, such as `fry` for threefry, or "" for arrays."""
    return kind.dtype._impl.name if jax.numpy.issubdtype(kind.dtype, jax.dtypes.prng_key) else ""


def _flattened(tree: Any, positional: Sequence[str]) -> Callable[[Sequence[Any], Mapping[str, Any]], list[Any] | None]:
    """Return a function that flattens the positional and keyword arguments of a call to a list of leaves.

    The function returns None if the arguments do not have the structure `tree`.
    """

    def flattened(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any] | None:
        args, kwargs = list(args), dict(kwargs)
        while len(args) < len(positional) and positional[len(args)] in kwargs:
            args.append(kwargs.pop(positional[len(args)]))
        try:
            leaves, call_tree = tree_util.tree_flatten((tuple(args), kwargs))
        except (TypeError, ValueError):  # JAX cannot flatten dicts whose keys cannot be sorted.
            return None
        return leaves if call_tree == tree else None

    return flattened


def _results(program: Any, outputs: int) -> dict[str, Any]:
    """Return the signature fields `rebuild` and `result` as a dict.

    The dict is empty if JAX's result tree is missing or does not have `outputs` leaves.
    """
    tree: Any = getattr(program, "out_tree", None)
    if tree is None or tree.num_leaves != outputs:
        return {}
    kinds = tree_util.tree_leaves(program.out_avals if hasattr(program, "out_avals") else program.out_info)

    def slot(_path: Path, number: int) -> Slot:
        return Slot(f"result.{number}" if outputs > 1 else "result", number, key=key_kind(kinds[number]))

    return {
        "rebuild": lambda leaves, _given: tree.unflatten(leaves),
        "result": node_of(tree_util.tree_unflatten(tree, range(outputs)), slot),
    }
