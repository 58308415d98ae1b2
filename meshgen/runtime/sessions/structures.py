"""The structures of an entry function in a session: arguments, state and results as the program has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from meshgen.calls.arrays import NoArrayError, argument_array, is_number_or_key
from meshgen.calls.classes import Form, Maker, makers_in
from meshgen.calls.nodes import Branch, Slot, rebuilt, without
from meshgen.calls.signature import Found, Signature
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.graph import TensorType
from meshgen.runtime.dlpack import on_host
from meshgen.runtime.sessions.sharded import ShardedArray


class Structures:
    """The call of an entry function. Objects in what it returns are of the classes of those that were given.

    `unread` are the values of arguments that the program does not read: as they were given, or the latest results that are their
    next values.
    """

    def __init__(self, call: Signature, types: Mapping[str, TensorType]) -> None:
        self._call, self._types = call, types
        self._makers: dict[tuple[Form, tuple[str, ...]], Maker] = {}
        self.unread: dict[str, Any] = {}
        self._names = {slot.name for slot in call.slots if slot.number is not None}

    @property
    def aliases(self) -> Mapping[str, str]:
        """Further names of the arguments."""
        return self._call.aliases

    def settle(self, passed: Iterable[str], taken: Iterable[int]) -> None:
        """Only these arguments are passed, and these results are next values of others."""
        self._step = self._call.storing(self._names - {*passed})
        held = {*taken}
        self._result = without(self._call.result, lambda slot: slot.number in held) if self._call.result else None
        if isinstance(self._result, Branch) and self._result.form.kind == "tuple" and len(self._result) == 1:
            (self._result,) = self._result.values()

    def passed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of a step's arguments by input; keywords may be inputs that are not passed. Raises ArgumentError MG0601."""
        held: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in self._step.nodes:
                rest[name] = value
            elif name in self._names or name in self.aliases:
                held[name if name in self._names else self.aliases[name]] = value
            elif (leaves := self.leaves(name, value)) is not None:
                held |= leaves
            else:
                rest[name] = value
        if not args and not rest:
            return held
        self._makers |= makers_in((args, rest))
        return held | self._leaves(self._step, self._step.bind(args, rest))

    def leaves(self, name: str, value: Any) -> dict[str, Any] | None:
        """The arrays of an argument that is a structure, by input; None where the name is that of no structure."""
        node = self._call.node(name)
        if not isinstance(node, Branch):
            return None
        found = Found()
        self._call.assign(node, value, found, (name,))
        found.faults += found.objects
        self._makers |= makers_in(value)
        arrays = self._leaves(self._call, found)
        self.unread |= {slot.name: given for slot, given in found.pairs if slot.number is None}
        return arrays

    def value(self, name: str, array_of: Callable[[str], Any]) -> Any:
        """An argument that is a structure, of the arrays of its inputs; None where the name is that of no structure."""
        node = self._call.node(name)
        if not isinstance(node, Branch):
            return None
        return rebuilt(
            node, lambda slot: self._unread(slot) if slot.number is None else array_of(slot.name), self._makers
        )

    def _unread(self, slot: Slot) -> Any:
        value = self.unread.get(slot.name)
        return value.numpy() if isinstance(value, ShardedArray) else value

    def results(self, made: Mapping[int, Any]) -> Any:
        """The results of a step, by number, in their structure, without those that are next values."""
        if self._call.result is None:
            values = tuple(made.values())
            return values if len(values) > 1 else values[0] if values else None
        node = self._result
        return None if node is None else rebuilt(node, lambda slot: made[slot.number or 0], self._makers)

    def _leaves(self, signature: Signature, found: Found) -> dict[str, Any]:
        faults = [Diagnostic("MG0601", text, hint=f"the arguments are {signature}") for text in found.faults]
        arrays: dict[str, Any] = {}
        for slot, given in found.pairs:
            if slot.number is not None:
                try:
                    arrays[slot.name] = self._array(slot, given)
                except NoArrayError as error:
                    faults.append(Diagnostic("MG0601", f"argument '{slot.name}' is {error.what}", hint=error.hint))
        if faults:
            raise ArgumentError(*faults)
        return arrays

    def _array(self, slot: Slot, given: Any) -> Any:
        if isinstance(given, ShardedArray):
            return given
        value = given if is_number_or_key(given) else on_host(given)
        return argument_array(value, self._types[slot.name], slot.key, self._call.narrows)


def leaves_by_name(structures: Iterable[Structures], given: Mapping[str, Any]) -> dict[str, Any]:
    """Weights with those that are given as structures by the names of inputs."""
    known = list(structures)
    found: dict[str, Any] = {}
    for name, value in given.items():
        held = [
            leaves for each in known if name not in each.aliases and (leaves := each.leaves(name, value)) is not None
        ]
        found |= {key: leaf for leaves in held for key, leaf in leaves.items()} if held else {name: value}
    return found
