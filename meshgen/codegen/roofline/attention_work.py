"""How much of the products of an attention, or of its gradient, a kernel computes: blocks that a mask leaves out are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Var
from meshgen.codegen.fusion.attention_mask import Mask, mask_of
from meshgen.codegen.fusion.weighted_sum import WeightedSum, narrow, weighted_sum
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import DOTS

_HALVES = 2  # products in bf16 that one in f32 is computed by: of the upper and of the lower half of its digits


@dataclass(frozen=True)
class Work:
    """Of a node: the part of its operations that is done, and how a product is multiplied where its precision does not say it."""

    share: float
    multiplied: str = ""


class _MaskReader:
    """Reads masks of a body; the index of a device is not known."""

    def __init__(self, body: Graph) -> None:
        self.producer: Mapping[Value, Node] = body.index.producers

    def coordinate(self, axes: tuple[str, ...]) -> Expr:
        return ex.variable("_".join(axes), 2)


def attention_work(body: Graph) -> dict[Node, Work]:
    """The work of the nodes of a kernel's body between products that a softmax is between; of others nothing is said."""
    if sum(node.op in DOTS for node in body.nodes) < 2 or not any(node.op == "exponential" for node in body.nodes):
        return {}
    reader, found = _MaskReader(body), dict[Node, Work]()
    for node in body.nodes:
        of = weighted_sum(node, reader.producer.get)
        if of is None:
            continue
        share = _share(of, reader)
        for value in of.index:
            if (maker := reader.producer.get(value)) is not None:
                found[maker] = Work(share)
        source = narrow(node, 1 - of.side, reader.producer.get)
        is_halved = source is not node.operands[1 - of.side]
        found[node] = Work(share * _HALVES, source.type.dtype) if is_halved else Work(share)
    return found


def _share(of: WeightedSum, reader: _MaskReader) -> float:
    """The part of the scores that the mask does not leave out by index."""
    softmaxed = reader.producer[of.exponential.operands[0]].operands[0]
    index = of.index[softmaxed]
    n = max(sorted(of.summed, key=lambda v: v.text), key=lambda v: v.high)
    others = [v for e in index for v in ex.variables(e) if v not in of.summed]
    for m in sorted(others, key=lambda v: -v.high):
        mask = mask_of(reader, softmaxed, index, n, m)
        if mask is not None and {v for e in (*mask.least, *mask.most) for v in ex.variables(e)} == {m}:
            return _inside(mask, n, m)
    return 1.0


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
