"""Traced contractions: `matmul` and `einsum`, both as one dot_general per pair of operands."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np

from meshgen.frontend.tracer.operands import broadcast, emit, promote, tensor
from meshgen.frontend.tracer.recording import current, refuse, traced
from meshgen.frontend.tracer.reduce import sum_
from meshgen.frontend.tracer.shapes import transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import TensorType

Option = Sequence[Sequence[str | int]]


@traced
def matmul(x: Operand, y: Operand, sharding_option: Option | None = None) -> Tensor:
    """NumPy's matrix product; 1-d operands are vectors, leading dims broadcast.

    Args:
        sharding_option: mesh axes per loop: batch dims, free dims of x, free dims of y, contracted dim.
    Raises:
        ProgramError: MG0104 with both shapes where they do not fit.
    """
    dtype = promote(x, y)
    left, right = tensor(x, dtype), tensor(y, dtype)
    if not left.ndim or not right.ndim:
        refuse("matmul needs operands with at least one dim", "use * for 0-d ones")
    k_left, k_right = left.ndim - 1, max(0, right.ndim - 2)
    if left.shape[k_left] != right.shape[k_right]:
        refuse(
            f"matmul of {list(left.shape)} and {list(right.shape)}: the contracted sizes differ, "
            f"{left.shape[k_left]} (dim {k_left} on the left) and {right.shape[k_right]} (dim {k_right} on the right)"
        )
    if right.ndim <= 2:
        return dot_general(left, right, (), (), (k_left,), (k_right,), sharding_option)
    if left.ndim == 1:
        lead = tuple(range(right.ndim - 2))
        free = dot_general(right, left, (), (), (k_right,), (0,), sharding_option)
        assert free.shape == tuple(right.shape[d] for d in (*lead, right.ndim - 1))
        return free
    batch = _leading(left, right)
    left, right = broadcast(left, (*batch, *left.shape[-2:])), broadcast(right, (*batch, *right.shape[-2:]))
    dims = tuple(range(len(batch)))
    return dot_general(left, right, dims, dims, (left.ndim - 1,), (right.ndim - 2,), sharding_option)


def _leading(left: Tensor, right: Tensor) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    except ValueError:
        refuse(f"matmul of {list(left.shape)} and {list(right.shape)}: the leading dims do not broadcast together")


def dot_general(left: Tensor, right: Tensor, lhs_batch: Sequence[int], rhs_batch: Sequence[int], lhs_contract: Sequence[int],
                rhs_contract: Sequence[int], option: Option | None = None) -> Tensor:  # fmt: skip
    """One contraction; dims of the result: batch, free dims of the left, free dims of the right."""
    left_free = [d for d in range(left.ndim) if d not in (*lhs_batch, *lhs_contract)]
    right_free = [d for d in range(right.ndim) if d not in (*rhs_batch, *rhs_contract)]
    shape = [left.shape[d] for d in (*lhs_batch, *left_free)] + [right.shape[d] for d in right_free]
    attrs: dict[str, object] = {
        "lhs_batch": tuple(lhs_batch),
        "rhs_batch": tuple(rhs_batch),
        "lhs_contract": tuple(lhs_contract),
        "rhs_contract": tuple(rhs_contract),
        "precision": ("DEFAULT", "DEFAULT"),
    }
    axes = None if option is None else loop_axes(option, len(shape) + len(lhs_contract))
    return emit("dot_general", [left, right], TensorType(tuple(shape), left.type.dtype), attrs, option=axes)


def loop_axes(option: Option, loops: int) -> tuple[tuple[str, ...], ...]:
    """A sharding option by axis names. Raises ProgramError for a wrong number of loops or an unknown number."""
    if len(option) != loops:
        refuse(
            f"the sharding option {list(map(list, option))} has {len(option)} entries, but the operation has {loops} loops"
        )
    return tuple(tuple(axis_name(axis) for axis in axes) for axes in option)


def axis_name(axis: str | int) -> str:
    """A mesh axis by name, or by number where the trace knows the mesh."""
    if isinstance(axis, str):
        return axis
    mesh = current().mesh
    if mesh is None or not 0 <= axis < len(mesh.axes):
        refuse(f"mesh axis number {axis} is unknown", "name the axis, or give the mesh when compiling", "MG0202")
    return mesh.names[axis]


@traced
def einsum(equation: str, *operands: Operand, sharding_option: Option | None = None) -> Tensor:
    """Sum of products in index notation, such as `"bik,bkj->bij"`; pairs are contracted from left to right.

    An index occurs once per operand. Without `->` the result has the indices that occur once, in alphabetical
    order. `sharding_option` needs two operands; its loops are those of the dot_general.
    """
    terms, result = _parse(equation, len(operands))
    dtype = promote(*operands)
    pieces = [tensor(x, dtype) for x in operands]
    _check_sizes(equation, terms, pieces)
    if sharding_option is not None and len(pieces) != 2:
        refuse(f"a sharding option needs two operands, not {len(pieces)}")
    term, piece = terms[0], pieces[0]
    for i in range(1, len(pieces)):
        wanted = {*result, *"".join(terms[i + 1 :])}
        term, piece = _contract((term, piece), (terms[i], pieces[i]), wanted, sharding_option)
    term, piece = _summed(term, piece, {*result})
    return transpose(piece, [term.index(c) for c in result])


def _parse(equation: str, count: int) -> tuple[list[str], str]:
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = "".join(terms)
    if not arrow:
        result = "".join(sorted(c for c in letters if letters.count(c) == 1))
    sound = all(c in ascii_letters for c in letters + result) and all(c in letters for c in result)
    if not sound or len(terms) != count or any(len({*t}) != len(t) for t in [*terms, result]):
        refuse(
            f"einsum '{equation}' does not fit {count} operands, or repeats an index in one of them",
            "write for example bik,bkj->bij",
        )
    return terms, result


def _check_sizes(equation: str, terms: Sequence[str], pieces: Sequence[Tensor]) -> None:
    sizes: dict[str, int] = {}
    for term, piece in zip(terms, pieces, strict=True):
        if len(term) != piece.ndim:
            refuse(f"einsum '{equation}': '{term}' has {len(term)} indices, but its operand is {piece.type}")
        for index, size in zip(term, piece.shape, strict=True):
            if sizes.setdefault(index, size) != size:
                refuse(
                    f"einsum '{equation}' of {' and '.join(str(list(p.shape)) for p in pieces)}: index {index} has sizes {sizes[index]} and {size}"
                )


def _summed(term: str, piece: Tensor, wanted: set[str]) -> tuple[str, Tensor]:
    """Sum over the indices that no other operand and no result has."""
    gone = [d for d, c in enumerate(term) if c not in wanted]
    return "".join(c for c in term if c in wanted), sum_(piece, gone, dtype=piece.dtype) if gone else piece


def _contract(
    left: tuple[str, Tensor], right: tuple[str, Tensor], wanted: set[str], option: Option | None
) -> tuple[str, Tensor]:
    a, x = _summed(*left, {*wanted, *right[0]})
    b, y = _summed(*right, {*wanted, *a})
    batch = [c for c in a if c in b and c in wanted]
    inner = [c for c in a if c in b and c not in wanted]
    piece = dot_general(
        x,
        y,
        [a.index(c) for c in batch],
        [b.index(c) for c in batch],
        [a.index(c) for c in inner],
        [b.index(c) for c in inner],
        option,
    )
    return "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)]), piece
