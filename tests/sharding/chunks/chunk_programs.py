"""Programs with collectives, and helpers that run chains of ops around these collectives in chunks."""

from __future__ import annotations

from dataclasses import replace

from meshgen.codegen.passes.loop_unroll import loop_unroll
from meshgen.ir.graph import Module, Node
from meshgen.mlir.text import parse_text
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.sharding.chunks.chain import CHUNKED, Chain, Flow, Seed
from meshgen.sharding.chunks.rewrite import in_chunks

WITHOUT_CHUNKS = Options("cpu", skip=("chunks",))


def block(rows: int, width: int, hidden: int, layers: int = 1, *, sums: bool = False) -> str:
    """Return residual layers with a hidden dim sharded over tp: each layer needs one all-reduce.

    sums: return only the sum of each row.
    """
    x, wide = f"tensor<{rows}x{width}xf32>", f"tensor<{rows}x{hidden}xf32>"
    up, down = f"tensor<{width}x{hidden}xf32>", f"tensor<{hidden}x{width}xf32>"
    weights = [
        f'%u{n}: {up} {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"tp"}}]>}}, '
        f'%d{n}: {down} {{sdy.sharding = #sdy.sharding<@mesh, [{{"tp"}}, {{}}]>}}'
        for n in range(layers)
    ]
    replicated = "{sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}"
    lines = [
        'sdy.mesh @mesh = <["tp"=4]>',
        f"func.func @main(%x0: {x} {replicated}, {', '.join(weights)}) -> {f'tensor<{rows}xf32>' if sums else f'({x} {replicated})'} {{",
    ]
    for n in range(layers):
        lines += [
            f"  %h{n} = stablehlo.dot_general %x{n}, %u{n}, contracting_dims = [1] x [0] : ({x}, {up}) -> {wide}",
            f"  %t{n} = stablehlo.abs %h{n} : {wide}",
            f"  %o{n} = stablehlo.dot_general %t{n}, %d{n}, contracting_dims = [1] x [0] : ({wide}, {down}) -> {x}",
            f"  %x{n + 1} = stablehlo.add %x{n}, %o{n} : {x}",
        ]
    if not sums:
        return "\n".join([*lines, f"  return %x{layers} : {x}", "}"])
    lines += [
        "  %zero = stablehlo.constant dense<0.0> : tensor<f32>",
        f"  %sum = stablehlo.reduce(%x{layers} init: %zero) applies stablehlo.add across dimensions = [1] "
        f": ({x}, tensor<f32>) -> tensor<{rows}xf32>",
        f"  return %sum : tensor<{rows}xf32>",
        "}",
    ]
    return "\n".join(lines)


def local(text: str) -> Module:
    """Return the per-device program without chunks."""
    return run_stages(parse_text(text), WITHOUT_CHUNKS, Timing(), "partition")["partition"]


def collectives(module: Module) -> list[Node]:
    return [node for node in module.graph.nodes if node.op in CHUNKED]


def chain(module: Module, dim: int, count: int, *, through_dots: bool = True) -> Chain:
    """Return the chain of all collectives of a module, split along `dim` of their results."""
    flow = Flow(module.graph, set(module.graph.nodes))
    return flow.grow([Seed(node, dim) for node in collectives(module)], count, through_dots=through_dots)


def chunked(module: Module, dim: int, count: int, *, through_dots: bool = True) -> Module:
    flat = loop_unroll(module)
    return replace(flat, graph=in_chunks(flat.graph, chain(flat, dim, count, through_dots=through_dots)))
