"""Traced einsum. Each pair of operands is contracted by one dot_general."""

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
    """Sum products of elements in index notation, such as `"bik,bkj->bij"`. Operands are contracted from left to right.

    `...` stands for any dims, which broadcast. An index that occurs twice in one operand selects its diagonal. Without
    `->`, the result has `...` and the indices that occur once, in alphabetical order. `sharding_option` (see `matmul`)
    is allowed for two operands; the loops are those of the dot_general.
    """
    dtype = promote(*operands)
    result_type = "" if preferred_element_type is None else dtype_of(preferred_element_type)
    factors = [tensor(x, dtype) for x in operands]
    equation, factors = _spelled_out(equation, factors)
    terms, result = _parse(equation, len(operands))
    diagonals = [_without_repeats(term, factor) for term, factor in zip(terms, factors, strict=True)]
    terms, factors = [term for term, _ in diagonals], [factor for _, factor in diagonals]
    _check_sizes(equation, terms, factors)
    if sharding_option is not None and len(factors) != 2:
        refuse(f"a sharding option needs two operands, not {len(factors)}")
    term, factor = terms[0], factors[0]
    for i in range(1, len(factors)):
        kept_indices = {*result, *"".join(terms[i + 1 :])}
        next_factor = convert(factors[i], factor.type.dtype)
        term, factor = _contract((term, factor), (terms[i], next_factor), kept_indices, sharding_option, result_type)
    term, factor = _summed(term, convert(factor, result_type or dtype), {*result})
    return transpose(factor, [term.index(c) for c in result])


def _parse(equation: str, count: int) -> tuple[list[str], str]:
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = "".join(terms)
    if not arrow:
        result = "".join(sorted(c for c in letters if letters.count(c) == 1))
    is_valid = all(c in ascii_letters for c in letters + result) and all(c in letters for c in result)
    if not is_valid or len(terms) != count or len({*result}) != len(result):
        refuse(
            f"einsum '{equation}' does not fit {count} operands, or repeats an index in the result",
            "write for example bik,bkj->bij",
        )
    return terms, result


def _spelled_out(equation: str, factors: Sequence[Tensor]) -> tuple[str, list[Tensor]]:
    """Replace each `...` in the equation by index letters. Returns the new equation and the operands.

    Operand dims of size 1 that broadcast are dropped from the operands and from their terms.
    """
    if "..." not in equation:
        return equation, list(factors)
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    unused_letters = [c for c in ascii_letters if c not in equation]
    if len(terms) != len(factors):
        return equation, list(factors)  # `_parse` reports the wrong number of operands.
    counts = [
        factor.ndim - len(term.replace("...", "")) if "..." in term else 0
        for term, factor in zip(terms, factors, strict=True)
    ]
    if min(counts) < 0:
        refuse(f"einsum '{equation}': an operand has fewer dims than indices")
    letters = "".join(unused_letters[: max(counts)])
    ellipsis_dims = [dict(zip(letters[max(counts) - n :] if n else "", range(term.find("..."), factor.ndim), strict=False))
           for n, term, factor in zip(counts, terms, factors, strict=True)]  # fmt: skip
    sizes = {
        c: max(factor.shape[dims[c]] for dims, factor in zip(ellipsis_dims, factors, strict=True) if c in dims)
        for c in letters
    }
    reshaped: list[Tensor] = []
    for i, (dims, factor) in enumerate(zip(ellipsis_dims, factors, strict=True)):
        ones = {c: d for c, d in dims.items() if factor.shape[d] == 1 != sizes[c]}
        terms[i] = terms[i].replace("...", "".join(c for c in dims if c not in ones))
        reshaped.append(reshape(factor, [s for d, s in enumerate(factor.shape) if d not in ones.values()]))
    if not arrow:
        result = "..." + "".join(sorted(c for c in left if left.count(c) == 1 and c in ascii_letters))
    return f"{','.join(terms)}->{result.replace('...', letters)}", reshaped


def _without_repeats(term: str, factor: Tensor) -> tuple[str, Tensor]:
    """Replace dims of an operand that share an index by their diagonal.

    Returns the term without repeated indices, and the operand.
    """
    for index in dict.fromkeys(term):
        while term.count(index) > 1 and len(term) == factor.ndim:
            first, second = term.index(index), term.rindex(index)
            if factor.shape[first] != factor.shape[second]:
                refuse(
                    f"einsum index {index} has sizes {factor.shape[first]} and {factor.shape[second]} in one operand"
                )
            factor = diagonal(factor, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + index
    return term, factor


def _check_sizes(equation: str, terms: Sequence[str], factors: Sequence[Tensor]) -> None:
    sizes: dict[str, int] = {}
    for term, factor in zip(terms, factors, strict=True):
        if len(term) != factor.ndim:
            refuse(f"einsum '{equation}': '{term}' has {len(term)} indices, but its operand is {factor.type}")
        for index, size in zip(term, factor.shape, strict=True):
            if sizes.setdefault(index, size) != size:
                refuse(
                    f"einsum '{equation}' of {' and '.join(str(list(p.shape)) for p in factors)}: index {index} has sizes {sizes[index]} and {size}"
                )


def _summed(term: str, factor: Tensor, kept_indices: set[str]) -> tuple[str, Tensor]:
    """Sum an operand over the indices that are not in `kept_indices`. Returns the remaining term and operand."""
    summed_dims = [d for d, c in enumerate(term) if c not in kept_indices]
    return "".join(c for c in term if c in kept_indices), sum_(
        factor, summed_dims, dtype=factor.dtype
    ) if summed_dims else factor


def _contract(
    left: tuple[str, Tensor], right: tuple[str, Tensor], kept_indices: set[str], option: Option | None, dtype: str
) -> tuple[str, Tensor]:
    a, x = _summed(*left, {*kept_indices, *right[0]})
    b, y = _summed(*right, {*kept_indices, *a})
    batch = [c for c in a if c in b and c in kept_indices]
    contracted = [c for c in a if c in b and c not in kept_indices]
    product = dot_general(
        x,
        y,
        [a.index(c) for c in batch],
        [b.index(c) for c in batch],
        [a.index(c) for c in contracted],
        [b.index(c) for c in contracted],
        option,
        dtype,
    )
    return "".join([*batch, *(c for c in a if c not in b), *(c for c in b if c not in a)]), product
