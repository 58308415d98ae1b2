"""The signature of a program: the structures of arguments that callers pass, and the program input for each array.

    f(x, params), params = {"b": ..., "w": ...}
    {"x": Slot(0), "params": {"b": Slot(1), "w": Slot(2)}}

Arguments are bound by position or name. Their leaves are bound by key, never by the order of a dict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, cast

from meshgen.calls.argument_tree import Branch, Node, Slot, rebuilt, slots_of, tree_of, without
from meshgen.calls.arrays import key_of_words, same_array
from meshgen.calls.state import State
from meshgen.calls.structure_forms import LOOSE, Form, children_like, object_builders, opened
from meshgen.calls.trees import Path, canonical, dotted, flatten
from meshgen.errors import Diagnostic
from meshgen.names import nearest_names

SHOWN = 400  # Maximum length of a signature in a message, in characters. Chosen: several lines of a terminal.


@dataclass
class Found:
    """The outcome of binding the arguments of a call.

    Attributes:
        pairs: each slot with its argument.
        faults: messages about arguments that do not match the signature.
        objects: messages about objects with another class or other static fields than the program expects.
    """

    pairs: list[tuple[Slot, Any]] = field(default_factory=list[tuple[Slot, Any]])
    faults: list[str] = field(default_factory=list[str])
    objects: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class Signature:
    """The parameters and results of a program as callers see them.

    Attributes:
        nodes: the structure of each parameter.
        positional: the parameters that callers may pass by position, in order.
        rest, extra: the parameters that collect further positional and keyword arguments (`*args` and `**kwargs`).
        exact: returns the leaves of arguments that have exactly the structure of the traced program. Returns None for
            all other arguments.
        in_order: whether callers may also pass arrays in the order of the inputs, because the program is written that
            way.
        is_typed: whether the program came with the types of its arguments, so that no sizes are open.
        rebuild: builds the exact result structure from outputs and arguments. If None, `result` describes the
            structure.
        result: the result structure, whose slots are outputs. If None, the result is one array or a tuple of arrays.
        narrows: whether callers may pass 64-bit arrays for 32-bit arguments, as in JAX.
        warnings: the warnings from reading the program.
        weights: arrays that came with the program, by input. Callers need not pass them, and modules store them.
        weight_names: the inputs that are parameters and buffers of a model, whether or not `weights` has their arrays.
        aliases: further names of inputs. An alias of a weight may equal the name of an argument.
        state: the donated arguments with their next values.
    """

    nodes: Mapping[str, Node]
    positional: tuple[str, ...]
    rest: str = ""
    extra: str = ""
    exact: Callable[[Sequence[Any], Mapping[str, Any]], Sequence[Any] | None] | None = None
    in_order: bool = False
    is_typed: bool = False
    rebuild: Callable[[Sequence[Any], Any], Any] | None = None
    result: Node | None = None
    narrows: bool = False
    warnings: tuple[Diagnostic, ...] = ()
    weights: Mapping[str, Any] = field(default_factory=dict[str, Any])
    weight_names: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    state: State = field(default_factory=State)

    @cached_property
    def slots(self) -> list[Slot]:
        """All leaves of the parameters, in the order of the parameters. With `in_order`, in the order of the inputs."""
        leaves = list(slots_of(dict(self.nodes)))
        return sorted(leaves, key=lambda slot: slot.number or 0) if self.in_order else leaves

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """The nodes by all their names: parameter names, numbered names (`arg1.w`) and aliases."""
        roots = self._numbered | dict(self.nodes)
        names = {name: node for root, branch in roots.items() for name, node in _nodes_by_name(branch, root)}
        names |= {slot.name: slot for slot in self.slots}
        return names | {
            name: names[target] for name, target in self.aliases.items() if name not in names and target in names
        }

    @cached_property
    def _numbered(self) -> dict[str, Node]:
        """The nodes by numbered name: `arg1` is parameter 1, or with `in_order` input 1."""
        nodes = self.slots if self.in_order else [self.nodes[name] for name in self.positional]
        return {f"arg{index}": node for index, node in enumerate(nodes)}

    def node(self, name: str) -> Node | None:
        """Return the node called `name` in any spelling (`params.w1`, `params['w1']`, `arg1.w1`), or None."""
        return self.by_name.get(name, self.by_name.get(canonical(name)))

    def named(self, weights: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
        """Return the leaves of `weights` by input name. Messages about leaves that do not match are added to `faults`.

        The keys of `weights` may have any spelling, and its values may be structures. Unknown keys are kept.
        """
        table: dict[str, Any] = {}
        for name, value in weights.items():
            node = self.weight(name) if isinstance(cast("Any", name), str) else None
            if node is None:
                table[name] = value
                continue
            bound_leaves = Found()
            self.assign(node, value, bound_leaves, (name,), partial=True)
            leaves = {slot.name: leaf for slot, leaf in bound_leaves.pairs if slot.number is not None}
            faults += [_twice(name, key) for key in leaves if key in table and not same_array(table[key], leaves[key])]
            table |= leaves
            faults += bound_leaves.faults
        return table

    def weight(self, name: str) -> Node | None:
        """Return the node of a weight, in any spelling that `node` accepts, or None for an unknown name.

        A file's tensor name such as `h/0/w` is also accepted, if only one parameter has this tensor. If an argument and
        a tensor of the model have the same name, the tensor is returned.
        """
        node = self.node(self.aliases.get(name, name))
        return node if node is not None else self.by_name.get(input_named(name, self.by_name) or "")

    def results(self, outputs: Sequence[Any], arguments: Any = None) -> Any:
        """Arrange the outputs in the structure of the result, with the classes of the objects in `arguments`."""
        node = self.result
        if node is None and self.rebuild is None:
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        keys = {slot.number: slot.key for slot in slots_of(node or Branch()) if slot.key}
        leaves = [
            key_of_words(output, keys[index]) if index in keys else output for index, output in enumerate(outputs)
        ]
        if self.rebuild:
            return self.rebuild(leaves, arguments)
        return rebuilt(node or Branch(), lambda slot: leaves[slot.number or 0], object_builders(arguments))

    def storing(self, names: Iterable[str]) -> Signature:
        """Return the signature of a module that stores the arrays of the inputs `names`, and has no parameters for
        them.
        """
        stored = {*names}
        if not stored:
            return self
        nodes: dict[str, Node] = {}
        for name, node in self.nodes.items():
            has_unstored = any(slot.number is not None and slot.name not in stored for slot in slots_of(node))
            if (remaining := without(node, lambda slot: slot.name in stored)) == node or (
                has_unstored and remaining is not None
            ):
                nodes[name] = remaining or node
        positional = tuple(name for name in self.positional if name in nodes)
        weights = {name: weight for name, weight in self.weights.items() if name not in stored}
        aliases = {name: target for name, target in self.aliases.items() if target not in stored}
        return replace(self, nodes=nodes, positional=positional, exact=None, weights=weights, aliases=aliases)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Found:
        """Bind the arguments of a call to the program's inputs."""
        if self.exact and (leaves := self.exact(args, kwargs)) is not None:
            return Found(list(zip(self.slots, leaves, strict=True)))
        if not kwargs and len(args) == len(self.slots) and self._is_flat(args):
            return Found(list(zip(self.slots, args, strict=True)))
        bound_call = Found()
        self.assign(Branch(self.nodes.items()), self._by_parameter(args, kwargs, bound_call), bound_call)
        if not bound_call.faults:
            bound_call.faults += bound_call.objects
        return bound_call

    def _is_flat(self, args: Sequence[Any]) -> bool:
        """Whether `args` are one array per input, in an order that does not depend on the order of a dict."""
        if any(opened(argument) is not None or is_dataclass(argument) for argument in args):
            return False
        return self.in_order or not any(map(_has_keys, self.nodes.values()))

    def _by_parameter(self, args: Sequence[Any], kwargs: Mapping[str, Any], bound_call: Found) -> dict[str, Any]:
        """Return {parameter: argument} by Python's rules for calls. Adds faults to `bound_call`."""
        by_parameter: dict[str, Any] = dict(zip(self.positional, args, strict=False))
        if self.rest:
            by_parameter[self.rest] = tuple(args[len(self.positional) :])
        elif len(args) > len(self.positional):
            names = shortened(", ".join(self.positional))
            message = (
                f"{len(args)} arguments were given by position, but the program takes {len(self.positional)}: {names}"
            )
            bound_call.faults.append(message)
        extra: dict[str, Any] = {}
        keywords: dict[str, str] = {}  # parameter -> the name under which the caller passed it
        for name, value in kwargs.items():
            parameter = self._parameter(name)
            if (first_name := keywords.setdefault(parameter, name)) != name and same_array(
                by_parameter[parameter], value
            ):
                continue  # A state_dict may contain one tensor under two names.
            if parameter in by_parameter:
                bound_call.faults.append(
                    _twice(name, first_name) if first_name != name else f"argument '{name}' is given twice"
                )
            elif self.extra and parameter not in self.nodes:
                extra[name] = value
            else:
                by_parameter[parameter] = value
        return by_parameter | {self.extra: extra} if self.extra else by_parameter

    def _parameter(self, name: str) -> str:
        """Return the name of the parameter that a keyword refers to. The keyword may be a numbered name or an alias."""
        node = None if name in self.nodes else self._numbered.get(name, self.by_name.get(self.aliases.get(name, "")))
        return next((root for root, parameter_node in self.nodes.items() if parameter_node is node), name)

    def assign(self, node: Node, argument: Any, bound_call: Found, path: Path = (), partial: bool = False) -> None:
        """Bind the leaves of `argument` to the slots of `node`. Leaves may be missing if `partial`.

        Adds the pairs and the faults to `bound_call`.
        """
        if isinstance(node, Slot):
            if node.number is not None and (isinstance(argument, Mapping) or (argument is None and not partial)):
                bound_call.faults.append(
                    f"argument '{node.name}' is {_argument_kind(argument)}, but the program takes an array there"
                )
            else:
                bound_call.pairs.append((node, argument))
            return
        actual_form, children = children_like(argument, node.form, tuple(node)) or (Form(), None)
        if children is not None:
            bound_call.objects += _object_mismatch(node.form, actual_form, path, self.exact is not None)
        if children is None:
            message = f"argument '{dotted(path)}' is {_argument_kind(argument)}, but the program takes a structure with {_listed(node)}"
            bound_call.faults.append(message)
            return
        for key, branch in node.items():
            if key in children:
                self.assign(branch, children[key], bound_call, (*path, key), partial)
            elif not partial and any(
                slot.number is not None and slot.name not in self.weights for slot in slots_of(branch)
            ):
                bound_call.faults.append(f"argument '{dotted((*path, key))}' is missing")
        bound_call.faults += [
            _unknown(key, node, path) for key in children if key not in node and any(flatten(children[key]))
        ]

    def __str__(self) -> str:
        return shortened(f"({', '.join(_signature_text(name, node) for name, node in self.nodes.items())})")


def signature_of(names: Sequence[str]) -> Signature:
    """Derive a signature from the input names alone: input `params.w` is the leaf `w` of parameter `params`."""
    slots = [Slot(name, index) for index, name in enumerate(names)]
    nodes: Mapping[str, Node] | None = tree_of((tuple(canonical(slot.name).split(".")), slot) for slot in slots)
    if nodes is None:
        nodes = {slot.name: slot for slot in slots}
    return Signature(nodes, tuple(nodes), in_order=True)


def input_named(name: str, inputs: Iterable[str]) -> str | None:
    """Return the input for the name of a tensor in a file, or None if no input matches.

    `h/0/w`, `params.h.0.w` and `params['h'][0]['w']` all refer to input `params.h.0.w`. The name may omit the parameter
    (`params`) if only one parameter has such a tensor.
    """
    canonical_name, input_names = canonical(name.replace("/", ".")), [*inputs]
    if name in input_names or canonical_name in input_names:
        return name if name in input_names else canonical_name
    candidates = [
        candidate
        for candidate in input_names
        if candidate.partition(".")[2] == canonical_name and not _is_numbered(candidate)
    ]
    return candidates[0] if len(candidates) == 1 else None


def _is_numbered(name: str) -> bool:
    """Whether a name starts with a numbered name of a parameter, as in `arg0.w`."""
    return re.match(r"arg\d+\.", name) is not None


def _nodes_by_name(node: Node, name: str) -> Iterator[tuple[str, Node]]:
    yield name, node
    for key, branch in {} if isinstance(node, Slot) else node.items():
        yield from _nodes_by_name(branch, f"{name}.{key}")


def _has_keys(node: Node) -> bool:
    """Whether a container in `node` has several children with names instead of indices."""
    if isinstance(node, Slot):
        return False
    return (len(node) > 1 and not all(map(str.isdecimal, node))) or any(map(_has_keys, node.values()))


def _object_mismatch(expected: Form, actual: Form, path: Path, is_traced: bool) -> list[str]:
    """Return a message if an object does not match the program: its class or its static fields differ from `expected`.

    With `is_traced` (this process traced the program), static fields such as functions count as different even if their
    texts are equal, because equal texts do not prove that the functions are equal.
    """
    if actual.kind not in ("object", "mapping") or expected.kind not in ("object", "mapping"):
        return []
    message = f"argument '{dotted(path)}' is a {actual.title}, but the program was made for a {expected.title}"
    if actual.title != expected.title:
        return [message]
    if actual.static == expected.static and not (is_traced and actual.static.startswith(LOOSE)):
        return []
    fields = (form.static.removeprefix(LOOSE) or "none" for form in (actual, expected))
    return [message + " with other static fields: {}, not {}".format(*fields)]


def _twice(name: str, other: str) -> str:
    return f"'{name}' and '{other}' are names of one tensor, but two different values were given"


def _unknown(key: str, node: Mapping[str, Any], path: Path) -> str:
    similar = nearest_names(key, node, 1)
    suggestion = f"; did you mean '{dotted((*path, *similar))}'?" if similar else ""
    return f"unknown argument '{dotted((*path, key))}'{suggestion}"


def _argument_kind(argument: Any) -> str:
    """Return a noun phrase for an argument, for messages."""
    if argument is None:
        return "None"
    if isinstance(argument, Mapping):
        return f"a dict with {_listed(cast('Mapping[Any, Any]', argument)) or 'nothing'}"
    return "an array" if hasattr(argument, "dtype") else f"a {type(argument).__name__}"


def _listed(keys: Iterable[Any]) -> str:
    return shortened(", ".join(map(str, keys)))


def _signature_text(name: str, node: Node) -> str:
    if isinstance(node, Slot):
        return name
    return f"{name}: {{{', '.join(_signature_text(key, branch) for key, branch in node.items())}}}"


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."
