"""Kernels without a reduction: every output element is computed from scratch."""

from __future__ import annotations

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.map_tiles import Tile, tile_of, whole
from meshgen.codegen.emit.pieces import emit_pieces, pieces_of
from meshgen.codegen.emit.plan import KernelPlan, Template, loops_of
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.index_code import Int, integer
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph
from meshgen.runtime.in_place import UPDATE, updates, written


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Bodies without loops that write equally many elements of each output."""
    del device
    is_map = not loops_of(body) and len({v.type.size for v in written(body)}) == 1
    return KernelPlan(MAP) if is_map else None


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """A tile over the outputs, or one over each of their pieces."""
    del plan, device
    body = _windows_alone(body)
    sizes = body.outputs[0].type.sizes
    boxes = [whole(sizes)] if (pieces := pieces_of(body)) is None else pieces.boxes
    tiles = [tile_of(body, box) for box in boxes]
    if pieces is None:
        (tile,) = tiles
        _store(evaluator, body, tile, evaluator.program)
        programs = tile.programs
    else:
        programs = emit_pieces(evaluator, tiles, lambda tile: _store(evaluator, body, tile, integer("piece")))
    return Launch((programs, 1, 1), evaluator.constants, max(tile.warps for tile in tiles), 1)


def _store(evaluator: Evaluator, body: Graph, tile: Tile, program: Int) -> None:
    """Write the source that computes a tile of each output."""
    index, sizes = tile.begin(evaluator, program), body.outputs[0].type.sizes
    for number, value in enumerate(body.outputs):
        own = value.type.sizes
        evaluator.store(number, index if own == sizes else ex.delinearize(ex.linearize(index, sizes), own))


def _windows_alone(body: Graph) -> Graph:
    """The body with a window of what is updated in place, all of one shape, as its output; itself without any."""
    if not (found := updates(body)):
        return body
    rest = {first.operands[0] for first, *_ in found.values()}
    nodes = [node for node in body.nodes if node.op != UPDATE]
    outputs = [found[n][-1].operands[1] if n in found else value for n, value in enumerate(body.outputs)]
    return Graph(body.name, [v for v in body.inputs if v not in rest], nodes, outputs)


MAP = Template("map", _match, _emit, KernelForm.MAP, joins=True)
