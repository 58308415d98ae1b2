"""Work of attention kernels and their gradients: the operations of the decomposed op, minus blocks that a mask skips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Var
from meshgen.codegen.fusion.attention_bounds import Mask, Positions, table_of
from meshgen.codegen.fusion.attention_loops import Loops, stored_type
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Graph, Node, Value
from meshgen.ops.classes import ATTENTIONS, DOTS
from meshgen.ops.composites import decomposed
from meshgen.ops.factors import FORWARD, KEYS
from meshgen.ops.precision import TF32, multiplied_as

_HALVES = 2  # bf16 matmuls that replace one f32 matmul: one for the upper and one for the lower half of the mantissa
_KEYS_OF_A_TILE = 64  # keys per main loop iteration of an attention kernel


@dataclass(frozen=True)
class Work:
    """How a kernel executes the operations of a node.

    Attributes:
        share: the fraction of the node's operations that the kernel executes.
        multiplied: the number format in which a matmul multiplies, if the node's precision does not determine it.
    """

    share: float = 1.0
    multiplied: str = ""


def expanded_work(body: Graph) -> tuple[list[Node], Mapping[Node, Work]]:
    """Return the operations of a kernel, with attention ops decomposed, and the work of each decomposed operation."""
    nodes, works = list[Node](), dict[Node, Work]()
    for node in body.nodes:
        if node.op not in ATTENTIONS:
            nodes.append(node)
            continue
        share, inside = attention_share(node, body), decomposed(node)
        nodes += inside.nodes
        for inner in inside.nodes:
            is_split = node.op != FORWARD and inner.op in DOTS and _is_split(inner, inside, node, body)
            works[inner] = Work(share * _HALVES, "bf16") if is_split else Work(share)
    return nodes, works


def _is_split(dot: Node, inside: Graph, node: Node, body: Graph) -> bool:
    """Whether an f32 matmul has an operand that is bf16 in memory, and is therefore computed as two bf16 matmuls."""
    if multiplied_as(dot) != TF32:
        return False
    outer = dict(zip(inside.inputs, node.operands, strict=True))
    producers = {**body.index.producers, **inside.index.producers}

    def producer(value: Value) -> Node | None:
        return producers.get(outer.get(value, value))

    return any(stored_type(value, producer) == "bf16" for value in dot.operands)


def attention_share(node: Node, body: Graph) -> float:
    """Return the fraction of the scores that the kernel computes after skipping blocks that a position mask excludes."""
    loops, table = Loops.of(node), table_of(node)
    positions = Positions(node, table, body.index.producers.get, lambda axes: ex.variable("_".join(axes), 2))
    names = [
        max(factors, key=lambda name: loops.factors.sizes[name]) for factors in (loops.blocks, loops.tile) if factors
    ]
    if len(names) < 2:
        return 1.0
    n, m = (Var(name, 0, loops.factors.sizes[name] - 1) for name in names)
    mask = positions.mask(node.regions[0], n, m)
    if mask is None or {v for e in (*mask.least, *mask.most) for v in ex.variables(e)} != {m}:
        return 1.0
    return _inside(mask, n, m)


def waiting_for_keys(body: Graph) -> float:
    """Return the least time, in seconds, that a program of an attention waits for its prefetched keys and values."""
    return max((_waiting(node, body) for node in body.nodes if node.op == FORWARD), default=0.0)


def _waiting(node: Node, body: Graph) -> float:
    """Return the seconds that a program of one attention op waits for keys and values, limited by latency or by
    bandwidth.
    """
    loops = Loops.of(node)
    copied = loops.steps * (loops.depth + loops.width) * DTYPES[node.operands[KEYS].type.dtype].itemsize
    latency = loops.steps / _KEYS_OF_A_TILE * DEFAULT.kernels.copy_seconds / DEFAULT.kernels.trips_ahead
    return attention_share(node, body) * max(latency, copied / DEFAULT.kernels.multiprocessor_bandwidth)


def _inside(mask: Mask, n: Var, m: Var) -> float:
    """Return the fraction of all (row, key) pairs that are inside the bounds of the mask."""
    rows = np.arange(m.high + 1)
    least = np.max([np.zeros_like(rows), *(_numbers(e, rows) for e in mask.least)], axis=0)
    most = np.min([np.full_like(rows, n.high), *(_numbers(e, rows) for e in mask.most)], axis=0)
    return float(np.maximum(most - least + 1, 0).mean() / (n.high + 1))


def _numbers(expr: Expr, rows: np.ndarray) -> np.ndarray:
    """Return the values of `expr`, an expression over one variable, for all variable values in `rows`."""
    total = np.full_like(rows, expr.const)
    for atom, factor in expr.terms:
        if isinstance(atom, Var):
            total += rows * factor
        else:
            inner = _numbers(atom.of, rows)
            total += factor * (inner // atom.by if isinstance(atom, Quotient) else inner % atom.by)
    return total
