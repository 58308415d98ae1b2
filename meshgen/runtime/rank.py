"""The kernels' bodies on one rank: the evaluator plus the ops that ask where on the mesh it runs."""

from __future__ import annotations

import numpy as np

from meshgen.ccl.simulated import cut
from meshgen.ir.evaluate import HANDLERS, Evaluator
from meshgen.ir.evaluate_common import Array, RunRegion, neutral
from meshgen.ir.graph import Node
from meshgen.mesh import Mesh

RANK_OPS = ("process_index", "mask_padding", "all_slice", "to_partial")
BODY_OPS = (*HANDLERS, *RANK_OPS)  # what a kernel's body may hold


def rank_evaluator(mesh: Mesh, rank: int) -> Evaluator:
    """An evaluator of `partition`- and `fuse`-stage bodies on device `rank`; collectives are not in bodies."""

    def index(node: Node) -> int:
        return mesh.index(rank, node.attrs["axes"])

    def process_index(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        return [np.asarray(index(node), node.result.type.numpy_dtype)]

    def mask_padding(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        dim, masked = node.attrs["dim"], args[0].copy()
        rows = masked.shape[dim]
        valid = max(0, min(node.attrs["size"] - index(node) * rows, rows))
        masked[(slice(None),) * dim + (slice(valid, None),)] = node.attrs["fill"]
        return [masked]

    def all_slice(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        dim = node.attrs["dim"]
        tile = node.result.type.sizes[dim]
        return [cut(args[0], dim, index(node) * tile, (index(node) + 1) * tile)]

    def to_partial(node: Node, args: list[Array], run: RunRegion) -> list[Array]:
        rest = neutral(node.attrs["kind"], node.result.type.dtype)
        return [args[0] if index(node) == 0 else np.broadcast_to(rest, args[0].shape)]

    return Evaluator(dict(zip(RANK_OPS, (process_index, mask_padding, all_slice, to_partial), strict=True)))
