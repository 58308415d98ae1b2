"""The index of each value of an attention."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.codegen import expr as ex
from meshgen.codegen.attention.recognition import Attention, Producer
from meshgen.codegen.expr import Expr, Var
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Node, Value
from meshgen.ops.classes import LAYOUT, REDUCTIONS
from meshgen.ops.dot_dims import DotDims


def operand_index(dot: Node, number: int, result: Index, contracted: Index) -> Index:
    """Index of an operand of a dot for an index of its result, and of the contracted dims in the order of its attributes."""
    dims = DotDims.of(dot)
    batch, free = len(dims.batch[0]), len(dims.free[0])
    own = result[batch : batch + free] if number == 0 else result[batch + free :]
    found = dict(zip(dims.batch[number], result[:batch], strict=True))
    found |= dict(zip(dims.free[number], own, strict=True))
    found |= dict(zip(dims.contract[number], contracted, strict=True))
    return tuple(found[d] for d in range(len(found)))


def places(attention: Attention, producer: Producer, result: Index, n: Expr) -> dict[Value, Index] | None:
    """The index of each value of an attention where the product is computed at `result`, and its sum runs over `n`.

    None if a value is needed at two indices, or the sums of the two products and of the softmax run over different dims.
    """
    product, side = attention.product, attention.side
    dims = DotDims.of(product).contract[side]
    probabilities = product.operands[side]
    summed = ex.delinearize(n, [probabilities.type.sizes[d] for d in dims])
    found: dict[Value, Index] = {product.result: result}
    stack = [(probabilities, operand_index(product, side, result, summed))]
    while stack:
        value, index = stack.pop()
        node = producer(value)
        if node is None or node not in attention.members:
            continue
        if value in found:
            if found[value] != index:
                return None
            continue
        found[value] = index
        if node.op in REDUCTIONS:
            stack.append((node.operands[0], before_reduce(node, index, n)))
        elif node.op in LAYOUT:
            stack.append((node.operands[0], backward(node, index)))
        elif node is not attention.scores:
            stack += [(v, index if v.type.rank else ()) for v in node.operands]
    kept = _row_of(attention.total, found[attention.exponential.result], n)
    if kept is None or found.setdefault(attention.total.result, kept) != kept:
        return None
    return found if _row_of(attention.maximum, found[attention.softmaxed], n) is not None else None


def query_side(attention: Attention, index: Index, n: Expr) -> int | None:
    """The number of the operand of the first dot that does not vary with `n`, of which `index` is the result's; None if both vary."""
    batch, free = (len(part[0]) for part in (DotDims.of(attention.scores).batch, DotDims.of(attention.scores).free))
    varying = set(ex.variables(n))
    parts = (index[:batch], index[batch : batch + free], index[batch + free :])
    moves = [any(v in varying for e in part for v in ex.variables(e)) for part in parts]
    return None if moves[0] or moves[1] == moves[2] else 0 if moves[2] else 1


def generic_index(product: Node) -> tuple[Index, Expr]:
    """An index of a product's result with a variable per dim, and of its contracted dims in one."""
    depth = DotDims.of(product).depth(product.operands[0].type)
    return tuple(ex.variable(f"d{i}", size) for i, size in enumerate(product.result.type.sizes)), ex.variable(
        "n", depth
    )


def _row_of(reduce: Node, index: Index, n: Expr) -> Index | None:
    """Index of a reduce's result for that of its operand; None if the reduced dims do not run over `n` alone."""
    kept = tuple(e for d, e in enumerate(index) if d not in reduce.attrs.dims)
    return kept if before_reduce(reduce, kept, n) == index else None


def before_reduce(node: Node, index: Index, n: Expr) -> Index:
    """Index of what a reduce sums, where its result is at `index` and the sum runs over `n`."""
    sizes, kept = node.operands[0].type.sizes, iter(index)
    dims = sorted(node.attrs.dims)
    summed = dict(zip(dims, ex.delinearize(n, [sizes[d] for d in dims]), strict=True))
    return tuple(summed[d] if d in summed else next(kept) for d in range(len(sizes)))


def substituted(index: Index, table: Mapping[Var, Expr]) -> Index:
    return tuple(ex.substitute(e, table) for e in index)
