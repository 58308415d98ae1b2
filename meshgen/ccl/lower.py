"""Lowering of collectives to the steps of one rank: NCCL calls and messages over contiguous memory, and copies around them.

    reduce_scatter of f32[2,4] along dim 1 over two devices
        Copy(operand[:, 0:2], operand[:, 2:4] -> scratch[2,2,2]), Group(reduce_scatter, scratch -> result)

An NCCL call goes directly from operand to result where both are contiguous in it. Else messages are compared with a call and
copies by the local bytes: an all_to_all sends each block by itself, an all_gather of tiles that are not one after the other is
unpacked from scratch. The steps of the operands of a group call are concatenated: adjacent NCCL calls
are one launch.
"""

from __future__ import annotations

from collections.abc import Callable

from meshgen.ccl import lower_groups, lower_moves, lower_transfers
from meshgen.ccl.collective import Collective
from meshgen.ccl.packing import aligned, packing
from meshgen.ccl.steps import Copy, Fill, Group, Lowered, Reduce, Step, boxes_of, moved

_LOWERINGS: dict[str, Callable[[Collective, int], list[Step]]] = {
    "all_reduce": lower_groups.all_reduce,
    "all_gather": lower_groups.all_gather,
    "reduce_scatter": lower_groups.reduce_scatter,
    "broadcast": lower_groups.broadcast,
    "reduce_to": lower_groups.reduce_to,
    "all_to_all": lower_moves.all_to_all,
    "fetch_rows": lower_moves.fetch_rows,
    "gather_to": lower_moves.gather_to,
    "scatter_from": lower_moves.scatter_from,
    "shift": lower_moves.shift,
    "permute_pairs": lower_moves.permute_pairs,
    "send": lower_moves.send,
    "recv": lower_moves.recv,
    "permute": lower_transfers.transfer,
    "retile": lower_transfers.transfer,
    "update_halo": lower_transfers.transfer,
    "transfer_send": lower_transfers.transfer_send,
    "transfer_recv": lower_transfers.transfer_recv,
}


def lower(collective: Collective, rank: int) -> Lowered:
    """The steps of device `rank` of the collective's mesh.

    The collective must be sound (`structure_faults`). An undefined result of a device is not
    written; padding in others may be.
    """
    found: list[Step] = []
    start = 0  # in scratch: steps launched together must not share any
    for number, call in enumerate(collective.calls):
        found += [moved(step, number, start) for step in _LOWERINGS[call.op](call, rank)]
        start += aligned(packing(call).scratch_bytes)
    steps = tuple(filter(_does_something, found))
    scratch_bytes = packing(collective).scratch_bytes
    used = max((b.byte_end for step in steps for b in boxes_of(step) if b.buffer.kind == "scratch"), default=0)
    assert used <= scratch_bytes, f"{collective.op} uses {used} bytes of {scratch_bytes} of scratch on rank {rank}"
    return Lowered(steps, scratch_bytes)


def _does_something(step: Step) -> bool:
    """Whether a step has elements; messages stay, because other ranks may have some there."""
    match step:
        case Group():
            return step.count > 0
        case Copy() | Fill() | Reduce():
            return step.target.size > 0
        case _:
            return True
