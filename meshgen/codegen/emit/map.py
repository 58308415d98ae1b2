"""Template of kernels without reductions: each output element is computed independently."""

from __future__ import annotations

from meshgen.codegen import expr as ex
from meshgen.codegen.emit.concat_ranges import emit_pieces, pieces_of
from meshgen.codegen.emit.elementwise_tiles import Tile, tile_of, whole
from meshgen.codegen.emit.eval import Evaluator
from meshgen.codegen.emit.launch import Launch
from meshgen.codegen.emit.plan import KernelPlan, Template, loops_of
from meshgen.codegen.fusion.form import KernelForm
from meshgen.codegen.index_code import Int, integer
from meshgen.cost_model.kernels import Device
from meshgen.ir.graph import Graph
from meshgen.runtime.in_place import UPDATE, updates, written


def _match(body: Graph, device: Device) -> KernelPlan | None:
    """Match bodies without reductions or other loops, in which the kernel writes equally many elements of each output."""
    del device
    is_map = not loops_of(body) and len({v.type.size for v in written(body)}) == 1
    return KernelPlan(MAP) if is_map else None


def _emit(evaluator: Evaluator, body: Graph, plan: KernelPlan, device: Device) -> Launch:
    """Write one tile over the outputs, or one tile for each range of a concatenation (`concat_ranges.py`)."""
    del plan, device
    body = _with_window_outputs(body)
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
    """Write the computation and the store of one tile of each output, for program `program`."""
    index, sizes = tile.begin(evaluator, program), body.outputs[0].type.sizes
    for position, value in enumerate(body.outputs):
        output_sizes = value.type.sizes
        evaluator.store(
            position, index if output_sizes == sizes else ex.delinearize(ex.linearize(index, sizes), output_sizes)
        )


def _with_window_outputs(body: Graph) -> Graph:
    """Return the body with outputs that are in-place updates replaced by the updated windows. All windows have the same
    shape.

    Returns `body` itself if no output is an in-place update.
    """
    if not (update_chains := updates(body)):
        return body
    updated_operands = {first.operands[0] for first, *_ in update_chains.values()}
    nodes = [node for node in body.nodes if node.op != UPDATE]
    outputs = [
        update_chains[n][-1].operands[1] if n in update_chains else value for n, value in enumerate(body.outputs)
    ]
    return Graph(body.name, [v for v in body.inputs if v not in updated_operands], nodes, outputs)


MAP = Template("map", _match, _emit, KernelForm.MAP, joins=True)
