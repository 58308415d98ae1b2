"""Reductions over subtiles of the rows of a dot's result, which the dot's kernel computes: each tile contains whole
subtiles.

    %z = dot %x, %w                                    bf16[4096,4096] x bf16[4096,32768]
    %t = reshape %z                                    f32[4096,256,128]
    %m = reduce maximum %t, dims [2]                   f32[4096,256]       each 128 columns are in one tile of the
    matmul
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Node, is_float
from meshgen.kernels.matmul import reducible_columns
from meshgen.ops.classes import DOTS, REDUCTIONS
from meshgen.ops.dot_dims import gemm_extents
from meshgen.ops.precision import common_type, multiplied_as
from meshgen.ops.row_reductions import row_length


def columns_reduced(dot: Node, nodes: Sequence[Node]) -> int:
    """Return the number of columns of each subtile that the reductions in `nodes` reduce in a dot's kernel.

    Returns:
        0 if `nodes` contain no reduction, if their row lengths differ, or if no tile of the dot has such subtiles.
    """
    lengths = {row_length(node) for node in nodes if node.op in REDUCTIONS}
    if dot.op not in DOTS or len(lengths) != 1 or not is_float(common_type(dot)):
        return 0
    (columns,) = lengths
    n = gemm_extents(dot)[2]
    fits = 0 < columns < n and n % columns == 0 and columns in reducible_columns(multiplied_as(dot))
    return columns if fits else 0
