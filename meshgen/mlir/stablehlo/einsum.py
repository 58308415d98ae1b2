"""Operations of StableHLO in older programs: einsum, unary_einsum, torch_index_select and broadcast.

They are expanded into other operations during import.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.builder import Builder, all_computed
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.fields import listed, number
from meshgen.mlir.loop_values import transposed
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation
from meshgen.mlir.text_operation import Field, define, values_of

_CONFIG = Field(
    "einsum_config", keyword="config", read=lambda parser: builtin.StringAttr(parser.parse_str_literal()), kind="string"
)


_OPERATIONS = (
    # Example: `stablehlo.einsum %a, %b, config = "ab,bc->ac" : (...) -> ...`
    *define(HloOperation, "stablehlo", {"1 -> 1": "unary_einsum", "2 -> 1": "einsum"}, FIELDS=(_CONFIG,)),
    *define(GenericOperation, "stablehlo", {"2 -> 1": "torch_index_select"}, FIELDS=(
        number("dim", "dim"), number("batch_dims", "batch_dims"),
    )),
    # Example: `stablehlo.broadcast %x, sizes = [2, 3] : (tensor<4xf32>) -> tensor<2x3x4xf32>`
    *define(HloOperation, "stablehlo", {"1 -> 1": "broadcast"}, FIELDS=(listed("broadcast_sizes", "sizes", "sizes"),)),
)  # fmt: skip


def _index_select(b: Builder, x: Value, index: Value) -> Value:
    """Expand `torch_index_select`: return the slices of `x` at `index` along `dim`.

    The first `batch_dims` dims of both operands are batch dims.
    """
    attrs = values_of(b.source)
    dim, batch = attrs["dim"], attrs["batch_dims"]
    dim += x.type.rank if dim < 0 else 0
    batch += index.type.rank if batch < 0 else 0
    if not 0 <= batch <= dim < x.type.rank or batch > index.type.rank:
        raise Refused("MG0104", f"dim {dim} and {batch} batch dims of {x.type} and {index.type}")
    offset_dims = [d for d in range(x.type.rank) if d != dim and d >= batch]
    # number of result dims that replace `dim`: those of `index` without its batch dims
    index_dims = index.type.rank - batch
    numbering = {
        "offset_dims": tuple(d if d < dim else d - 1 + index_dims for d in offset_dims),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": tuple(range(batch)),
        "start_indices_batching_dims": tuple(range(batch)),
        "start_index_map": (dim,),
        "index_vector_dim": index.type.rank,
        "slice_sizes": tuple(1 if d == dim or d < batch else size for d, size in enumerate(x.type.shape)),
        "indices_are_sorted": False,
    }
    return b.emit("gather", [x, index], b.result, **numbering)


def _add_leading_dims(b: Builder, x: Value) -> Value:
    """Expand `broadcast`: return `x` broadcast along new leading dims."""
    added = len(values_of(b.source)["sizes"])
    return b.emit("broadcast_in_dim", [x], b.result, dims=tuple(range(added, added + x.type.rank)))


def _einsum(b: Builder, *operands: Value) -> Value:
    """Expand an einsum into diagonals, sums over dims that only one operand has, a dot, and a transpose."""
    config = b.word("einsum_config")
    words = _dim_letters(config, [value.type.rank for value in operands])
    if words is None:
        raise Refused("MG0104", f"'{config}' does not fit ({', '.join(str(value.type) for value in operands)})")
    sides, result_letters = words
    if len(operands) == 1:
        value, word = _summed(b, operands[0], sides[0], result_letters)
    else:
        (left, first), (right, second) = (
            _summed(b, operands[i], sides[i], result_letters + sides[1 - i]) for i in range(2)
        )
        value, word = _multiplied(b, left, first, right, second, result_letters)
    return transposed(b, value, [word.index(letter) for letter in result_letters])


def _dim_letters(config: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """Return one letter per dim, for each operand and for the result. Returns None if `config` does not fit the ranks.

    The dims that `...` stands for get letters that no program contains.
    """
    left, arrow, output = config.replace(" ", "").partition("->")
    sides = left.split(",")
    if not arrow or len(sides) != len(ranks):
        return None
    ellipsis_ranks = [
        rank - len(side.replace("...", "")) if "..." in side else 0 for side, rank in zip(sides, ranks, strict=True)
    ]
    if min(ellipsis_ranks) < 0:
        return None
    ellipsis_letters = [chr(0x100 + i) for i in range(max(ellipsis_ranks))]  # letters that no program contains
    expanded = [
        side.replace("...", "".join(ellipsis_letters[len(ellipsis_letters) - n :]))
        for side, n in zip(sides, ellipsis_ranks, strict=True)
    ]
    result = output.replace("...", "".join(ellipsis_letters))
    operand_letters = set("".join(expanded))
    if len(set(result)) != len(result) or not set(result) <= operand_letters:
        return None
    return (expanded, result) if [len(word) for word in expanded] == list(ranks) else None


def _summed(builder: Builder, value: Value, word: str, kept: str) -> tuple[Value, str]:
    """Return `value` after taking diagonals of repeated letters and summing over letters not in `kept`, and its
    letters.

    `word` has one letter per dim of `value`.
    """
    for letter in dict.fromkeys(word):
        while word.count(letter) > 1:
            value, word = _diagonal(builder, value, word, letter)
    dims = tuple(d for d, letter in enumerate(word) if letter not in kept)
    return (builder.reduce("add", value, dims), "".join(x for x in word if x in kept)) if dims else (value, word)


def _diagonal(builder: Builder, value: Value, word: str, letter: str) -> tuple[Value, str]:
    """Return the diagonal of the two dims with the letter `letter`, and the letters of the remaining dims."""
    first, second = word.index(letter), word.rindex(letter)
    index_type = TensorType(value.type.shape, "i32")
    rows, columns = (builder.emit("iota", [], index_type, dim=d) for d in (first, second))
    masked = builder.select(builder.compare("EQ", rows, columns), value, builder.constant(0, value.type))
    return builder.reduce("add", masked, [second]), word[:second] + word[second + 1 :]


def _multiplied(
    builder: Builder, left: Value, first: str, right: Value, second: str, result_letters: str
) -> tuple[Value, str]:
    """Return the dot of two values and the letters of its dims. `first` and `second` are the letters of the operands.

    Letters of both operands are batch dims if the result has them, and contracted dims otherwise.
    """
    common = [letter for letter in first if letter in second]
    batch, contracted = [x for x in common if x in result_letters], [x for x in common if x not in result_letters]
    dims = [([*map(first.index, role)], [*map(second.index, role)]) for role in (contracted, batch)]
    free_dims = [[(letter, size) for letter, size in zip(word, value.type.shape, strict=True) if letter not in common]
            for word, value in ((first, left), (second, right))]  # fmt: skip
    letters = [(x, left.type.shape[first.index(x)]) for x in batch] + free_dims[0] + free_dims[1]
    product_type = left.type.with_shape(size for _, size in letters)
    product = builder.dot(left, right, product_type, *dims, precision=())
    return product, "".join(letter for letter, _ in letters)


PART = Dialect(
    operations=_OPERATIONS,
    importers=all_computed("stablehlo", {
        "broadcast": _add_leading_dims, "torch_index_select": _index_select, "einsum": _einsum, "unary_einsum": _einsum,
    }),
)  # fmt: skip
