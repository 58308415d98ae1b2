"""`python -m bench.products`: GEMM throughput predicted by the cost model, compared with published measurements. No GPU
is needed.

Operands are m x k and k x n; figures are in TFLOP/s. Predictions are for the tile that was measured. If the publication
does not name it, they are for the tile that the cost model chooses.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import NamedTuple

from meshgen.codegen.emit.matmul_tiles import rank_tiles
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.kernels.matmul import Tile
from meshgen.kernels.matmul_time import Product, tile_seconds

_GLUON = "Triton, tutorial 07 of Gluon, persistent and pipelined"
_F8 = "triton-lang/triton#5461, host descriptors"
_TLX = "facebookexperimental/triton, TLX"
_USUAL = Tile(128, 256, 64, 8, 3, 1.0)


class Published(NamedTuple):
    """A measurement on an H100 SXM. `is_fitted` says whether parameters of the cost model were fitted to it."""

    m: int
    n: int
    k: int
    dtype: str
    tflops: float
    tile: Tile | None
    source: str
    is_fitted: bool = False


PUBLISHED = (
    *(Published(8192, 8192, k, "f16", tflops, _USUAL, _GLUON, k in (512, 1024, 8192))
      for k, tflops in ((512, 540), (1024, 603), (2048, 626), (4096, 640), (8192, 662), (16384, 670))),
    Published(8192, 8192, 4096, "f8E4M3FN", 1347, replace(_USUAL, k=128), _F8),
    Published(65536, 1024, 1024, "f16", 564, None, f"{_TLX}#1038"),
    Published(4096, 4096, 4096, "f16", 554, None, f"{_TLX}#210"),
)  # fmt: skip


def predicted(row: Published) -> float:
    """Return the predicted TFLOP/s. The predicted time includes the launch."""
    device, gemm = device_of("h100"), Product(1, row.m, row.n, row.k, row.dtype)
    tile = row.tile or rank_tiles([gemm], device)[0][1]
    return gemm.flops / (tile_seconds(tile, gemm, device) + device.launch_seconds) / 1e12


def main() -> int:
    lines = ["| m | n | k | type | measured | predicted | error | source |", "| --- " * 8 + "|"]
    for row in PUBLISHED:
        tflops = predicted(row)
        source = row.source + (" (fitted)" if row.is_fitted else "")
        cells = (row.m, row.n, row.k, row.dtype, row.tflops, f"{tflops:.0f}", f"{tflops / row.tflops - 1:+.1%}", source)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
