"""Traced sums of products in index notation, as one dot_general per pair of operands."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from meshgen.frontend.tracer.indexing import diagonal
from meshgen.frontend.tracer.linear import Option, dot_general
from meshgen.frontend.tracer.operands import convert, dtype_of, promote, tensor
from meshgen.frontend.tracer.recording import refuse, traced
from meshgen.frontend.tracer.reduce import sum_
from meshgen.frontend.tracer.shapes import reshape, transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor


@traced
def einsum(equation: str, *operands: Operand, sharding_option: Option | None = None, preferred_element_type: Any = None) -> Tensor:  # fmt: skip
    """Sum of products in index notation, such as `"bik,bkj->bij"`; pairs are contracted from left to right.

    `...` stands for any dims, which broadcast; an index twice in one operand takes its diagonal. Without `->` the result has `...` and
    the indices that occur once, in alphabetical order. `sharding_option` needs two operands; its loops are those of the dot_general.
    """
    dtype = promote(*operands)
    result_type = "" if preferred_element_type is None else dtype_of(preferred_element_type)
    pieces = [tensor(x, dtype) for x in operands]
    equation, pieces = _spelled_out(equation, pieces)
    terms, result = _parse(equation, len(operands))
    diagonals = [_without_repeats(term, piece) for term, piece in zip(terms, pieces, strict=True)]
    terms, pieces = [term for term, _ in diagonals], [piece for _, piece in diagonals]
    _check_sizes(equation, terms, pieces)
    if sharding_option is not None and len(pieces) != 2:
        refuse(f"a sharding option needs two operands, not {len(pieces)}")
    term, piece = terms[0], pieces[0]
    for i in range(1, len(pieces)):
        wanted = {*result, *"".join(terms[i + 1 :])}
        other = convert(pieces[i], piece.type.dtype)
        term, piece = _contract((term, piece), (terms[i], other), wanted, sharding_option, result_type)
    term, piece = _summed(term, convert(piece, result_type or dtype), {*result})
    return transpose(piece, [term.index(c) for c in result])


def _parse(equation: str, count: int) -> tuple[list[str], str]:
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = "".join(terms)
    if not arrow:
        result = "".join(sorted(c for c in letters if letters.count(c) == 1))
    sound = all(c in ascii_letters for c in letters + result) and all(c in letters for c in result)
    if not sound or len(terms) != count or len({*result}) != len(result):
        refuse(
            f"einsum '{equation}' does not fit {count} operands, or repeats an index in the result",
            "write for example bik,bkj->bij",
        )
    return terms, result


def _spelled_out(equation: str, pieces: Sequence[Tensor]) -> tuple[str, list[Tensor]]:
    """The equation with letters for `...`, and the operands without dims of size 1 among these, which broadcast."""
    if "..." not in equation:
        return equation, list(pieces)
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    spare = [c for c in ascii_letters if c not in equation]
    if len(terms) != len(pieces):
        return equation, list(pieces)  # a fault that `_parse` finds
    counts = [
        piece.ndim - len(term.replace("...", "")) if "..." in term else 0
        for term, piece in zip(terms, pieces, strict=True)
    ]
    if min(counts) < 0:
        refuse(f"einsum '{equation}': an operand has fewer dims than indices")
    letters = "".join(spare[: max(counts)])
    own = [dict(zip(letters[max(counts) - n :] if n else "", range(term.find("..."), piece.ndim), strict=False))
           for n, term, piece in zip(counts, terms, pieces, strict=True)]  # fmt: skip
    sizes = {
        c: max(piece.shape[dims[c]] for dims, piece in zip(own, pieces, strict=True) if c in dims) for c in letters
    }
    found: list[Tensor] = []
    for i, (dims, piece) in enumerate(zip(own, pieces, strict=True)):
        ones = {c: d for c, d in dims.items() if piece.shape[d] == 1 != sizes[c]}
        terms[i] = terms[i].replace("...", "".join(c for c in dims if c not in ones))
        found.append(reshape(piece, [s for d, s in enumerate(piece.shape) if d not in ones.values()]))
    if not arrow:
        result = "..." + "".join(sorted(c for c in left if left.count(c) == 1 and c in ascii_letters))
    return f"{','.join(terms)}->{result.replace('...', letters)}", found


def _without_repeats(term: str, piece: Tensor) -> tuple[str, Tensor]:
    """The diagonal of dims that share an index."""
    for index in dict.fromkeys(term):
        while term.count(index) > 1 and len(term) == piece.ndim:
            first, second = term.index(index), term.rindex(index)
            if piece.shape[first] != piece.shape[second]:
                refuse(f"einsum index {index} has sizes {piece.shape[first]} and {piece.shape[second]} in one operand")
            piece = diagonal(piece, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + index
    return term, piece


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
    left: tuple[str, Tensor], right: tuple[str, Tensor], wanted: set[str], option: Option | None, dtype: str
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
        dtype,
    )
    return "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)]), piece
