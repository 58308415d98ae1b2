"""The signature of a program: the structures that callers pass, and the input of each array in them.

    f(x, params), params = {"b": ..., "w": ...}     {"x": Slot(0), "params": {"b": Slot(1), "w": Slot(2)}}

Arguments are bound by position or name, their leaves by key: never by the order of a dict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, cast

from meshgen.calls.arrays import key_of_words, same_array
from meshgen.calls.classes import LOOSE, Form, children_like, makers_in, opened
from meshgen.calls.nodes import Branch, Node, Slot, rebuilt, slots_of, tree_of, without
from meshgen.calls.state import State
from meshgen.calls.trees import Path, canonical, dotted, flatten
from meshgen.errors import Diagnostic
from meshgen.names import nearest_names

SHOWN = 400  # characters of a signature in a message


@dataclass
class Found:
    """The arguments of a call: per input number (None: unused) its array, and what does not fit."""

    pairs: list[tuple[Slot, Any]] = field(default_factory=list[tuple[Slot, Any]])
    faults: list[str] = field(default_factory=list[str])
    objects: list[str] = field(default_factory=list[str])  # that were opened, whose static fields may differ


@dataclass(frozen=True)
class Signature:
    """The parameters of a program as callers know them.

    Attributes:
        nodes: what each parameter holds.
        positional: the parameters that may be given by position, in order.
        rest, extra: those that take further arguments by position, and by name (`*args` and `**kwargs`).
        exact: finds the leaves of arguments in the structure that the program was made for; None for any other.
        in_order: arrays in the order of the inputs are arguments as well: that is how the program was written.
        is_typed: the types of the arguments were given with the program, which leaves no sizes open.
        rebuild: puts outputs, given the arguments, into the very structure that the program returns; None: it is made by `result`.
        result: what it returns, as far as that is known: slots are outputs. None: one array or a tuple.
        narrows: 64-bit arrays are taken for 32-bit arguments, as JAX does.
        warnings: what was noticed while the program was read.
        weights: arrays that came with the program, by input: callers need not pass them, and modules store them.
        weight_names: the inputs that are parameters and buffers of a model, with and without arrays.
        aliases: further names of inputs. A weight may have the alias of one input where an argument has that very name.
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
        """All leaves in order: as callers know them, or as the inputs of a text are."""
        found = list(slots_of(dict(self.nodes)))
        return sorted(found, key=lambda slot: slot.number or 0) if self.in_order else found

    @cached_property
    def by_name(self) -> dict[str, Node]:
        """Every node by its name, by that of a number (`arg1.w`), and by aliases."""
        roots = self._numbered | dict(self.nodes)
        names = {name: node for root, branch in roots.items() for name, node in _nodes_by_name(branch, root)}
        names |= {slot.name: slot for slot in self.slots}
        return names | {
            name: names[target] for name, target in self.aliases.items() if name not in names and target in names
        }

    @cached_property
    def _numbered(self) -> dict[str, Node]:
        """The parameters by number; of a text, where `%arg1` is an input, the inputs."""
        nodes = self.slots if self.in_order else [self.nodes[name] for name in self.positional]
        return {f"arg{number}": node for number, node in enumerate(nodes)}

    def node(self, name: str) -> Node | None:
        """The node of this name, in any spelling (`params.w1`, `params['w1']`, `arg1.w1`)."""
        return self.by_name.get(name, self.by_name.get(canonical(name)))

    def named(self, given: Mapping[str, Any], faults: list[str]) -> dict[str, Any]:
        """A dict with names in any spelling, or with structures, as a dict by the names of inputs; unknown names stay."""
        table: dict[str, Any] = {}
        for name, value in given.items():
            node = self.weight(name) if isinstance(cast("Any", name), str) else None
            if node is None:
                table[name] = value
                continue
            found = Found()
            self.assign(node, value, found, (name,), partial=True)
            leaves = {slot.name: each for slot, each in found.pairs if slot.number is not None}
            faults += [_twice(name, key) for key in leaves if key in table and not same_array(table[key], leaves[key])]
            table |= leaves
            faults += found.faults
        return table

    def weight(self, name: str) -> Node | None:
        """The node that a weight is for: as `node`; of a file's tensors also `h/0/w` of the only parameter that has it.

        Of an argument and a tensor of the model with one name, the latter.
        """
        found = self.node(self.aliases.get(name, name))
        return found if found is not None else self.by_name.get(input_named(name, self.by_name) or "")

    def results(self, outputs: Sequence[Any], given: Any = None) -> Any:
        """The outputs as callers get them; objects are of the classes of those in the `given` arguments."""
        node = self.result
        if node is None and self.rebuild is None:
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        keys = {slot.number: slot.key for slot in slots_of(node or Branch()) if slot.key}
        made = [key_of_words(each, keys[n]) if n in keys else each for n, each in enumerate(outputs)]
        if self.rebuild:
            return self.rebuild(made, given)
        return rebuilt(node or Branch(), lambda slot: made[slot.number or 0], makers_in(given))

    def storing(self, names: Iterable[str]) -> Signature:
        """The signature of a module that stores these inputs, which callers then do not pass."""
        held = {*names}
        if not held:
            return self
        nodes: dict[str, Node] = {}
        for name, node in self.nodes.items():
            is_left = any(slot.number is not None and slot.name not in held for slot in slots_of(node))
            if (left := without(node, lambda slot: slot.name in held)) == node or (is_left and left is not None):
                nodes[name] = left or node
        positional = tuple(name for name in self.positional if name in nodes)
        weights = {name: given for name, given in self.weights.items() if name not in held}
        aliases = {name: target for name, target in self.aliases.items() if target not in held}
        return replace(self, nodes=nodes, positional=positional, exact=None, weights=weights, aliases=aliases)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Found:
        """Bind the arguments of a call to the inputs."""
        if self.exact and (flat := self.exact(args, kwargs)) is not None:
            return Found(list(zip(self.slots, flat, strict=True)))
        if not kwargs and len(args) == len(self.slots) and self._is_flat(args):
            return Found(list(zip(self.slots, args, strict=True)))
        found = Found()
        self.assign(Branch(self.nodes.items()), self._by_parameter(args, kwargs, found), found)
        if not found.faults:
            found.faults += found.objects
        return found

    def _is_flat(self, args: Sequence[Any]) -> bool:
        """Whether arguments are arrays in the order of the inputs, which the order of keys cannot change."""
        if any(opened(each) is not None or is_dataclass(each) for each in args):
            return False
        return self.in_order or not any(map(_has_keys, self.nodes.values()))

    def _by_parameter(self, args: Sequence[Any], kwargs: Mapping[str, Any], found: Found) -> dict[str, Any]:
        """The arguments as Python binds them."""
        given: dict[str, Any] = dict(zip(self.positional, args, strict=False))
        if self.rest:
            given[self.rest] = tuple(args[len(self.positional) :])
        elif len(args) > len(self.positional):
            names = shortened(", ".join(self.positional))
            text = (
                f"{len(args)} arguments were given by position, but the program takes {len(self.positional)}: {names}"
            )
            found.faults.append(text)
        extra: dict[str, Any] = {}
        keywords: dict[str, str] = {}  # of each parameter the name that it is given by
        for name, value in kwargs.items():
            parameter = self._parameter(name)
            if (other := keywords.setdefault(parameter, name)) != name and same_array(given[parameter], value):
                continue  # two names of one tensor, as a state_dict has them
            if parameter in given:
                found.faults.append(_twice(name, other) if other != name else f"argument '{name}' is given twice")
            elif self.extra and parameter not in self.nodes:
                extra[name] = value
            else:
                given[parameter] = value
        return given | {self.extra: extra} if self.extra else given

    def _parameter(self, name: str) -> str:
        """The parameter of a keyword, which may be its number, or another name of it."""
        node = None if name in self.nodes else self._numbered.get(name, self.by_name.get(self.aliases.get(name, "")))
        return next((root for root, each in self.nodes.items() if each is node), name)

    def assign(self, node: Node, given: Any, found: Found, path: Path = (), partial: bool = False) -> None:
        """Walk a structure along the expected one; `partial`: leaves may be missing."""
        if isinstance(node, Slot):
            if node.number is not None and (isinstance(given, Mapping) or (given is None and not partial)):
                found.faults.append(
                    f"argument '{node.name}' is {_argument_kind(given)}, but the program takes an array there"
                )
            else:
                found.pairs.append((node, given))
            return
        form, held = children_like(given, node.form, tuple(node)) or (Form(), None)
        if held is not None:
            found.objects += _other_object(node.form, form, path, self.exact is not None)
        if held is None:
            text = f"argument '{dotted(path)}' is {_argument_kind(given)}, but the program takes a structure with {_listed(node)}"
            found.faults.append(text)
            return
        for key, branch in node.items():
            if key in held:
                self.assign(branch, held[key], found, (*path, key), partial)
            elif not partial and any(
                slot.number is not None and slot.name not in self.weights for slot in slots_of(branch)
            ):
                found.faults.append(f"argument '{dotted((*path, key))}' is missing")
        found.faults += [_unknown(key, node, path) for key in held if key not in node and any(flatten(held[key]))]

    def __str__(self) -> str:
        return shortened(f"({', '.join(_signature_text(name, node) for name, node in self.nodes.items())})")


def signature_of(names: Sequence[str]) -> Signature:
    """The signature of a program by the names of its inputs alone: `params.w` is the leaf `w` of `params`."""
    slots = [Slot(name, number) for number, name in enumerate(names)]
    nodes: Mapping[str, Node] | None = tree_of((tuple(canonical(slot.name).split(".")), slot) for slot in slots)
    if nodes is None:
        nodes = {slot.name: slot for slot in slots}
    return Signature(nodes, tuple(nodes), in_order=True)


def input_named(name: str, inputs: Iterable[str]) -> str | None:
    """The input that a tensor of a file is for: `h/0/w`, `params.h.0.w` or `params['h'][0]['w']` are `params.h.0.w`.

    Without its parameter only where one parameter has it.
    """
    spelled, known = canonical(name.replace("/", ".")), [*inputs]
    if name in known or spelled in known:
        return name if name in known else spelled
    ends = [each for each in known if each.partition(".")[2] == spelled and not _is_numbered(each)]
    return ends[0] if len(ends) == 1 else None


def _is_numbered(name: str) -> bool:
    """Whether a name starts with the number of a parameter, as `arg0.w`."""
    return re.match(r"arg\d+\.", name) is not None


def _nodes_by_name(node: Node, name: str) -> Iterator[tuple[str, Node]]:
    yield name, node
    for key, branch in {} if isinstance(node, Slot) else node.items():
        yield from _nodes_by_name(branch, f"{name}.{key}")


def _has_keys(node: Node) -> bool:
    """Whether there is a structure with several named children."""
    if isinstance(node, Slot):
        return False
    return (len(node) > 1 and not all(map(str.isdecimal, node))) or any(map(_has_keys, node.values()))


def _other_object(wanted: Form, form: Form, path: Path, is_traced: bool) -> list[str]:
    """The fault of an object whose class or static fields, which are part of the program, are not those wanted.

    Of a program that was traced in this process, texts alone do not prove that static fields are equal.
    """
    if form.kind not in ("object", "mapping") or wanted.kind not in ("object", "mapping"):
        return []
    text = f"argument '{dotted(path)}' is a {form.title}, but the program was made for a {wanted.title}"
    if form.title != wanted.title:
        return [text]
    if form.static == wanted.static and not (is_traced and form.static.startswith(LOOSE)):
        return []
    fields = (each.static.removeprefix(LOOSE) or "none" for each in (form, wanted))
    return [text + " with other static fields: {}, not {}".format(*fields)]


def _twice(name: str, other: str) -> str:
    return f"'{name}' and '{other}' are names of one tensor, but two different values were given"


def _unknown(key: str, node: Mapping[str, Any], path: Path) -> str:
    near = nearest_names(key, node, 1)
    meant = f"; did you mean '{dotted((*path, *near))}'?" if near else ""
    return f"unknown argument '{dotted((*path, key))}'{meant}"


def _argument_kind(given: Any) -> str:
    """The kind of an argument, for messages."""
    if given is None:
        return "None"
    if isinstance(given, Mapping):
        return f"a dict with {_listed(cast('Mapping[Any, Any]', given)) or 'nothing'}"
    return "an array" if hasattr(given, "dtype") else f"a {type(given).__name__}"


def _listed(keys: Iterable[Any]) -> str:
    return shortened(", ".join(map(str, keys)))


def _signature_text(name: str, node: Node) -> str:
    if isinstance(node, Slot):
        return name
    return f"{name}: {{{', '.join(_signature_text(key, branch) for key, branch in node.items())}}}"


def shortened(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]} ..."
