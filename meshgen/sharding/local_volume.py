"""Bytes that every device moves, as formulas in the axis sizes: the program is partitioned again over a mesh with named sizes.

Sizes of tiles, rows of halos, candidates and all else that partitioning and later passes add carry their derivation
along (`meshgen.ir.symbols`), so the formulas are those of the program that runs.

Why not from the plan: it has shardings of the values between operations, but how many rows a halo, a window or an uneven slice fetches, and what
candidates and totals an operation exchanges, is computed by its partitioner, and later passes combine, split and drop these. To partition
with named sizes in the first place would do once what is done twice here, but for every compilation, asked about or not: it takes twice
as long as with plain numbers (37 programs: 2.3 s, not 1.1 s), and every later pass, kernel and file would handle integers that remember.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from meshgen.codegen.fuse import SIMPLIFICATIONS
from meshgen.compilation import Compilation
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module
from meshgen.ir.symbols import Dim
from meshgen.mesh import Axis, Mesh
from meshgen.ops.classes import COMMUNICATING
from meshgen.sharding.analyze import Volume, volume_of
from meshgen.sharding.optimizations.collective_combine import combined
from meshgen.sharding.optimize import optimize_local
from meshgen.sharding.partition import partition


@dataclass(frozen=True)
class _NamedAxis(Axis):
    """An axis whose size has a name. It equals no other axis, as values cached for plain meshes have no names."""


def local_volume(stages: Mapping[str, Module], skip: Iterable[str] = ()) -> Volume | None:
    """Traffic of the program of these stages, whichever it was entered at; None before it is partitioned.

    Args:
        skip: names of passes that the program was planned without.

    Programs that were written per device have tile sizes as written.
    """
    context = Compilation(frozenset(skip))
    written = stages.get("partition")
    entered = stages.get("optimize") or stages.get("materialize")
    if written is None:
        return None
    if entered is None or not entered.mesh.is_static:
        return volume_of(context.apply(written, SIMPLIFICATIONS))
    named = partition(replace(entered, mesh=_named(entered.mesh)), written.arguments)
    local = optimize_local(named, context)
    if _messages(local.graph) != _messages(written.graph):
        local = combined(local, DEFAULT.messages.larger_share)
    return replace(volume_of(context.apply(local, SIMPLIFICATIONS)), mesh=entered.mesh)


def _named(mesh: Mesh) -> Mesh:
    axes = [
        _NamedAxis(a.name, Dim.named(f"n_{a.name}", a.size), a.bandwidth, a.latency)
        for a in mesh.axes
        if a.size is not None
    ]
    return replace(mesh, axes=tuple(axes))


def _messages(graph: Graph) -> int:
    """Collectives of a graph and its regions."""
    inner = sum(_messages(region) for node in graph.nodes for region in node.regions)
    return inner + sum(node.op in COMMUNICATING for node in graph.nodes)
