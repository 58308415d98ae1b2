"""Structured arguments, state and results of an entry function in a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from meshgen.calls.argument_tree import Branch, Slot, rebuilt, without
from meshgen.calls.arrays import NoArrayError, argument_array, is_number_or_key
from meshgen.calls.signature import Found, Signature
from meshgen.calls.structure_forms import Form, Maker, object_builders
from meshgen.errors import ArgumentError, Diagnostic
from meshgen.ir.graph import TensorType
from meshgen.runtime.dlpack import on_host
from meshgen.runtime.sessions.sharded import ShardedArray


class Structures:
    """Converts the structured arguments and results of an entry function to arrays and back.

    Objects in results have the classes of the objects that callers passed.

    Attributes:
        unread: values of the arguments that the program does not read. A value is what the caller passed, or the latest
            result that is the argument's next value.
    """

    def __init__(self, call: Signature, types: Mapping[str, TensorType]) -> None:
        self._call, self._types = call, types
        self._makers: dict[tuple[Form, tuple[str, ...]], Maker] = {}
        self.unread: dict[str, Any] = {}
        self._names = {slot.name for slot in call.slots if slot.number is not None}

    @property
    def aliases(self) -> Mapping[str, str]:
        """Return a map from alternative names of inputs to the names of the inputs."""
        return self._call.aliases

    def settle(self, passed: Iterable[str], next_values: Iterable[int]) -> None:
        """Set which arguments callers pass, and which results callers do not get because they are next values of state."""
        self._step = self._call.storing(self._names - {*passed})
        next_value_results = {*next_values}
        self._result = (
            without(self._call.result, lambda slot: slot.number in next_value_results) if self._call.result else None
        )
        if isinstance(self._result, Branch) and self._result.form.kind == "tuple" and len(self._result) == 1:
            (self._result,) = self._result.values()

    def passed(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of a step's arguments by input name.

        Keywords may also name inputs that callers need not pass. Raises ArgumentError MG0601.
        """
        arrays: dict[str, Any] = {}
        bound_kwargs: dict[str, Any] = {}
        for name, value in kwargs.items():
            if name in self._step.nodes:
                bound_kwargs[name] = value
            elif name in self._names or name in self.aliases:
                arrays[name if name in self._names else self.aliases[name]] = value
            elif (leaves := self.leaves(name, value)) is not None:
                arrays |= leaves
            else:
                bound_kwargs[name] = value
        if not args and not bound_kwargs:
            return arrays
        self._makers |= object_builders((args, bound_kwargs))
        return arrays | self._leaves(self._step, self._step.bind(args, bound_kwargs))

    def leaves(self, name: str, value: Any) -> dict[str, Any] | None:
        """Return the arrays of a structured argument by input name, or None if no structured argument has this name."""
        node = self._call.node(name)
        if not isinstance(node, Branch):
            return None
        assignment = Found()
        self._call.assign(node, value, assignment, (name,))
        assignment.faults += assignment.objects
        self._makers |= object_builders(value)
        arrays = self._leaves(self._call, assignment)
        self.unread |= {slot.name: leaf for slot, leaf in assignment.pairs if slot.number is None}
        return arrays

    def value(self, name: str, array_of: Callable[[str], Any]) -> Any:
        """Return the value of a structured argument, built from the arrays of its inputs, which `array_of` returns.

        Returns None if no structured argument has this name.
        """
        node = self._call.node(name)
        if not isinstance(node, Branch):
            return None
        return rebuilt(
            node, lambda slot: self._unread(slot) if slot.number is None else array_of(slot.name), self._makers
        )

    def _unread(self, slot: Slot) -> Any:
        value = self.unread.get(slot.name)
        return value.numpy() if isinstance(value, ShardedArray) else value

    def results(self, arrays: Mapping[int, Any]) -> Any:
        """Return a step's results in their structure, without the results that are next values of arguments.

        `arrays` has the results by index.
        """
        if self._call.result is None:
            values = tuple(arrays.values())
            return values if len(values) > 1 else values[0] if values else None
        node = self._result
        return None if node is None else rebuilt(node, lambda slot: arrays[slot.number or 0], self._makers)

    def _leaves(self, signature: Signature, assignment: Found) -> dict[str, Any]:
        faults = [Diagnostic("MG0601", text, hint=f"the arguments are {signature}") for text in assignment.faults]
        arrays: dict[str, Any] = {}
        for slot, leaf in assignment.pairs:
            if slot.number is not None:
                try:
                    arrays[slot.name] = self._array(slot, leaf)
                except NoArrayError as error:
                    faults.append(Diagnostic("MG0601", f"argument '{slot.name}' is {error.what}", hint=error.hint))
        if faults:
            raise ArgumentError(*faults)
        return arrays

    def _array(self, slot: Slot, leaf: Any) -> Any:
        if isinstance(leaf, ShardedArray):
            return leaf
        value = leaf if is_number_or_key(leaf) else on_host(leaf)
        return argument_array(value, self._types[slot.name], slot.key, self._call.narrows)


def leaves_by_name(structures: Iterable[Structures], weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights by input name. Structured weights are replaced by their leaves."""
    structure_list = list(structures)
    arrays: dict[str, Any] = {}
    for name, value in weights.items():
        leaf_maps = [
            leaves
            for structure in structure_list
            if name not in structure.aliases and (leaves := structure.leaves(name, value)) is not None
        ]
        arrays |= {key: leaf for leaves in leaf_maps for key, leaf in leaves.items()} if leaf_maps else {name: value}
    return arrays
