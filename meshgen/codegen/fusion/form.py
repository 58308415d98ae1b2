"""The form of a kernel: the loops that its programs execute."""

from __future__ import annotations

from enum import Enum


class KernelForm(Enum):
    """The form of a group's kernel, and of the kernels that a template generates."""

    MAP = "map"  # computes each element independently
    REDUCE = "reduce"  # reduces along rows or columns
    GEMM = "gemm"  # multiplies matrices or convolves, with an element-wise epilogue
    ATTENTION = "attention"  # computes two matmuls with a softmax between them
    SEGMENTED = "segmented"  # runs kernels of other forms side by side
    OPAQUE = "opaque"  # runs a loop nest of one op; or launches no kernel: a collective, control flow, an unknown op

    @property
    def is_row_wise(self) -> bool:
        """Whether a group of this form has one iteration space for all members, to which fusion can add other nodes."""
        return self in (KernelForm.MAP, KernelForm.REDUCE)

    @property
    def multiplies(self) -> bool:
        """Whether each program of a kernel of this form computes a tile of a matmul."""
        return self in (KernelForm.GEMM, KernelForm.ATTENTION)
