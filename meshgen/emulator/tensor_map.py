"""Tensor maps (TMA descriptors): 128 bytes that describe a tensor in global memory and the tile to copy.

The encoding of a GPU is not published, so the emulator uses its own. `tensormap.replace` and the emulated driver write
maps in this encoding.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from meshgen.emulator.faults import DeviceFault

NBYTES = 128  # size of a map in bytes (CUDA driver API, "Tensor Map Object Management": `CUtensorMap`)
ALIGNMENT = 64  # required alignment of a map in memory, in bytes (CUDA driver API, `CUtensorMap`)
MOST_DIMS = 5  # maximum number of dims (CUDA driver API, `tensorRank`)
_LAYOUT = struct.Struct("<QBBBBB3x5I5I4Q5I")
# Bytes of each element type: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz.
ITEM_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
SPANS = (16, 32, 64, 128)  # bytes of the row that each swizzle mode permutes; 16 means unswizzled
FIELDS = {  # field that `tensormap.replace` writes -> byte offset, and bytes of the field or of one list item
    "global_address": (0, 8), "rank": (8, 1), "elemtype": (9, 1), "interleave_layout": (10, 1), "swizzle_mode": (11, 1),
    "fill_mode": (12, 1), "box_dim": (16, 4), "global_dim": (36, 4), "global_stride": (56, 8), "element_stride": (88, 4),
}  # fmt: skip
LISTS = {"box_dim": 5, "global_dim": 5, "global_stride": 4, "element_stride": 5}


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory; dims are listed innermost first.

    Attributes:
        element: index of the element type in `ITEM_BYTES`.
        box: sizes of the tile that one copy moves.
        strides: stride in bytes of each dim except the first, whose elements are contiguous.
        swizzle: index of the swizzle mode in `SPANS`.
        fills_nan: whether elements outside the tensor read as NaN instead of zero.
    """

    address: int
    element: int
    box: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    swizzle: int = 0
    fills_nan: bool = False

    @property
    def item_bytes(self) -> int:
        return ITEM_BYTES[self.element]


def encode(value: TensorMap) -> bytes:
    """Return the 128 bytes that encode the map."""
    rank = len(value.box)
    padding = (0,) * (MOST_DIMS - rank)
    return _LAYOUT.pack(
        value.address, rank - 1, value.element, 0, value.swizzle, value.fills_nan, *value.box, *padding, *value.sizes, *padding,
        *value.strides, *(0,) * (MOST_DIMS - 1 - len(value.strides)), *(1,) * MOST_DIMS,
    ).ljust(NBYTES, b"\0")  # fmt: skip


def decode(content: bytes) -> TensorMap:
    """Return the tensor map that `content` encodes.

    Raises:
        DeviceFault: "opcode" or "alignment", a GPU refuses the map or the emulator does not support it.
    """
    address, rank, element, interleave, swizzle, fill, *fields = _LAYOUT.unpack(content[: _LAYOUT.size])
    rank += 1
    box, sizes, strides, steps = fields[:5], fields[5:10], fields[10:14], fields[14:]
    is_supported = (
        rank <= MOST_DIMS and element < len(ITEM_BYTES) and swizzle < len(SPANS) and fill < 2 and not interleave
    )
    if not is_supported or set(steps[:rank]) != {1}:
        raise DeviceFault("opcode", "a tensor map is malformed, or of a kind that the emulated GPU does not have")
    if address % 16 or any(stride % 16 for stride in strides[: rank - 1]):
        raise DeviceFault("alignment", "the address or a stride of a tensor map is not a multiple of 16 bytes")
    if not all(0 < size <= 256 for size in box[:rank]) or box[0] * ITEM_BYTES[element] % 16:
        raise DeviceFault(
            "opcode", f"a tensor map has boxes of {box[:rank]} elements: 1 to 256, and rows of whole 16 bytes"
        )
    return TensorMap(
        address, element, tuple(box[:rank]), tuple(sizes[:rank]), tuple(strides[: rank - 1]), swizzle, bool(fill)
    )
