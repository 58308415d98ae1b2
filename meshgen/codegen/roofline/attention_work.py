"""What a kernel computes of an attention, or of its gradient: the operations of its decomposition, without blocks that a mask leaves out."""

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

_HALVES = 2  # products in bf16 that one in f32 is computed by: of the upper and of the lower half of its digits
_KEYS_OF_A_TILE = 64


@dataclass(frozen=True)
class Work:
    """Of a node: the part of its operations that is done, and how a product is multiplied where its precision does not say it."""

    share: float = 1.0
    multiplied: str = ""


def expanded_work(body: Graph) -> tuple[list[Node], Mapping[Node, Work]]:
    """Return the operations of a kernel, with those that attentions stand for, and the work of the latter."""
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
    """Whether a product in f32 has an operand that is bf16 in memory, and is computed in two parts."""
    if multiplied_as(dot) != TF32:
        return False
    outer = dict(zip(inside.inputs, node.operands, strict=True))
    made = {**body.index.producers, **inside.index.producers}

    def producer(value: Value) -> Node | None:
        return made.get(outer.get(value, value))

    return any(stored_type(value, producer) == "bf16" for value in dot.operands)


def attention_share(node: Node, body: Graph) -> float:
    """Return the part of the scores that the mask does not leave out by position."""
    loops, table = Loops.of(node), table_of(node)
    positions = Positions(node, table, body.index.producers.get, lambda axes: ex.variable("_".join(axes), 2))
    names = [max(each, key=lambda name: loops.factors.sizes[name]) for each in (loops.blocks, loops.tile) if each]
    if len(names) < 2:
        return 1.0
    n, m = (Var(name, 0, loops.factors.sizes[name] - 1) for name in names)
    mask = positions.mask(node.regions[0], n, m)
    if mask is None or {v for e in (*mask.least, *mask.most) for v in ex.variables(e)} != {m}:
        return 1.0
    return _inside(mask, n, m)


def waiting_for_keys(body: Graph) -> float:
    """Return how long a program of an attention waits at least for its keys and values, which are copied some iterations before, in seconds."""
    return max((_waiting(node, body) for node in body.nodes if node.op == FORWARD), default=0.0)


def _waiting(node: Node, body: Graph) -> float:
    loops = Loops.of(node)
    copied = loops.steps * (loops.depth + loops.width) * DTYPES[node.operands[KEYS].type.dtype].itemsize
    latency = loops.steps / _KEYS_OF_A_TILE * DEFAULT.kernels.copy_seconds / DEFAULT.kernels.trips_ahead
    return attention_share(node, body) * max(latency, copied / DEFAULT.kernels.multiprocessor_bandwidth)


def _inside(mask: Mask, n: Var, m: Var) -> float:
    rows = np.arange(m.high + 1)
    least = np.max([np.zeros_like(rows), *(_numbers(e, rows) for e in mask.least)], axis=0)
    most = np.min([np.full_like(rows, n.high), *(_numbers(e, rows) for e in mask.most)], axis=0)
    return float(np.maximum(most - least + 1, 0).mean() / (n.high + 1))


def _numbers(expr: Expr, rows: np.ndarray) -> np.ndarray:
    """An expression over one variable, for each value of it."""
    total = np.full_like(rows, expr.const)
    for atom, factor in expr.terms:
        if isinstance(atom, Var):
            total += rows * factor
        else:
            inner = _numbers(atom.of, rows)
            total += factor * (inner // atom.by if isinstance(atom, Quotient) else inner % atom.by)
    return total
