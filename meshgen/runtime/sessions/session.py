"""A loaded module whose weights and state stay on the devices between steps.

    with mg.load("model.mgx").session(device="cuda", weights="model.safetensors") as session:
        session["cache"] = np.zeros(...)          # state: arguments that are donated to a result
        logits = session.decode(tokens)           # all other arguments are passed; the cache is updated in place
        np.asarray(logits)

Entry functions share memory by name: an argument that several of them use with the same layout is stored once.
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
from meshgen.runtime.engine_interfaces import LoadedEntry
from meshgen.runtime.sessions.argument_memory import Slot
from meshgen.runtime.sessions.devices import Devices
from meshgen.runtime.sessions.entry_steps import EntrySteps
from meshgen.runtime.sessions.session_lock import Turns, in_turn
from meshgen.runtime.sessions.sharded import ShardedArray
from meshgen.runtime.sessions.structures import Structures, leaves_by_name
from meshgen.runtime.sessions.weights import WeightArguments, Weights, fitting_weights, type_text

Array = np.ndarray[Any, Any]
Result = Any  # a result: an array on the devices, or arrays in the structure of the program's results


class Session:
    """Runs steps of a module's entry functions, which share memory. Created by `LoadedModule.session`."""

    def __init__(
        self,
        modules: Mapping[str, LoadedEntry],
        chosen: str | None,
        devices: Devices,
        weights: Weights,
        *,
        ignore_extra: bool = False,
    ) -> None:
        """Allocate the arguments and load the weights.

        Args:
            chosen: the entry function that `session(...)` runs, or None if callers must name one:
                `session.decode(...)`.
            ignore_extra: whether to ignore tensors in `weights` that the program does not use.
        """
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
        except BaseException:  # Nobody else can close a session whose constructor failed.
            devices.abort()
            raise

    def __repr__(self) -> str:
        return f"Session({', '.join(map(repr, self._entries))}{', closed' if self._is_closed else ''})"

    def _slot(self, name: str, tensor_type: TensorType) -> Slot:
        return self._slots.setdefault((name, tensor_type), Slot(name, tensor_type, self._devices))

    def _hold_weights(self, modules: Mapping[str, LoadedEntry], weights: Weights, *, ignore_extra: bool) -> None:
        """Copy to the devices the weights that the modules store, and the weights that the caller passed."""
        types: dict[str, list[TensorType]] = {}
        for name, kind in self._slots:
            types.setdefault(name, []).append(kind)
        if isinstance(weights, Mapping):
            weights = leaves_by_name(self._structures(), weights)
        self._aliases = {name: target for item in self._structures() for name, target in item.aliases.items()}
        arguments = WeightArguments(types, [module.call for module in modules.values()])
        is_file = weights is not None and not isinstance(weights, Mapping)
        optional = {slot.name for entry in self._entries.values() for slot in entry.state}
        optional |= {item.name for module in modules.values() for item in module.bindings if item.stored}

        def missing(filled: Collection[str]) -> list[str]:
            begun = (group for group in arguments.structures if any(name in filled for name in group))
            names = arguments.parameters or [name for group in begun for name in group]
            return [name for name in names if name not in filled and name not in optional]

        arrays = fitting_weights(
            weights, arguments, ignore_extra=ignore_extra, missing=missing if is_file else None,
            hint="add them to the files, or give all weights as a dict by name",
        )  # fmt: skip
        for module in modules.values():
            for binding in (item for item in module.bindings if item.stored and item.name not in arrays):
                self._slots[binding.name, binding.type].hold(module.weight(binding.name))
        for name, array in arrays.items():
            self._slots[name, _type_of(array)].hold(array)

    def _structures(self) -> list[Structures]:
        return [steps.structures for steps in self._entries.values() if steps.structures]

    # --- steps -----------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Result:
        """Run a step of the default entry function. See `run`."""
        if self._chosen is None:
            text = f"the module has {len(self._entries)} entry functions: {listed([*self._entries])}"
            first = next(iter(self._entries))
            raise UsageError(
                Diagnostic("MG0001", text, hint=f"name one: session.{first}(...), session.run('{first}', ...)")
            )
        return self.run(self._chosen, *args, **kwargs)

    @in_turn
    def run(self, entry: str, *args: Any, **kwargs: Any) -> Result:
        """Run a step of an entry function.

        Args:
            args, kwargs: the arguments that are neither weights nor state, as the program takes them. A weight or state
                argument can be passed by name too and then gets a new value. Values are global arrays of NumPy or of
                another library on the host, or results of steps.
        Returns:
            The results that are not next values of state, in the structure that the program returns. A tuple with one
            remaining result is returned as that result, and an empty one as None. The arrays stay on the devices.
        Raises:
            UsageError: MG0001, unknown function, or the session is closed.
            ArgumentError: MG0601, lists every argument that does not fit.
            RuntimeFailure: MG0604 or MG0608, this step or an earlier one failed; the session is then closed.
        """
        steps = self._entries.get(entry)
        if steps is None or self._is_closed:
            raise self._refusal(entry)
        if args or kwargs or steps.passed:
            steps.put(args, kwargs)
        self.turns.keep_results()
        try:
            return steps.step()
        except (RuntimeFailure, KeyboardInterrupt):  # After a failed step, the state on the devices is undefined.
            self._is_closed = True
            self._devices.abort()
            raise

    def __getattr__(self, name: str) -> Any:
        """Return a function that runs a step of the entry function `name`, so that `session.decode(...)` works."""
        if name.startswith("_") or name not in self._entries:
            raise AttributeError(f"unknown entry function '{name}': the session has {listed([*self._entries])}")
        return lambda *args, **kwargs: self.run(name, *args, **kwargs)

    # --- state -----------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, tuple[TensorType, ...]]:
        """Return the type of each argument that is state, by name: it is donated, so it persists between steps."""
        state_slots = {slot for entry in self._entries.values() for slot in entry.state}
        types: dict[str, tuple[TensorType, ...]] = {}
        for slot in self._slots.values():
            if slot in state_slots:
                types[slot.name] = (*types.get(slot.name, ()), slot.type)
        return types

    @property
    def copies(self) -> dict[str, int]:
        """Return the number of layouts of each argument that entry functions use in more than one layout."""
        return {slot.name: len(slot.layouts) for slot in self._slots.values() if len(slot.layouts) > 1}

    @in_turn
    def __getitem__(self, name: str) -> Any:
        """Return the value of a persistent argument, as a global array or a structure of global arrays.

        Raises UsageError MG0001 if it has no value.
        """
        for structures in () if self._is_closed else self._structures():
            if (value := structures.value(name, self._array)) is not None:
                return value
        return self._array(name)

    def _array(self, name: str) -> Array:
        slots_with_value = [slot for slot in self._slots_named(name) if slot.is_set]
        if len(slots_with_value) != 1:
            reason = (
                "has no value yet"
                if not slots_with_value
                else f"has values of {len(slots_with_value)} types: {', '.join(str(s.type) for s in slots_with_value)}"
            )
            raise UsageError(Diagnostic("MG0001", f"'{name}' {reason}"))
        return slots_with_value[0].numpy()

    @in_turn
    def __setitem__(self, name: str, value: Any) -> None:
        """Set the value of a persistent argument.

        `value` is a global array, a result of a step, or a structure of these.

        Raises UsageError MG0001 if the argument is passed at each step or unknown, and ArgumentError MG0601 if the
        value has another type.
        """
        for structures in () if self._is_closed else self._structures():
            if (leaves := structures.leaves(name, value)) is not None:
                self._require_kept(name, [*leaves])
                for leaf_name, array in leaves.items():
                    self._set(leaf_name, array)
                return
        self._require_kept(name, [self._slots_named(name)[0].name])
        self._set(name, value)

    def _require_kept(self, name: str, leaves: Sequence[str]) -> None:
        """Raise UsageError MG0001 for an argument that does not persist between steps."""
        state = self.state
        persistent = dict.fromkeys(slot.name for slot in self._slots.values() if slot.is_held or slot.name in state)
        if leaves and persistent.keys().isdisjoint(leaves):
            text = f"'{name}' is passed at each step: it is neither donated nor one of the session's weights"
            hint = f"the session keeps {listed([*persistent])}; compile with donate=[...], or give weights="
            raise UsageError(Diagnostic("MG0001", text, hint=hint))

    def _set(self, name: str, value: Any) -> None:
        slots = self._slots_named(name)
        if isinstance(value, ShardedArray):
            value_type = value.layout.type
        else:
            value, fault = array_of(name, on_host(value))
            if fault:
                raise ArgumentError(Diagnostic("MG0601", fault))
            value_type = _type_of(value)
        slot = next((slot for slot in slots if slot.type == value_type), None)
        if slot is None:
            raise ArgumentError(
                Diagnostic("MG0601", f"'{name}' has type {value_type}, but the program takes {slots[0].type}")
            )
        slot.put(value)

    @in_turn
    def bind(self, name: str, arrays: Sequence[Any]) -> list[bool]:
        """Use the memory of the caller's arrays, one per rank, for an argument until other arrays are bound.

        An array is used without a copy if it is writable, contiguous, aligned to 256 bytes, of the argument's type, and
        on the device of the rank. Its memory must then outlive the session. Any other array is copied. Donated
        arguments are updated in the bound memory.

        Returns:
            For each array, whether it is used without a copy.
        Raises:
            UsageError: MG0001, unknown argument.
            ArgumentError: MG0601, `arrays` are not the local arrays of all ranks, or the argument has several layouts.
        """
        slots = [slot for slot in self._slots_named(name) if len(slot.layouts) == 1 and slot.takes(arrays)]
        if len(slots) != 1:
            local_types = ", ".join(
                str(layout.local_type) for slot in self._slots_named(name) for layout in slot.layouts
            )
            text = f"'{name}' is {local_types} on each rank: give one such array per rank"
            raise ArgumentError(Diagnostic("MG0601", text))
        (slot,) = slots
        shards, fits = slot.bind(arrays)
        for entry in self._entries.values():
            entry.rebind(slot, shards)
        return fits

    def _slots_named(self, name: str) -> list[Slot]:
        argument_names = {slot_name for slot_name, _ in self._slots}
        name = name if name in argument_names else self._aliases.get(name, name)
        slots = [slot for (slot_name, _), slot in self._slots.items() if slot_name == name]
        if not slots or self._is_closed:
            near = nearest_names(str(name), [slot_name for slot_name, _ in self._slots], 1)
            suggestion = f"; did you mean '{near[0]}'?" if near and not slots else ""
            raise UsageError(Diagnostic("MG0001", self._closed or f"unknown argument '{name}'{suggestion}"))
        return slots

    @property
    def _closed(self) -> str:
        return "the session is closed" if self._is_closed else ""

    def _refusal(self, entry: str) -> UsageError:
        text = self._closed or f"unknown entry function '{entry}'"
        return UsageError(Diagnostic("MG0001", text, hint=f"known entry functions are {listed([*self._entries])}"))

    # --- closing ---------------------------------------------------------------------------------------------------------

    @in_turn
    def close(self) -> None:
        """Free the memory on the devices. Results of steps cannot be read afterwards."""
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
    """Return the type of an array. Raises ArgumentError MG0601 for an unsupported element type."""
    try:
        return TensorType(array.shape, dtype_name(array.dtype))
    except KeyError as error:
        raise ArgumentError(Diagnostic("MG0601", f"{type_text(array)} has an unsupported element type")) from error
