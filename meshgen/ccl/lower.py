"""Lowering of collectives to the steps of one rank: NCCL calls, messages, and local copies.

    reduce_scatter of f32[2,4] along dim 1 over two devices
        Copy(operand[:, 0:2], operand[:, 2:4] -> scratch[2,2,2]), Group(reduce_scatter, scratch -> result)

An NCCL call goes directly from operand to result if both are contiguous. Otherwise the lowering with fewer bytes of
local copies is used: messages, or an NCCL call with copies. For example, an all_to_all sends each block as a message,
and an all_gather of tiles that are not adjacent in the result is unpacked from scratch. The steps of a collective with
several operands are concatenated; adjacent NCCL calls are one launch.
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
    """Return the steps of one device for a collective. `rank` numbers the devices of the collective's mesh.

    The collective must be valid (`structure_faults`). A result that is undefined on a device is not written. Padding in
    other results may be written.
    """
    lowered_steps: list[Step] = []
    start = 0  # Bytes of scratch in use. Steps of one launch run concurrently, so they must not share scratch.
    for operand, call in enumerate(collective.calls):
        lowered_steps += [moved(step, operand, start) for step in _LOWERINGS[call.op](call, rank)]
        start += aligned(packing(call).scratch_bytes)
    steps = tuple(filter(_is_needed, lowered_steps))
    scratch_bytes = packing(collective).scratch_bytes
    used = max((b.byte_end for step in steps for b in boxes_of(step) if b.buffer.kind == "scratch"), default=0)
    assert used <= scratch_bytes, f"{collective.op} uses {used} bytes of {scratch_bytes} of scratch on rank {rank}"
    return Lowered(steps, scratch_bytes)


def _is_needed(step: Step) -> bool:
    """Whether a step must run.

    Steps without elements are dropped, except messages: every rank has the same message steps.
    """
    match step:
        case Group():
            return step.count > 0
        case Copy() | Fill() | Reduce():
            return step.target.size > 0
        case _:
            return True
