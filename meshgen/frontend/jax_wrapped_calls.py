"""Programs of wrapped functions (`jax_wrappers.py`): their names of arguments, calls, and results.

The leaves that the jitted function is passed are the caller's own arrays, so each is named by where the caller has it. Leaves
that the caller does not pass (bound by `functools.partial`, parts of the function itself) are weights of the program.
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

from meshgen.calls.arrays import is_key
from meshgen.calls.classes import Form, makers_in, opened
from meshgen.calls.nodes import Branch, Node, Slot, node_of, rebuilt, slots_of
from meshgen.calls.signature import Signature, shortened
from meshgen.calls.trees import Path, bracketed, dotted
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.frontend.jax_signature import kept_leaves, key_kind, leaf_shape, without_values, x64_enabled
from meshgen.frontend.jax_wrappers import Passed, Wrapper, duplicate, is_nnx_node
from meshgen.identity_dict import IdentityDict
from meshgen.ir.graph import Module


def placeholders(given: Any, to_type: Callable[[Any], Any]) -> Any:
    """The arguments with arrays without memory in place of types, because frameworks treat everything but arrays as static."""

    def leaf(each: Any) -> Any:
        kind = to_type(each)
        if is_nnx_node(kind) or not isinstance(kind, jax.ShapeDtypeStruct):
            return kind
        if jax.numpy.issubdtype(kind.dtype, jax.dtypes.prng_key):
            words: Any = jax.eval_shape(jax.random.key_data, kind)
            return jax.random.wrap_key_data(jax.numpy.zeros(words.shape, words.dtype), impl=key_kind(kind))
        return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)

    return tree_util.tree_map(leaf, given, is_leaf=is_nnx_node)


@dataclass
class _Leaves:
    """The numbers of the program's leaves by the identity of their arrays; an array that is passed twice has two."""

    numbers: IdentityDict[Any, list[int]] = field(default_factory=IdentityDict[Any, "list[int]"])

    @staticmethod
    def of(leaves: Sequence[Any]) -> _Leaves:
        found = _Leaves()
        for number, leaf in enumerate(leaves):
            found.numbers.setdefault(leaf, []).append(number)
        return found

    def take(self, leaf: Any) -> int | None:
        """The next number of this array; None where the program is not passed it (any more)."""
        numbers = self.numbers.get(leaf)
        return numbers.pop(0) if numbers else None


def wrapped_program(module: Module, lowered: Any, wrapper: Wrapper, passed: Passed, args: Any,
                    kwargs: Mapping[str, Any]) -> tuple[Module, Signature] | None:  # fmt: skip
    """The module and its signature, for `args` and `kwargs` of a caller; None where JAX does not say which leaves it uses."""
    kept = kept_leaves(lowered, len(passed.leaves), len(module.graph.inputs))
    if kept is None:
        return None
    given, names = _parameters(wrapper, args, kwargs)
    nodes, leaf_of_slot = _nodes(passed, kept, given | _own_parts(wrapper))
    bound = [*_parameters(wrapper, (), {})[0], *(name for name in nodes if name not in given)]
    nodes |= _left_over(passed, kept, nodes, leaf_of_slot)
    slots = list(slots_of(nodes))
    for slot in slots:
        if slot.number is not None:
            module.graph.inputs[slot.number].name = slot.name
    stored = [slot for name, node in nodes.items() if name in bound or name not in given for slot in slots_of(node)]
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
    """The values of the parameters by name, bound ones first, and the names of those that go by position."""
    args, kwargs = (*wrapper.args, *args), {**wrapper.kwargs, **kwargs}
    return parameters_of(wrapper.base, args, kwargs)


def parameters_of(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The values of a function's parameters by name, and the names of those by position; `xs.0` is the first of `*xs`."""
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):  # the function has no signature, or not one that its wrapper keeps
        numbered = {f"arg{number}": each for number, each in enumerate(args)}
        return numbered | dict(kwargs), [*numbered]
    values: dict[str, Any] = {}
    positional: list[str] = []
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            values |= value
            continue
        parts = (
            {f"{name}.{n}": each for n, each in enumerate(value)}
            if kind is inspect.Parameter.VAR_POSITIONAL
            else {name: value}
        )
        values |= parts
        positional += parts if kind is not inspect.Parameter.KEYWORD_ONLY else []
    return values, positional


def _own_parts(wrapper: Wrapper) -> dict[str, Any]:
    """The function itself as the parameter `self`, where it is a structure: `eqx.filter_jit(model)`."""
    function = getattr(wrapper.base, "__wrapped__", None)
    return {} if opened(function) is None else {"self": function}


def _nodes(
    passed: Passed, kept: Mapping[int, int], parameters: Mapping[str, Any]
) -> tuple[dict[str, Node], dict[str, int | None]]:
    """The structure of each parameter, and the leaf of each slot by its name."""
    leaves, taken = _Leaves.of(passed.leaves), dict[str, "int | None"]()
    plain = without_values(parameters, id)

    def slot(path: Path, leaf: Any) -> Slot:
        path = plain(path, leaf)
        name = dotted(path) if dotted(path) not in taken else bracketed(path)
        number = taken[name] = leaves.take(leaf)
        shape = tuple(np.shape(leaf)) if number is None and hasattr(leaf, "shape") else ()
        return Slot(name, None if number is None else kept.get(number), shape, key_kind(leaf) if is_key(leaf) else "")

    return {name: node_of(value, slot, (name,)) for name, value in parameters.items()}, taken


def _left_over(
    passed: Passed, kept: Mapping[int, int], nodes: Mapping[str, Node], taken: dict[str, int | None]
) -> dict[str, Node]:
    """Slots of the leaves that are in no parameter, by their place among the arguments of the jitted function."""
    found: dict[str, Node] = {}
    seen = {number for number in taken.values() if number is not None}
    paths = tree_util.tree_leaves_with_path(tree_util.tree_unflatten(passed.tree, passed.leaves))
    for number, (path, leaf) in enumerate(paths):
        if number not in seen and number in kept:
            name = "bound." + tree_util.keystr(path, simple=True, separator=".")
            taken[name] = number
            found[name] = Slot(name, kept[number], leaf_shape(leaf), key_kind(leaf) if is_key(leaf) else "")
    return found


def _array(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def _leaves_of_call(wrapper: Wrapper, known: Passed, leaves: Sequence[int | None], args: Sequence[Any],
                    kwargs: Mapping[str, Any]) -> list[Any] | None:  # fmt: skip
    """Return the leaf of each slot in a call, or None where its arguments do not fit and the faults can be listed by name.

    Raises ArgumentError MG0601 where static parts are others, which are part of the program, and where parts that the wrapper
    binds do not fit.
    """
    is_bound = bool(wrapper.args or wrapper.kwargs or _own_parts(wrapper))
    try:
        passed = wrapper.passed(args, kwargs)
    except Exception as error:  # what the framework raises for arguments that it does not take
        if not is_bound:
            return None
        text = " ".join(str(error).split())[:300]
        raise ArgumentError(Diagnostic("MG0601", f"the function does not take these arguments: {text}")) from error
    if (shapes := [*map(np.shape, passed.leaves)]) != (wanted := [*map(np.shape, known.leaves)]):
        if not is_bound:
            return None
        text = f"the function passes arrays of shapes {_shown(shapes)} to the program, which takes {_shown(wanted)}"
        raise ArgumentError(Diagnostic("MG0601", text, hint="compile it again for these arguments"))
    if passed.tree != known.tree or not passed.has_static_of(known):
        text = "the arguments have other static parts (numbers, flags, functions) than those that the program was compiled for"
        hint = "pass the modules that it was compiled for, or compile it again; a module that was saved and loaded takes any of these shapes"
        raise ArgumentError(Diagnostic("MG0601", text, hint=hint))
    return [None if number is None else passed.leaves[number] for number in leaves]


def _shown(shapes: Sequence[tuple[int, ...]]) -> str:
    return shortened(" ".join(str(list(shape)) for shape in shapes))


def _answer(
    lowered: Any, wrapper: Wrapper, result: Node, outputs: Sequence[int], made: Sequence[Any], given: Any
) -> Any:
    """Return what a caller gets for these outputs, and update the caller's modules.

    Arguments that are not the framework's, such as dicts by the names of a module's parts, get the structure of `result`.
    """
    values: list[Any] = [None] * lowered.out_tree.num_leaves
    for number, each in zip(outputs, made, strict=True):
        values[number] = jax.numpy.asarray(each)
    args, kwargs = given or ((), {})
    try:
        wrapper.passed(args, kwargs)
    except Exception:  # what the framework raises for arguments that it does not take
        return rebuilt(result, lambda slot: made[slot.number or 0], makers_in(given))
    return wrapper.call(lambda *_a, **_k: lowered.out_tree.unflatten(values), args, kwargs)


def _result(lowered: Any, wrapper: Wrapper, args: Any, kwargs: Mapping[str, Any]) -> tuple[Node, list[int]]:
    """What the program returns, and the outputs that are in it, in order.

    A function that updates its arguments returns a pair: its result, and the arguments that it updates by name.
    """
    leaves = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in tree_util.tree_leaves(lowered.out_info)]
    numbers = _Leaves.of(leaves)
    args, kwargs = duplicate(((*wrapper.args, *args), {**wrapper.kwargs, **kwargs}))
    unbound = replace(wrapper, args=(), kwargs={})
    returned = unbound.call(lambda *_a, **_k: lowered.out_tree.unflatten(leaves), args, kwargs)
    given = {name: each for name, each in _parameters(unbound, args, kwargs)[0].items() if opened(each)}
    updated = {
        name: each
        for name, each in given.items()
        if any(leaf in numbers.numbers for leaf in tree_util.tree_leaves(each))
    }
    tree = (returned, updated) if updated else returned
    marked = node_of(tree, lambda _, leaf: Slot("", numbers.take(leaf)))
    outputs = sorted(slot.number for slot in slots_of(marked) if slot.number is not None)
    renumbered = {number: place for place, number in enumerate(outputs)}
    keys = {place: key_kind(leaves[number]) for number, place in renumbered.items()}
    return _numbered(marked, renumbered, keys) or Branch((), Form("none")), outputs


def _numbered(node: Node, places: Mapping[int, int], keys: Mapping[int, str]) -> Node | None:
    """The node with the outputs' final numbers, without leaves that are not outputs; None where nothing is left of a leaf."""
    if isinstance(node, Slot):
        if node.number is None:
            return None
        place = places[node.number]
        return Slot(f"result.{place}" if len(places) > 1 else "result", place, key=keys[place])
    held = ((key, _numbered(each, places, keys)) for key, each in node.items())
    return Branch([(key, each) for key, each in held if each is not None], node.form)


def _with_outputs(module: Module, outputs: Sequence[int]) -> Module:
    """The module with these outputs alone."""
    module.graph.outputs = [module.graph.outputs[number] for number in outputs]
    annotations = [*module.out_annotations, *[None] * (max(outputs, default=-1) + 1 - len(module.out_annotations))]
    places: dict[int | None, int] = {number: place for place, number in enumerate(outputs)}
    donations = {number: places.get(output) for number, output in module.donations.items()}
    return replace(module, out_annotations=[annotations[number] for number in outputs], donations=donations)
