"""Indices of the values of an attention, as expressions over the loops of the attention."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.attention.recognition import Attention, Producer
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import LAYOUT, REDUCTIONS
from meshgen.ops.dot_dims import DotDims


def operand_index(dot: Node, side: int, result: Index, contracted: Index) -> Index:
    """Return the index of operand `side` of a dot, given the index of its result and the index of its contracted dims."""
    dims = DotDims.of(dot)
    batch, free = len(dims.batch[0]), len(dims.free[0])
    free_index = result[batch : batch + free] if side == 0 else result[batch + free :]
    by_dim = dict(zip(dims.batch[side], result[:batch], strict=True))
    by_dim |= dict(zip(dims.free[side], free_index, strict=True))
    by_dim |= dict(zip(dims.contract[side], contracted, strict=True))
    return tuple(by_dim[d] for d in range(len(by_dim)))


def value_indices(attention: Attention, producer: Producer, result: Index, n: Expr) -> dict[Value, Index] | None:
    """Return the index of each value of an attention, if the second dot is computed at `result` and sums over `n`.

    Returns:
        None if two nodes read a value at different indices, or if the dots and the softmax reduce different dims.
    """
    product, side = attention.product, attention.side
    dims = DotDims.of(product).contract[side]
    probabilities = product.operands[side]
    contracted_index = ex.delinearize(n, [probabilities.type.sizes[d] for d in dims])
    indices: dict[Value, Index] = {product.result: result}
    stack = [(probabilities, operand_index(product, side, result, contracted_index))]
    while stack:
        value, index = stack.pop()
        node = producer(value)
        if node is None or node not in attention.members:
            continue
        if value in indices:
            if indices[value] != index:
                return None
            continue
        indices[value] = index
        if node.op in REDUCTIONS:
            stack.append((node.operands[0], before_reduce(node, index, n)))
        elif node.op in LAYOUT:
            stack.append((node.operands[0], backward(node, index)))
        elif node is not attention.scores:
            stack += [(v, index if v.type.rank else ()) for v in node.operands]
    kept = _row_of(attention.total, indices[attention.exponential.result], n)
    if kept is None or indices.setdefault(attention.total.result, kept) != kept:
        return None
    return indices if _row_of(attention.maximum, indices[attention.softmaxed], n) is not None else None


def query_side(attention: Attention, index: Index, n: Expr) -> int | None:
    """Return the operand of the first dot (0 or 1) that holds the queries, that is, does not vary with the key position
    `n`.

    Args:
        index: the index of the dot's result.
    Returns:
        None unless exactly one of the operands varies with `n`.
    """
    batch, free = (len(part[0]) for part in (DotDims.of(attention.scores).batch, DotDims.of(attention.scores).free))
    varying = set(ex.variables(n))
    parts = (index[:batch], index[batch : batch + free], index[batch + free :])
    varies = [any(v in varying for e in part for v in ex.variables(e)) for part in parts]
    return None if varies[0] or varies[1] == varies[2] else 0 if varies[2] else 1


def generic_index(product: Node) -> tuple[Index, Expr]:
    """Return an index of a dot's result with one variable per dim, and one variable over all contracted dims together."""
    depth = DotDims.of(product).depth(product.operands[0].type)
    return tuple(ex.variable(f"d{i}", size) for i, size in enumerate(product.result.type.sizes)), ex.variable(
        "n", depth
    )


def _row_of(reduce: Node, index: Index, n: Expr) -> Index | None:
    """Return the index of a reduction's result if its operand is at `index`, or None if it reduces dims other than `n`."""
    kept = tuple(e for d, e in enumerate(index) if d not in reduce.attrs.dims)
    return kept if before_reduce(reduce, kept, n) == index else None


def before_reduce(node: Node, index: Index, n: Expr) -> Index:
    """Return the index of a reduction's operand whose result is at `index`, with `n` as the position in the reduced
    dims.
    """
    sizes, kept = node.operands[0].type.sizes, iter(index)
    dims = sorted(node.attrs.dims)
    summed = dict(zip(dims, ex.delinearize(n, [sizes[d] for d in dims]), strict=True))
    return tuple(summed[d] if d in summed else next(kept) for d in range(len(sizes)))


def substituted(index: Index, table: Mapping[Var, Expr]) -> Index:
    """Return the index with variables replaced by expressions."""
    return tuple(ex.substitute(e, table) for e in index)
