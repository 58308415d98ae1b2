"""Index maps of layout ops: from the index of an operand to the index of the result, and back.

%t = transpose %x, [1, 0]           %x at (i, j) is %t at (j, i)
%r = reshape %x, [6]                %x: [2, 3] at (i, j) is %r at 3 i + j
"""

from __future__ import annotations

from meshgen.codegen.expr import ZERO, Expr, Var, constant, delinearize, linearize
from meshgen.ir.graph import Node

Index = tuple[Expr, ...]


def forward(node: Node, index: Index, reduced: tuple[Var, ...]) -> Index | None:
    """Return the index at which the result of a layout op contains the operand's element at `index`.

    Dims that a broadcast adds get the variables in `reduced` if their sizes agree. Returns None if the index is not
    determined.
    """
    shape, source = node.result.type.sizes, node.operands[0].type.sizes
    match node.op:
        case "transpose":
            return tuple(index[d] for d in node.attrs.perm)
        case "reshape":
            return delinearize(linearize(index, source), shape)
        case "reverse":
            return tuple(constant(s - 1) - e if d in node.attrs.dims else e
                         for d, (s, e) in enumerate(zip(source, index, strict=True)))  # fmt: skip
        case "mask_padding":
            return index
        case "broadcast_in_dim":
            return _broadcast_forward(node, index, reduced)
        case _:
            return None


def _broadcast_forward(node: Node, index: Index, reduced: tuple[Var, ...]) -> Index | None:
    shape, source = node.result.type.sizes, node.operands[0].type.sizes
    kept = {d: i for i, d in enumerate(node.attrs.dims) if source[i] == shape[d]}
    new = [d for d, size in enumerate(shape) if d not in kept and size > 1]
    if new and [shape[d] for d in new] != [v.high + 1 for v in reduced]:
        return None
    added = dict(zip(new, reduced, strict=True)) if new else {}
    return tuple(
        index[kept[d]] if d in kept else Expr(((added[d], 1),)) if d in added else ZERO for d in range(len(shape))
    )


def backward(node: Node, index: Index) -> Index:
    """Return the index at which a layout op reads its operand to compute its result at `index`.

    The op must read one element per result element: a `pad` or `concatenate` is not supported.
    """
    shape, source = node.result.type.sizes, node.operands[0].type.sizes
    match node.op:
        case "transpose":
            by_dim = dict(zip(node.attrs.perm, index, strict=True))
            return tuple(by_dim[d] for d in range(len(index)))
        case "reshape":
            return delinearize(linearize(index, shape), source)
        case "reverse":
            return tuple(constant(s - 1) - e if d in node.attrs.dims else e
                         for d, (s, e) in enumerate(zip(source, index, strict=True)))  # fmt: skip
        case "broadcast_in_dim":
            return tuple(index[d] if source[i] > 1 else ZERO for i, d in enumerate(node.attrs.dims))
        case "slice":
            start, stride = node.attrs.start, node.attrs.stride
            return tuple(e * stride[d] + start[d] for d, e in enumerate(index))
        case "windows":
            return _windows_backward(node, index)
        case _:
            assert node.op == "mask_padding", node.op
            return index


def _windows_backward(node: Node, index: Index) -> Index:
    attrs, rank = node.attrs, node.operands[0].type.rank
    operand_index = list(index[:rank])
    for dim, offset, stride, dilation in zip(attrs.dims, index[rank:], attrs.strides, attrs.dilations, strict=True):
        operand_index[dim] = operand_index[dim] * stride + offset * dilation
    return tuple(operand_index)
