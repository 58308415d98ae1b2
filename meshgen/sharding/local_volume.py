"""Bytes that every device moves, as formulas in the axis sizes: the program is partitioned again over a mesh with
symbolic sizes.

Every size that partitioning and later passes compute (tiles, halo rows, candidates) carries its derivation
(`meshgen.ir.symbols`), so the formulas describe exactly the program that runs.

The plan alone cannot give the formulas. It has the shardings of values between ops, but the partitioner of an op
decides how many rows a halo, a window or an uneven slice fetches, and later passes combine, split and remove
collectives. Partitioning every program with symbolic sizes would avoid the second run, but it takes twice as long as
with integers (37 programs: 2.3 s instead of 1.1 s), and every later pass, kernel and file would have to handle symbolic
integers.
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
    """An axis with a symbolic size.

    It is a class of its own so that it compares unequal to a plain axis: values that are cached for plain meshes have
    no symbols.
    """


def local_volume(stages: Mapping[str, Module], skip: Iterable[str] = ()) -> Volume | None:
    """Return the traffic of the program in `stages`, or None if it is not partitioned yet.

    Programs that were written per device have no formulas in the axis sizes: their tile sizes are constants.

    Args:
        stages: the module at each stage, from whichever stage the program was entered at.
        skip: names of passes that were left out when the program was planned.
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
    """Return the number of collectives in a graph and its regions."""
    inner = sum(_messages(region) for node in graph.nodes for region in node.regions)
    return inner + sum(node.op in COMMUNICATING for node in graph.nodes)
