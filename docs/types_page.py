"""Write the page on element types: which of them each target supports, read from the compiler's tables."""

from __future__ import annotations

from meshgen.ccl.lower_groups import native_reduction
from meshgen.codegen.building.candidates import TENSOR_CORE_DTYPES
from meshgen.ir.dtypes import DTYPES
from meshgen.ir.graph import is_complex
from meshgen.kernels.architectures import ARCHITECTURES
from meshgen.ops.triton.registers import TRITON_TYPES

HEAD = """Programs may use all types of the table. Simulated ranks (`--device reference`) compute with all of them in NumPy. The other columns
say what generated kernels and collectives do on GPUs.

- **kernels**: whether a generated kernel can load and store elements of the type. A program that needs another type on a GPU is refused (MG0301).
- **GEMM**: how dots, convolutions and attention multiply elements of the type. Accumulators of narrow floats are f32.
- **sum over devices**: how an all-reduce adds elements. *NCCL* means one call of NCCL. *devices* means that each device receives the
  summands of its part in one exchange, reduces them in a kernel and sends the result to the others. Both move as many bytes.
"""
NOTES = """
Every type can be gathered, permuted and sent: NCCL then moves bytes.

`precision` decides how f32 operands are multiplied: DEFAULT uses tf32 tensor cores, HIGH adds three tf32 products, and HIGHEST uses the
FMA pipes ([operations](ops.md)). `--precision` sets it for a whole program.

f8E4M3FN needs an architecture with conversions for it: {f8}. On sm_90 the tensor cores keep about 14 bits of a sum of 8-bit floats, so
kernels add every 128 elements to an f32 accumulator.

Boolean values are bytes in memory.

## Architectures

{architectures}
Cubins of an architecture run on devices of the same major version. PTX in the module runs on later ones, where the driver compiles it.
"""


def types_page(note: str) -> str:
    rows = "".join(
        f"| `{name}` | {DTYPES[name]} | {_kernels(name)} | {_gemm(name)} | {_sums(name)} |\n" for name in DTYPES
    )
    table = f"| type | NumPy | kernels | GEMM | sum over devices |\n| --- | --- | --- | --- | --- |\n{rows}"
    f8 = ", ".join(f"`{architecture.name}`" for architecture in ARCHITECTURES.values() if architecture.has_f8)
    notes = NOTES.format(f8=f8, architectures=_architectures())
    return f"# Element types\n\n{note}\n{HEAD}\n{table}{notes}"


def _kernels(name: str) -> str:
    if is_complex(name):
        return "as pairs of real numbers"
    if name not in TRITON_TYPES:
        return "no"
    return {"f8E4M3FN": "from sm_89", "f8E5M2": "yes; rounding to it from sm_89"}.get(name, "yes")


def _gemm(name: str) -> str:
    if name == "f32":
        return "tensor cores as tf32, or FMA pipes"
    if name in TENSOR_CORE_DTYPES:
        return "tensor cores"
    if is_complex(name):
        return "as products of real numbers"
    if name == "f64":
        return "FP64 units"
    return "integer pipes" if name in TRITON_TYPES else "no"


def _sums(name: str) -> str:
    if name.startswith("f8") and name in TRITON_TYPES:
        return "NCCL, as f32"
    if native_reduction("sum", name, name):
        return "NCCL"
    return "devices" if name in TRITON_TYPES else "no"


def _architectures() -> str:
    rows = [
        f"| `{architecture.name}` | {architecture.products} | {architecture.shared_bytes // 1024} KiB | {'yes' if architecture.tensor_cores.has_tma else 'no'} | "
        f"{', '.join(architecture.tensor_cores.instructions)} |\n"
        for architecture in ARCHITECTURES.values()
    ]
    head = (
        "| target | devices | shared memory of a block | TMA | GEMM instructions |\n| --- | --- | --- | --- | --- |\n"
    )
    return head + "".join(rows)
