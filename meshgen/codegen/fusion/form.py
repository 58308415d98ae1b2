"""The form of a kernel: what its programs loop over."""

from __future__ import annotations

from enum import Enum


class KernelForm(Enum):
    """The form of the kernel of a group, and of the kernels that a template generates."""

    MAP = "map"  # computes each element from scratch
    REDUCE = "reduce"  # reduces along rows or columns
    GEMM = "gemm"  # multiplies matrices, or convolves, with an element-wise epilogue
    ATTENTION = "attention"  # multiplies twice, with a softmax between
    SEGMENTED = "segmented"  # runs kernels of other forms side by side
    OPAQUE = "opaque"  # runs a loop nest of one op; or not a kernel: a collective, control flow, an unknown op

    @property
    def is_row_wise(self) -> bool:
        """Whether all members of a group of this form share one iteration space, into which others can be added."""
        return self in (KernelForm.MAP, KernelForm.REDUCE)

    @property
    def multiplies(self) -> bool:
        """Whether a program computes a tile of a matrix product."""
        return self in (KernelForm.GEMM, KernelForm.ATTENTION)
