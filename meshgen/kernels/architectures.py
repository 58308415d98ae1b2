"""GPU architectures: a table with one row per target, and the properties of each generation of tensor cores.

A new architecture of a known generation is a row of `ARCHITECTURES`. A new generation also needs a `TensorCores`, a
device in `meshgen/cost_model/kernels.py` that predicts its times, and tiles in `matmul.py` and `attention.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorCores:
    """A generation of tensor cores.

    Attributes:
        device: name of the device in the cost model whose times represent the generation.
        instructions: SASS mnemonics of GEMMs on tensor cores.
        has_tma: whether tensor descriptors can copy operands.
        specializes_warps: whether warp-specialized kernels have a producer warp group that copies for two consumer warp
            groups. On sm_100 one thread issues the instructions, and Triton assigns work to warps.
        promotes_f8: whether accumulators of 8-bit floats keep only about 14 bits, so that each step is added to an f32
            accumulator.
    """

    device: str
    instructions: tuple[str, ...]
    has_tma: bool = False
    specializes_warps: bool = False
    promotes_f8: bool = False

    def promotes(self, dtype: str) -> bool:
        """Whether matmuls of `dtype` add the sum of each step (at most 128 elements) to a separate f32 accumulator.

        This is the case for fp8 on sm_90. Source: DeepSeek-V3 Technical Report, section 3.3.2.
        """
        return dtype.startswith("f8") and self.promotes_f8


MMA = TensorCores("sm_80", ("HMMA", "IMMA", "DMMA"))
WGMMA = TensorCores(
    "sm_90", ("HGMMA", "QGMMA", "IGMMA"), has_tma=True, specializes_warps=True, promotes_f8=True
)  # PTX ISA 8.7, wgmma.mma_async; DeepSeek-V3 Technical Report, section 3.3.2
TCGEN05 = TensorCores("sm_100", ("UTCHMMA",), has_tma=True)  # PTX ISA 8.7, tcgen05.mma


@dataclass(frozen=True)
class Architecture:
    """A GPU architecture for which modules are compiled.

    Attributes:
        products: names of GPUs with this architecture.
        shared_bytes: bytes of shared memory that one block can use.
        has_f8: whether the architecture has conversions to and from f8E4M3FN.
        assembler: the program in Triton's package that assembles PTX for the architecture.

    Source: CUDA C++ programming guide, "Technical specifications per compute capability"; PTX ISA, `cvt`.
    """

    name: str
    products: str
    tensor_cores: TensorCores
    shared_bytes: int
    has_f8: bool = True
    assembler: str = "ptxas"


ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (
        Architecture("sm_80", "A100", MMA, 166912, has_f8=False),
        Architecture("sm_86", "A10, RTX 30", MMA, 101376, has_f8=False),
        Architecture("sm_87", "Orin", MMA, 166912, has_f8=False),
        Architecture("sm_89", "L4, L40, RTX 40", MMA, 101376),
        Architecture("sm_90", "H100, H200", WGMMA, 232448),
        Architecture("sm_100", "B200", TCGEN05, 232448, assembler="ptxas-blackwell"),
        Architecture("sm_103", "B300", TCGEN05, 232448, assembler="ptxas-blackwell"),
        Architecture("sm_120", "RTX 50", MMA, 101376, assembler="ptxas-blackwell"),
        Architecture("sm_121", "DGX Spark", MMA, 101376, assembler="ptxas-blackwell"),
    )
}


def tensor_cores(architecture: str) -> TensorCores:
    """Return the generation of tensor cores of an architecture such as `sm_90`."""
    return ARCHITECTURES[architecture].tensor_cores
