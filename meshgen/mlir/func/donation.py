"""Reader and printer of donated arguments, in XLA's spelling: `tf.aliasing_output = N : i32` or `jax.buffer_donor =
true`.

The index N names the result that reuses the memory of the argument. In programs from JAX, N is ignored: JAX assigns
results to donated arguments by type, in order, whereas `frontend/pair_donations.py` does so by tree path. JAX states the
path of each result as `jax.result_info = "result[1]['w']"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Module
from meshgen.mlir.dialect import Dialect, ReadSlotAttr
from meshgen.mlir.literals import quoted
from meshgen.mlir.reader_state import Reading, Slot

ALIAS, DONOR, RESULT = "tf.aliasing_output", "jax.buffer_donor", "jax.result_info"


def _read_alias(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    if not isinstance(attribute, builtin.IntegerAttr):
        _refuse(reading, slot, f"{ALIAS} must be the number of a result, got {attribute}")
    elif slot.index in reading.module.donations:
        _refuse(reading, slot, f"{ALIAS} and {DONOR} exclude each other")
    else:
        reading.module.donations[slot.index] = attribute.value.data


def _read_donor(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    if not isinstance(attribute, builtin.IntegerAttr | builtin.UnitAttr):
        _refuse(reading, slot, f"{DONOR} must be true or false, got {attribute}")
    elif slot.index in reading.module.donations:
        _refuse(reading, slot, f"{ALIAS} and {DONOR} exclude each other")
    elif isinstance(attribute, builtin.UnitAttr) or attribute.value.data:
        reading.module.donations[slot.index] = None


def _read_result(reading: Reading, attribute: Attribute, slot: Slot) -> None:
    """Read the tree path of a result. If there is one, drop the result index of all donations: paths then decide."""
    if isinstance(attribute, builtin.StringAttr) and slot.side == "out":
        reading.module.result_paths[slot.index] = attribute.data
        reading.module.donations = dict.fromkeys(reading.module.donations)


def _refuse(reading: Reading, slot: Slot, text: str) -> None:
    slot_name = "argument" if slot.side == "in" else "result"
    reading.faults.append(Diagnostic("MG0110", f"{slot_name} {slot.index}: {text}", slot.loc))


def _only_on_arguments(name: str, read: ReadSlotAttr) -> ReadSlotAttr:
    def checked(reading: Reading, attribute: Attribute, slot: Slot) -> None:
        if slot.side == "in":
            read(reading, attribute, slot)
        else:
            _refuse(reading, slot, f"{name} applies to arguments only")

    return checked


def _write_donations(module: Module, slots: Sequence[Slot]) -> list[Mapping[str, str]]:
    return [
        {RESULT: quoted(module.result_paths[slot.index])}
        if slot.side == "out" and slot.index in module.result_paths
        else _donation(module, slot)
        for slot in slots
    ]


def _donation(module: Module, slot: Slot) -> Mapping[str, str]:
    if slot.side != "in" or slot.index not in module.donations:
        return {}
    output = module.donations[slot.index]
    return {DONOR: "true"} if output is None else {ALIAS: f"{output} : i32"}


PART = Dialect(
    slot_attrs={
        ALIAS: _only_on_arguments(ALIAS, _read_alias),
        DONOR: _only_on_arguments(DONOR, _read_donor),
        RESULT: _read_result,
    },
    slot_attr_writers=(_write_donations,),
)
