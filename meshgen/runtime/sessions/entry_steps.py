"""The steps of one entry function of a session, and the memory for the arguments of the function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

from meshgen.errors import ArgumentError, Diagnostic, UsageError
from meshgen.ir.graph import TensorType
from meshgen.names import nearest_names
from meshgen.runtime.arguments import array_of, by_name
from meshgen.runtime.dlpack import on_host
from meshgen.runtime.engine_interfaces import LoadedEntry, LoadedPart
from meshgen.runtime.layout import Layout
from meshgen.runtime.module_file.manifest import Binding
from meshgen.runtime.sessions.argument_memory import Slot
from meshgen.runtime.sessions.devices import Devices, Shards, Steps
from meshgen.runtime.sessions.session_lock import Turns
from meshgen.runtime.sessions.sharded import ShardedArray
from meshgen.runtime.sessions.structures import Structures
from meshgen.runtime.sessions.weights import type_text

Place = tuple[int, int]  # index of a mesh; and index of a buffer in the plan of this mesh, or of one of its results
SlotOf = Callable[[str, TensorType], Slot]


class EntrySteps:
    """An entry function that is ready to run on the devices of a session.

    Attributes:
        passed: names of the arguments that callers pass at each step.
        state: the arguments that a step updates to their next values.
        structures: the structures of arguments and results, or None if callers pass and get plain arrays in order.
        number: number of steps so far. Results of earlier steps cannot be read.
    """

    def __init__(self, module: LoadedEntry, slot_of: SlotOf, devices: Devices, turns: Turns) -> None:
        """Allocate memory for the arguments.

        Raises UsageError MG0112 for donated arguments whose next value is ambiguous.
        """
        module.require_sizes()
        self._module, self._devices, self._turns = module, devices, turns
        self._next = next_values_of(module)
        self._slots: dict[str, Slot] = {}
        self._argument_layouts: dict[Place, tuple[Slot, Layout]] = {}
        self.state: list[Slot] = []
        self.passed: list[str] = []
        self.number = 0
        memory_reuse = {binding.name: binding.donated_to for binding in module.bindings}
        results = {result_index: (layout, result_place) for result_index, layout, result_place in _results(module)}
        self._in_place: list[
            tuple[Slot, Layout]
        ] = []  # arguments whose next value the devices write directly to the argument's memory
        # arguments whose next value is a result in another layout, which is copied after the step
        self._moved: list[tuple[Slot, Layout, Place]] = []
        for part, binding, layout in _arguments(module):
            slot = self._slots[binding.name] = slot_of(binding.name, binding.type)
            slot.in_layout(layout)
            self._argument_layouts[part, binding.buffer] = slot, layout
            result_index, memory = self._next.get(binding.name), memory_reuse[binding.name]
            if result_index is not None:
                self.state.append(slot)
                if result_index == memory:
                    self._in_place.append((slot, layout))
                else:
                    slot.in_layout(results[result_index][0])
                    self._moved.append((slot, *results[result_index]))
        types = {binding.name: binding.type for binding in module.bindings}
        self.structures = Structures(module.call, types) if module.call else None

    def settle(self) -> None:
        """Prepare the steps after weights have been loaded.

        From then on, callers pass only the arguments that are neither weights nor state.
        """
        parts = [part.loaded for part in self._module.parts]
        inputs: list[dict[int, Shards]] = [{} for _ in parts]
        for (part, buffer), (slot, layout) in self._argument_layouts.items():
            inputs[part][buffer] = slot.layouts[layout]
        self._steps: Steps = self._devices.steps(parts, inputs)
        state = {*self.state}
        names = [b.name for b in self._module.bindings]
        self.passed = [name for name in names if not self._slots[name].is_held and self._slots[name] not in state]
        self._several = [pair for pair in self._argument_layouts.values() if len(pair[0].layouts) > 1]
        self._rewritten = [pair for pair in self._in_place if len(pair[0].layouts) > 1]
        makers = {
            result_index: partial(self._result, layout, place) for result_index, layout, place in _results(self._module)
        }
        next_value_results = {*self._next.values()}
        self._results = {
            result_index: makers[result_index]
            for result_index in sorted(makers)
            if result_index not in next_value_results
        }
        self._unread = {
            name: makers[result_index] for name, result_index in self._next.items() if name not in self._slots
        }
        if self.structures:
            self.structures.settle(self.passed, next_value_results)

    def put(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Store the values of a step's arguments. Raises ArgumentError MG0601 that lists every invalid argument."""
        passed_values = self.structures.passed(args, kwargs) if self.structures else by_name(self.passed, args, kwargs)
        texts = [f"argument '{name}' is missing" for name in self.passed if name not in passed_values]
        texts += [self._unknown(name) for name in passed_values if name not in self._slots]
        values: list[tuple[Slot, Any]] = []
        for name in (name for name in passed_values if name in self._slots):
            value, text = _value(self._slots[name], passed_values[name])
            values.append((self._slots[name], value))
            texts += [text] if text else []
        if texts:
            hint = f"a step takes ({', '.join(f'{name}: {self._slots[name].type}' for name in self.passed)})"
            raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))
        for slot, value in values:
            slot.put(value)

    def step(self) -> Any:
        """Run a step on the stored arguments, and return the results that are not next values of state.

        Raises ArgumentError MG0601 if the state has no value yet.
        """
        if not self.number:
            self._require_state()
        for slot, layout in self._several:
            slot.need(layout)
        self.number += 1
        self._steps.run()
        for slot, layout in self._rewritten:
            slot.updated(layout)
        for slot, layout, (part, output) in self._moved:
            slot.copy(layout, self._steps.outputs[part][output])
        if self.structures:
            self.structures.unread |= {name: make(self.number) for name, make in self._unread.items()}
            return self.structures.results({number: make(self.number) for number, make in self._results.items()})
        results = tuple([make(self.number) for make in self._results.values()]) if self._results else ()
        return results if len(results) > 1 else results[0] if results else None

    def rebind(self, slot: Slot, shards: Shards) -> None:
        """Read argument `slot` from the memory of `shards` from the next step on."""
        for (part, buffer), (argument, _) in self._argument_layouts.items():
            if argument is slot:
                self._steps.rebind(part, buffer, shards)

    def _require_state(self) -> None:
        texts = [f"'{slot.name}' has no value yet" for slot in self._slots.values() if not slot.is_set]
        if texts:
            hint = "it is donated, so it stays between steps: set it once with session[name] = array"
            raise ArgumentError(*(Diagnostic("MG0601", text, hint=hint) for text in texts))

    def _result(self, layout: Layout, result_place: Place, step_number: int) -> ShardedArray:
        part, output = result_place

        def is_current() -> bool:
            return self.number == step_number

        return ShardedArray(layout, self._steps.outputs[part][output], self._devices, self._turns, is_current)

    def _unknown(self, name: str) -> str:
        near = nearest_names(name, self._slots, 1)
        return f"unknown argument '{name}'" + (f"; did you mean '{near[0]}'?" if near else "")


def _value(slot: Slot, value: Any) -> tuple[Any, str]:
    """Return `value` in a form that the slot can store, and an error message, which is empty if the type matches."""
    if isinstance(value, ShardedArray):
        type_name = str(value.layout.type)
    else:
        value, fault = array_of(slot.name, on_host(value))
        if fault:
            return value, fault
        type_name = type_text(value)
    return value, "" if type_name == str(
        slot.type
    ) else f"argument '{slot.name}' has type {type_name}, but the program takes {slot.type}"


def _part_modules(module: LoadedEntry) -> list[tuple[LoadedPart, int]]:
    """Return (module, global rank of the first device) for each mesh."""
    firsts = accumulate((part.manifest.mesh.size for part in module.parts), initial=0)
    return list(zip(module.parts, firsts, strict=False))


def _arguments(module: LoadedEntry) -> list[tuple[int, Binding, Layout]]:
    """Return (index of the mesh, argument, layout on the mesh) for each argument on each mesh."""
    return [
        (mesh_index, binding, Layout.of(binding, part.manifest, first, is_input=True))
        for mesh_index, (part, first) in enumerate(_part_modules(module))
        for binding in part.manifest.inputs
    ]


def _results(module: LoadedEntry) -> Iterator[tuple[int, Layout, Place]]:
    """Yield for each result: its index in the program, its layout, and the pair (index of its mesh, index there)."""
    numbers = {b.name: result_index for result_index, b in enumerate(module.outputs)}
    for mesh_index, (part, first) in enumerate(_part_modules(module)):
        for result_index, binding in enumerate(part.manifest.outputs):
            layout = Layout.of(binding, part.manifest, first, is_input=False)
            yield numbers[binding.name], layout, (mesh_index, result_index)


def next_values_of(module: LoadedEntry) -> dict[str, int]:
    """Return a map from each argument that a step updates to the index of the result that is its next value.

    Raises UsageError MG0112 for donated arguments whose next value is ambiguous.
    """
    state = module.state
    # A module without a signature: the result that reuses an argument's memory is the argument's next value.
    if state is None:
        return {b.name: b.donated_to for b in module.bindings if b.donated_to is not None}
    if state.undecided:
        raise UsageError(*(Diagnostic("MG0112", text, hint=hint) for text, hint in state.undecided.items()))
    return dict(state.next_values)
