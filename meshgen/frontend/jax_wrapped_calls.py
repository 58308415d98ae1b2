"""Signatures of wrapped functions (`jax_wrappers.py`): argument names, the leaves of a call, and results.

The wrapper passes the caller's own arrays to the jitted function, so each leaf is named after its path in the caller's
arguments. Leaves that the caller does not pass (bound by `functools.partial`, or held by the function) become weights.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import tree_util

from meshgen.calls.argument_tree import Branch, Node, Slot, node_of, rebuilt, slots_of
from meshgen.calls.arrays import is_key
from meshgen.calls.signature import Signature, shortened
from meshgen.calls.structure_forms import Form, object_builders, opened
from meshgen.calls.trees import Path, bracketed, dotted
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.frontend.jax_signature import input_of_used_leaf, key_kind, leaf_shape, strip_value_keys, x64_enabled
from meshgen.frontend.jax_wrappers import Passed, Wrapper, duplicate, is_nnx_node
from meshgen.identity_dict import IdentityDict
from meshgen.ir.graph import Module


def placeholders(args: Any, to_type: Callable[[Any], Any]) -> Any:
    """Replace each type in `args` by a placeholder array, because frameworks treat types as static arguments.

    A placeholder is a broadcast scalar, which takes no memory. Types of PRNG keys are replaced by real keys.
    """

    def leaf(value: Any) -> Any:
        kind = to_type(value)
        if is_nnx_node(kind) or not isinstance(kind, jax.ShapeDtypeStruct):
            return kind
        if jax.numpy.issubdtype(kind.dtype, jax.dtypes.prng_key):
            words: Any = jax.eval_shape(jax.random.key_data, kind)
            return jax.random.wrap_key_data(jax.numpy.zeros(words.shape, words.dtype), impl=key_kind(kind))
        return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)

    return tree_util.tree_map(leaf, args, is_leaf=is_nnx_node)


@dataclass
class _Leaves:
    """Maps arrays, compared by identity, to their leaf numbers in the program.

    An array that is passed twice has two numbers.
    """

    numbers: IdentityDict[Any, list[int]] = field(default_factory=IdentityDict[Any, "list[int]"])

    @staticmethod
    def of(leaves: Sequence[Any]) -> _Leaves:
        by_identity = _Leaves()
        for number, leaf in enumerate(leaves):
            by_identity.numbers.setdefault(leaf, []).append(number)
        return by_identity

    def take(self, leaf: Any) -> int | None:
        """Remove and return the next leaf number of the array `leaf`, or return None if no number is left."""
        numbers = self.numbers.get(leaf)
        return numbers.pop(0) if numbers else None


def wrapped_program(module: Module, lowered: Any, wrapper: Wrapper, passed: Passed, args: Any,
                    kwargs: Mapping[str, Any]) -> tuple[Module, Signature] | None:  # fmt: skip
    """Return the module, reduced to the outputs that callers get, and the signature for calls with `args` and `kwargs`.

    Returns None if JAX does not report which leaves the program uses.
    """
    input_of_leaf = input_of_used_leaf(lowered, len(passed.leaves), len(module.graph.inputs))
    if input_of_leaf is None:
        return None
    parameters, names = _parameters(wrapper, args, kwargs)
    nodes, leaf_of_slot = _nodes(passed, input_of_leaf, parameters | _own_parts(wrapper))
    bound = [*_parameters(wrapper, (), {})[0], *(name for name in nodes if name not in parameters)]
    nodes |= _left_over(passed, input_of_leaf, nodes, leaf_of_slot)
    slots = list(slots_of(nodes))
    for slot in slots:
        if slot.number is not None:
            module.graph.inputs[slot.number].name = slot.name
    stored = [
        slot for name, node in nodes.items() if name in bound or name not in parameters for slot in slots_of(node)
    ]
    weights = {
        slot.name: _array(passed.leaves[leaf_of_slot[slot.name] or 0]) for slot in stored if slot.number is not None
    }
    result, outputs = _result(lowered, wrapper, args, kwargs)
    signature = Signature(
        nodes,
        tuple(name for name in names if name not in bound),
        exact=partial(_leaves_of_call, wrapper, passed, [leaf_of_slot[slot.name] for slot in slots]),
        is_typed=True,
        rebuild=partial(_answer, lowered, wrapper, result, outputs),
        result=result,
        narrows=not x64_enabled(),
        weights=weights,
    )
    return _with_outputs(module, outputs), signature


def _parameters(wrapper: Wrapper, args: Any, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return all parameter values by name, including those that `functools.partial` binds, and the positional names."""
    args, kwargs = (*wrapper.args, *args), {**wrapper.kwargs, **kwargs}
    return parameters_of(wrapper.base, args, kwargs)


def parameters_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the argument values of a call by parameter name, and the names of the positional parameters.

    `xs.0` is the name of the first value of `*xs`.
    """
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
    # The function has no signature, or the wrapper accepts other arguments than the signature says.
    except (TypeError, ValueError):
        numbered = {f"arg{number}": arg for number, arg in enumerate(args)}
        return numbered | dict(kwargs), [*numbered]
    values: dict[str, Any] = {}
    positional: list[str] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
            continue
        named_values = (
            {f"{name}.{n}": arg for n, arg in enumerate(value)}
            if kind is inspect.Parameter.VAR_POSITIONAL
            else {name: value}
        )
        values |= named_values
        positional += named_values if kind is not inspect.Parameter.KEYWORD_ONLY else []
    return values, positional


def _own_parts(wrapper: Wrapper) -> dict[str, Any]:
    """Return {"self": function} if the wrapped function is itself a pytree with arrays, as in `eqx.filter_jit(model)`.

    Returns an empty dict for plain functions.
    """
    function = getattr(wrapper.base, "__wrapped__", None)
    return {} if opened(function) is None else {"self": function}


def _nodes(
    passed: Passed, input_of_leaf: Mapping[int, int], parameters: Mapping[str, Any]
) -> tuple[dict[str, Node], dict[str, int | None]]:
    """Return the structure of each parameter with a slot per array, and a mapping from slot name to leaf number."""
    leaves, leaf_of_slot = _Leaves.of(passed.leaves), dict[str, "int | None"]()
    plain = strip_value_keys(parameters, id)

    def slot(path: Path, leaf: Any) -> Slot:
        path = plain(path, leaf)
        name = dotted(path) if dotted(path) not in leaf_of_slot else bracketed(path)
        number = leaf_of_slot[name] = leaves.take(leaf)
        shape = tuple(np.shape(leaf)) if number is None and hasattr(leaf, "shape") else ()
        return Slot(
            name, None if number is None else input_of_leaf.get(number), shape, key_kind(leaf) if is_key(leaf) else ""
        )

    return {name: node_of(value, slot, (name,)) for name, value in parameters.items()}, leaf_of_slot


def _left_over(
    passed: Passed, input_of_leaf: Mapping[int, int], nodes: Mapping[str, Node], leaf_of_slot: dict[str, int | None]
) -> dict[str, Node]:
    """Return slots for used leaves that no parameter contains, such as arrays that a closure holds.

    The name of a slot is the leaf's path in the arguments of the jitted function.
    """
    unnamed_slots: dict[str, Node] = {}
    named_leaves = {number for number in leaf_of_slot.values() if number is not None}
    paths = tree_util.tree_leaves_with_path(tree_util.tree_unflatten(passed.tree, passed.leaves))
    for number, (path, leaf) in enumerate(paths):
        if number not in named_leaves and number in input_of_leaf:
            name = "bound." + tree_util.keystr(path, simple=True, separator=".")
            leaf_of_slot[name] = number
            unnamed_slots[name] = Slot(
                name, input_of_leaf[number], leaf_shape(leaf), key_kind(leaf) if is_key(leaf) else ""
            )
    return unnamed_slots


def _array(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _leaves_of_call(wrapper: Wrapper, compiled: Passed, leaves: Sequence[int | None], args: Sequence[Any],
                    kwargs: Mapping[str, Any]) -> list[Any] | None:  # fmt: skip
    """Return the arrays of a call in the order of the signature's slots; `leaves` has the leaf number of each slot.

    Returns None if the arguments do not match the compiled program and the signature can report each mismatch by name.

    Raises:
        ArgumentError: MG0601, the static arguments differ from those at compile time, or a function with bound
            arguments gets arrays of other shapes.
    """
    is_bound = bool(wrapper.args or wrapper.kwargs or _own_parts(wrapper))
    try:
        passed = wrapper.passed(args, kwargs)
    except Exception as error:  # The framework can raise anything for arguments that it does not accept.
        if not is_bound:
            return None
        text = " ".join(str(error).split())[:300]
        raise ArgumentError(Diagnostic("MG0601", f"the function does not take these arguments: {text}")) from error
    if (shapes := [*map(np.shape, passed.leaves)]) != (compiled_shapes := [*map(np.shape, compiled.leaves)]):
        if not is_bound:
            return None
        text = f"the function passes arrays of shapes {_shown(shapes)} to the program, which takes {_shown(compiled_shapes)}"
        raise ArgumentError(Diagnostic("MG0601", text, hint="compile it again for these arguments"))
    if passed.tree != compiled.tree or not passed.has_static_of(compiled):
        text = "the arguments have other static parts (numbers, flags, functions) than those that the program was compiled for"
        hint = "pass the modules that it was compiled for, or compile it again; a module that was saved and loaded takes any of these shapes"
        raise ArgumentError(Diagnostic("MG0601", text, hint=hint))
    return [None if number is None else passed.leaves[number] for number in leaves]


def _shown(shapes: Sequence[tuple[int, ...]]) -> str:
    return shortened(" ".join(str(list(shape)) for shape in shapes))


def _answer(
    lowered: Any,
    wrapper: Wrapper,
    result: Node,
    outputs: Sequence[int],
    outputs_of_program: Sequence[Any],
    call_args: Any,
) -> Any:
    """Return the result of a call, rebuilt by the framework from the program's outputs; update the caller's modules.

    If the framework does not accept the call's arguments (for example a dict by parameter name), the result has the
    structure `result` of the signature instead.
    """
    values: list[Any] = [None] * lowered.out_tree.num_leaves
    for number, array in zip(outputs, outputs_of_program, strict=True):
        values[number] = jax.numpy.asarray(array)
    args, kwargs = call_args or ((), {})
    try:
        wrapper.passed(args, kwargs)
    except Exception:  # The framework can raise anything for arguments that it does not accept.
        return rebuilt(result, lambda slot: outputs_of_program[slot.number or 0], object_builders(call_args))
    return wrapper.call(lambda *_a, **_k: lowered.out_tree.unflatten(values), args, kwargs)


def _result(lowered: Any, wrapper: Wrapper, args: Any, kwargs: Mapping[str, Any]) -> tuple[Node, list[int]]:
    """Return the structure of the result, and the sorted numbers of the program outputs that this structure contains.

    If the function updates its arguments, the structure is a pair: the result, and the updated arguments by name.
    """
    leaves = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in tree_util.tree_leaves(lowered.out_info)]
    numbers = _Leaves.of(leaves)
    args, kwargs = duplicate(((*wrapper.args, *args), {**wrapper.kwargs, **kwargs}))
    unbound = replace(wrapper, args=(), kwargs={})
    returned = unbound.call(lambda *_a, **_k: lowered.out_tree.unflatten(leaves), args, kwargs)
    structured_args = {name: value for name, value in _parameters(unbound, args, kwargs)[0].items() if opened(value)}
    updated = {
        name: value
        for name, value in structured_args.items()
        if any(leaf in numbers.numbers for leaf in tree_util.tree_leaves(value))
    }
    tree = (returned, updated) if updated else returned
    marked = node_of(tree, lambda _, leaf: Slot("", numbers.take(leaf)))
    outputs = sorted(slot.number for slot in slots_of(marked) if slot.number is not None)
    renumbered = {number: position for position, number in enumerate(outputs)}
    keys = {position: key_kind(leaves[number]) for number, position in renumbered.items()}
    return _numbered(marked, renumbered, keys) or Branch((), Form("none")), outputs


def _numbered(node: Node, positions: Mapping[int, int], keys: Mapping[int, str]) -> Node | None:
    """Replace each output number in a structure by `positions[number]`. Leaves that are not outputs are dropped.

    Returns None if `node` is itself a leaf that is dropped.
    """
    if isinstance(node, Slot):
        if node.number is None:
            return None
        position = positions[node.number]
        return Slot(f"result.{position}" if len(positions) > 1 else "result", position, key=keys[position])
    children = ((key, _numbered(child, positions, keys)) for key, child in node.items())
    return Branch([(key, child) for key, child in children if child is not None], node.form)


def _with_outputs(module: Module, outputs: Sequence[int]) -> Module:
    """Return the module with only those outputs whose numbers are in `outputs`."""
    module.graph.outputs = [module.graph.outputs[number] for number in outputs]
    annotations = [*module.out_annotations, *[None] * (max(outputs, default=-1) + 1 - len(module.out_annotations))]
    positions: dict[int | None, int] = {number: position for position, number in enumerate(outputs)}
    donations = {number: positions.get(output) for number, output in module.donations.items()}
    return replace(module, out_annotations=[annotations[number] for number in outputs], donations=donations)
