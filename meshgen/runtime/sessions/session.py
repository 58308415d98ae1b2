"""A loaded module whose weights and state stay on the devices between steps.

    with mg.load("model.mgx").session(device="cuda", weights="model.safetensors") as session:
        session["cache"] = np.zeros(...)          # state: arguments that are donated to a result
        logits = session.decode(tokens)           # all other arguments are passed; the cache is updated in place
        np.asarray(logits)

Entry functions share memory by name: an argument with the same layout in several of them is stored once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from meshgen.errors import ArgumentError, Diagnostic, RuntimeFailure, UsageError, listed
from meshgen.ir.graph import TensorType, dtype_name
from meshgen.names import nearest_names
from meshgen.runtime.arguments import array_of
from meshgen.runtime.dlpack import on_host
from meshgen.runtime.loaded import LoadedEntry
from meshgen.runtime.sessions.devices import Devices
from meshgen.runtime.sessions.entry_steps import EntrySteps
from meshgen.runtime.sessions.sharded import ShardedArray
from meshgen.runtime.sessions.slots import Slot
from meshgen.runtime.sessions.structures import Structures, leaves_by_name
from meshgen.runtime.sessions.turns import Turns, in_turn
from meshgen.runtime.sessions.weights import WeightArguments, Weights, fitting_weights, type_text

Array = np.ndarray[Any, Any]
Result = Any  # arrays on the devices, in the structure of the program's results


class Session:
    """Steps of a module's entry functions on memory that they share. Made by `LoadedModule.session`."""

    def __init__(
        self,
        modules: Mapping[str, LoadedEntry],
        chosen: str | None,
        devices: Devices,
        weights: Weights,
        *,
        ignore_extra: bool = False,
    ) -> None:
        """`chosen`: the entry function that calling the session runs; None: it must be named. `ignore_extra`: as of `LoadedModule.session`."""
        self._devices, self._chosen, self.turns = devices, chosen, Turns()
        self._slots: dict[tuple[str, TensorType], Slot] = {}
        self._is_closed = False
        try:
            self._entries = {
                name: EntrySteps(module, self._slot, devices, self.turns) for name, module in modules.items()
            }
            self._hold_weights(modules, weights, ignore_extra=ignore_extra)
            for entry in self._entries.values():
                entry.settle()
        except BaseException:  # nobody will close it
            devices.abort()
            raise

    def __repr__(self) -> str:
        return f"Session({', '.join(map(repr, self._entries))}{', closed' if self._is_closed else ''})"

    def _slot(self, name: str, kind: TensorType) -> Slot:
        return self._slots.setdefault((name, kind), Slot(name, kind, self._devices))

    def _hold_weights(self, modules: Mapping[str, LoadedEntry], weights: Weights, *, ignore_extra: bool) -> None:
        """Copy the weights of the modules, and the given ones, to the devices."""
        types: dict[str, list[TensorType]] = {}
        for name, kind in self._slots:
            types.setdefault(name, []).append(kind)
        if isinstance(weights, Mapping):
            weights = leaves_by_name(self._structures(), weights)
        self._aliases = {name: target for each in self._structures() for name, target in each.aliases.items()}
        arguments = WeightArguments(types, [module.call for module in modules.values()])
        is_file = weights is not None and not isinstance(weights, Mapping)
        optional = {slot.name for entry in self._entries.values() for slot in entry.state}
        optional |= {each.name for module in modules.values() for each in module.bindings if each.stored}

        def missing(filled: Collection[str]) -> list[str]:
            begun = (group for group in arguments.structures if any(name in filled for name in group))
            names = arguments.parameters or [name for group in begun for name in group]
            return [name for name in names if name not in filled and name not in optional]

        given = fitting_weights(
            weights, arguments, ignore_extra=ignore_extra, missing=missing if is_file else None,
            hint="add them to the files, or give all weights as a dict by name",
        )  # fmt: skip
        for module in modules.values():
            for binding in (each for each in module.bindings if each.stored and each.name not in given):
                self._slots[binding.name, binding.type].hold(module.weight(binding.name))
        for name, array in given.items():
            self._slots[name, _type_of(array)].hold(array)

    def _structures(self) -> list[Structures]:
        return [entry.structures for entry in self._entries.values() if entry.structures]

    # --- steps -----------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        """A step of the default entry function. As `run`."""
        if self._chosen is None:
            text = f"the module has {len(self._entries)} entry functions: {listed([*self._entries])}"
            first = next(iter(self._entries))
            raise UsageError(
                Diagnostic("MG0001", text, hint=f"name one: session.{first}(...), session.run('{first}', ...)")
            )
        return self.run(self._chosen, *args, **kwargs)

    @in_turn
    def run(self, entry: str, *args: Any, **kwargs: Any) -> Result:
        """A step of an entry function.

        Args:
            args, kwargs: the arguments that are neither weights nor state, as the program takes them; by name also those, which
                get new values. Global arrays of NumPy, or of other libraries on the host; results of steps.
        Returns:
            The results that are not next values of state, as the program returns them: of a tuple with one left that, None
            where none is. They stay on the devices.
        Raises:
            UsageError: MG0001, unknown function, or the session is closed.
            ArgumentError: MG0601, with everything that does not fit.
            RuntimeFailure: MG0604, MG0608, the step fails, or one before it did; the session is closed then.
        """
        steps = self._entries.get(entry)
        if steps is None or self._is_closed:
            raise self._refusal(entry)
        if args or kwargs or steps.passed:
            steps.put(args, kwargs)
        self.turns.keep_results()
        try:
            return steps.step()
        except (RuntimeFailure, KeyboardInterrupt):  # the state of the devices is undefined now
            self._is_closed = True
            self._devices.abort()
            raise

    def __getattr__(self, name: str) -> Any:
        """`session.decode(...)` is a step of that entry function."""
        if name.startswith("_") or name not in self._entries:
            raise AttributeError(f"unknown entry function '{name}': the session has {listed([*self._entries])}")
        return lambda *args, **kwargs: self.run(name, *args, **kwargs)

    # --- state -----------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, tuple[TensorType, ...]]:
        """The arguments that persist between steps because they are donated, with their types."""
        kept = {slot for entry in self._entries.values() for slot in entry.state}
        found: dict[str, tuple[TensorType, ...]] = {}
        for slot in self._slots.values():
            if slot in kept:
                found[slot.name] = (*found.get(slot.name, ()), slot.type)
        return found

    @property
    def copies(self) -> dict[str, int]:
        """The arguments with several layouts on the devices, as entry functions need them, and how many."""
        return {slot.name: len(slot.layouts) for slot in self._slots.values() if len(slot.layouts) > 1}

    @in_turn
    def __getitem__(self, name: str) -> Any:
        """The value of a persistent argument: a global array, or a structure of them. Raises UsageError MG0001 if it has none."""
        for structures in () if self._is_closed else self._structures():
            if (value := structures.value(name, self._array)) is not None:
                return value
        return self._array(name)

    def _array(self, name: str) -> Array:
        held = [slot for slot in self._slots_named(name) if slot.is_set]
        if len(held) != 1:
            why = (
                "has no value yet"
                if not held
                else f"has values of {len(held)} types: {', '.join(str(s.type) for s in held)}"
            )
            raise UsageError(Diagnostic("MG0001", f"'{name}' {why}"))
        return held[0].numpy()

    @in_turn
    def __setitem__(self, name: str, value: Any) -> None:
        """Set the value of an argument: a global array, a result of a step, or a structure of them.

        Raises UsageError MG0001, also for an argument that is passed at each step, and ArgumentError MG0601.
        """
        for structures in () if self._is_closed else self._structures():
            if (leaves := structures.leaves(name, value)) is not None:
                self._require_kept(name, [*leaves])
                for each, array in leaves.items():
                    self._set(each, array)
                return
        self._require_kept(name, [self._slots_named(name)[0].name])
        self._set(name, value)

    def _require_kept(self, name: str, leaves: Sequence[str]) -> None:
        """Refuse an argument of which a session keeps nothing from step to step."""
        state = self.state
        kept = dict.fromkeys(slot.name for slot in self._slots.values() if slot.is_held or slot.name in state)
        if leaves and kept.keys().isdisjoint(leaves):
            text = f"'{name}' is passed at each step: it is neither donated nor one of the session's weights"
            hint = f"the session keeps {listed([*kept])}; compile with donate=[...], or give weights="
            raise UsageError(Diagnostic("MG0001", text, hint=hint))

    def _set(self, name: str, value: Any) -> None:
        slots = self._slots_named(name)
        if isinstance(value, ShardedArray):
            kind = value.layout.type
        else:
            value, fault = array_of(name, on_host(value))
            if fault:
                raise ArgumentError(Diagnostic("MG0601", fault))
            kind = _type_of(value)
        slot = next((slot for slot in slots if slot.type == kind), None)
        if slot is None:
            raise ArgumentError(
                Diagnostic("MG0601", f"'{name}' has type {kind}, but the program takes {slots[0].type}")
            )
        slot.put(value)

    @in_turn
    def bind(self, name: str, arrays: Sequence[Any]) -> list[bool]:
        """Use the memory of arrays on the devices for an argument, one per rank, until another one is bound.

        Memory is used without a copy where type, order, alignment (256 bytes) and device fit, and its library lets it be written; it
        must stay as long as the session. Others are copied. Donated arguments are updated there.

        Returns:
            Of each array whether it is used without a copy.
        Raises:
            UsageError: MG0001, unknown argument, or one with several layouts.
            ArgumentError: MG0601, these are not the local arrays of all ranks.
        """
        slots = [slot for slot in self._slots_named(name) if len(slot.layouts) == 1 and slot.takes(arrays)]
        if len(slots) != 1:
            have = ", ".join(str(layout.local_type) for slot in self._slots_named(name) for layout in slot.layouts)
            text = f"'{name}' is {have} on each rank: give one such array per rank"
            raise ArgumentError(Diagnostic("MG0601", text))
        (slot,) = slots
        shards, fits = slot.bind(arrays)
        for entry in self._entries.values():
            entry.rebind(slot, shards)
        return fits

    def _slots_named(self, name: str) -> list[Slot]:
        known = {own for own, _ in self._slots}
        name = name if name in known else self._aliases.get(name, name)
        found = [slot for (own, _), slot in self._slots.items() if own == name]
        if not found or self._is_closed:
            near = nearest_names(str(name), [own for own, _ in self._slots], 1)
            meant = f"; did you mean '{near[0]}'?" if near and not found else ""
            raise UsageError(Diagnostic("MG0001", self._closed or f"unknown argument '{name}'{meant}"))
        return found

    @property
    def _closed(self) -> str:
        return "the session is closed" if self._is_closed else ""

    def _refusal(self, entry: str) -> UsageError:
        text = self._closed or f"unknown entry function '{entry}'"
        return UsageError(Diagnostic("MG0001", text, hint=f"known entry functions are {listed([*self._entries])}"))

    # --- the end ---------------------------------------------------------------------------------------------------------

    @in_turn
    def close(self) -> None:
        """Free the devices. Results of steps cannot be read afterwards."""
        if not self._is_closed:
            self._is_closed = True
            for entry in self._entries.values():
                entry.number += 1
            self._devices.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _type_of(array: Array) -> TensorType:
    """Raises ArgumentError MG0601 for unsupported element types."""
    try:
        return TensorType(array.shape, dtype_name(array.dtype))
    except KeyError as error:
        raise ArgumentError(Diagnostic("MG0601", f"{type_text(array)} has an unsupported element type")) from error
