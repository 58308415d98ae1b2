"""Operations of StableHLO that older programs have: einsum, unary_einsum, torch_index_select and broadcast.

They are expanded to other operations when they are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import builtin

from meshgen.ir.graph import TensorType, Value
from meshgen.mlir.arith.payload import Builder, all_computed
from meshgen.mlir.conversion import Refused
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.fields import listed, number
from meshgen.mlir.spread import transposed
from meshgen.mlir.stablehlo.base import GenericOperation, HloOperation
from meshgen.mlir.text_operation import Field, define, values_of

_CONFIG = Field(
    "einsum_config", keyword="config", read=lambda parser: builtin.StringAttr(parser.parse_str_literal()), kind="string"
)


_OPERATIONS = (
    # `stablehlo.einsum %a, %b, config = "ab,bc->ac" : (...) -> ...`
    *define(HloOperation, "stablehlo", {"1 -> 1": "unary_einsum", "2 -> 1": "einsum"}, FIELDS=(_CONFIG,)),
    *define(GenericOperation, "stablehlo", {"2 -> 1": "torch_index_select"}, FIELDS=(
        number("dim", "dim"), number("batch_dims", "batch_dims"),
    )),
    # `stablehlo.broadcast %x, sizes = [2, 3] : (tensor<4xf32>) -> tensor<2x3x4xf32>`
    *define(HloOperation, "stablehlo", {"1 -> 1": "broadcast"}, FIELDS=(listed("broadcast_sizes", "sizes", "sizes"),)),
)  # fmt: skip


def _index_select(b: Builder, x: Value, index: Value) -> Value:
    """Rows of dim `dim` by number; the first `batch_dims` dims of both operands go together."""
    attrs = values_of(b.source)
    dim, batch = attrs["dim"], attrs["batch_dims"]
    dim += x.type.rank if dim < 0 else 0
    batch += index.type.rank if batch < 0 else 0
    if not 0 <= batch <= dim < x.type.rank or batch > index.type.rank:
        raise Refused("MG0104", f"dim {dim} and {batch} batch dims of {x.type} and {index.type}")
    kept = [d for d in range(x.type.rank) if d != dim and d >= batch]
    inside = index.type.rank - batch  # dims of the result from the index, after those before `dim`
    numbering = {
        "offset_dims": tuple(d if d < dim else d - 1 + inside for d in kept),
        "collapsed_slice_dims": (dim,),
        "operand_batching_dims": tuple(range(batch)),
        "start_indices_batching_dims": tuple(range(batch)),
        "start_index_map": (dim,),
        "index_vector_dim": index.type.rank,
        "slice_sizes": tuple(1 if d == dim or d < batch else size for d, size in enumerate(x.type.shape)),
        "indices_are_sorted": False,
    }
    return b.emit("gather", [x, index], b.result, **numbering)


def _behind_new_dims(b: Builder, x: Value) -> Value:
    """New dims precede those of the operand."""
    ahead = len(values_of(b.source)["sizes"])
    return b.emit("broadcast_in_dim", [x], b.result, dims=tuple(range(ahead, ahead + x.type.rank)))


def _einsum(b: Builder, *operands: Value) -> Value:
    """Each side loses its diagonals and the dims that it alone has; then a dot, and a transpose."""
    config = b.word("einsum_config")
    words = _dim_letters(config, [value.type.rank for value in operands])
    if words is None:
        raise Refused("MG0104", f"'{config}' does not fit ({', '.join(str(value.type) for value in operands)})")
    sides, wanted = words
    if len(operands) == 1:
        value, word = _summed(b, operands[0], sides[0], wanted)
    else:
        (left, first), (right, second) = (_summed(b, operands[i], sides[i], wanted + sides[1 - i]) for i in range(2))
        value, word = _multiplied(b, left, first, right, second, wanted)
    return transposed(b, value, [word.index(letter) for letter in wanted])


def _dim_letters(config: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """A letter for each dim of the operands and of the result; `...` are dims of their own, before one has no letter."""
    left, arrow, wanted = config.replace(" ", "").partition("->")
    sides = left.split(",")
    if not arrow or len(sides) != len(ranks):
        return None
    hidden = [
        rank - len(side.replace("...", "")) if "..." in side else 0 for side, rank in zip(sides, ranks, strict=True)
    ]
    if min(hidden) < 0:
        return None
    others = [chr(0x100 + i) for i in range(max(hidden))]  # letters that no program writes
    full = [side.replace("...", "".join(others[len(others) - n :])) for side, n in zip(sides, hidden, strict=True)]
    result = wanted.replace("...", "".join(others))
    known = set("".join(full))
    if len(set(result)) != len(result) or not set(result) <= known:
        return None
    return (full, result) if [len(word) for word in full] == list(ranks) else None


def _summed(builder: Builder, value: Value, word: str, kept: str) -> tuple[Value, str]:
    """The value with a letter once, and summed over letters that nothing else has."""
    for letter in dict.fromkeys(word):
        while word.count(letter) > 1:
            value, word = _diagonal(builder, value, word, letter)
    dims = tuple(d for d, letter in enumerate(word) if letter not in kept)
    return (builder.reduce("add", value, dims), "".join(x for x in word if x in kept)) if dims else (value, word)


def _diagonal(builder: Builder, value: Value, word: str, letter: str) -> tuple[Value, str]:
    """Of two dims that have one letter: the last goes."""
    first, second = word.index(letter), word.rindex(letter)
    places = TensorType(value.type.shape, "i32")
    rows, columns = (builder.emit("iota", [], places, dim=d) for d in (first, second))
    only = builder.select(builder.compare("EQ", rows, columns), value, builder.constant(0, value.type))
    return builder.reduce("add", only, [second]), word[:second] + word[second + 1 :]


def _multiplied(builder: Builder, left: Value, first: str, right: Value, second: str, wanted: str) -> tuple[Value, str]:
    """Letters of both sides are batches where the result has them, else they are summed over."""
    common = [letter for letter in first if letter in second]
    batch, contracted = [x for x in common if x in wanted], [x for x in common if x not in wanted]
    dims = [([*map(first.index, role)], [*map(second.index, role)]) for role in (contracted, batch)]
    rest = [[(letter, size) for letter, size in zip(word, value.type.shape, strict=True) if letter not in common]
            for word, value in ((first, left), (second, right))]  # fmt: skip
    letters = [(x, left.type.shape[first.index(x)]) for x in batch] + rest[0] + rest[1]
    kind = left.type.with_shape(size for _, size in letters)
    found = builder.dot(left, right, kind, *dims, precision=())
    return found, "".join(letter for letter, _ in letters)


PART = Dialect(
    operations=_OPERATIONS,
    importers=all_computed("stablehlo", {
        "broadcast": _behind_new_dims, "torch_index_select": _index_select, "einsum": _einsum, "unary_einsum": _einsum,
    }),
)  # fmt: skip
