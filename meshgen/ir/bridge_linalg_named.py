"""Reader of linalg's named operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntAttr, StringAttr
from xdsl.ir import Operation

from meshgen.ir.bridge import IMPORTERS, Importer, imports
from meshgen.ir.bridge_linalg import refuse, structured
from meshgen.ir.bridge_linalg_body import Place, neutral, transposed
from meshgen.ir.bridge_linalg_reduce import contract
from meshgen.ir.bridge_payload import BINARY, Builder, apply_operation, fill_number, finish
from meshgen.ir.dialects.upstream import LINALG_NAMED
from meshgen.ir.graph import Value

# Loops of the two factors and of the result, per dim.
PRODUCTS: dict[str, tuple[str, str, str]] = {
    "matmul": ("mk", "kn", "mn"),
    "matmul_transpose_a": ("km", "kn", "mn"),
    "matmul_transpose_b": ("mk", "nk", "mn"),
    "batch_matmul": ("bmk", "bkn", "bmn"),
    "batch_matmul_transpose_a": ("bkm", "bkn", "bmn"),
    "batch_matmul_transpose_b": ("bmk", "bnk", "bmn"),
    "matvec": ("mk", "k", "m"),
    "vecmat": ("k", "kn", "n"),
    "batch_matvec": ("bmk", "bk", "bm"),
    "dot": ("k", "k", ""),
}
LOOPS = "bmnk"


def _inputs(op: Operation) -> int:
    count = op.attributes["input_count"]
    assert isinstance(count, IntAttr)
    return count.data


def _list(op: Operation, name: str) -> tuple[int, ...]:
    attribute = op.attributes.get(name)
    return tuple(int(n) for n in attribute.get_values()) if isinstance(attribute, DenseArrayBase) else ()


def _importer_of(name: str) -> Callable[[Importer, Operation], None]:
    def import_product(importer: Importer, op: Operation) -> None:
        if isinstance(op.attributes.get("indexing_maps"), ArrayAttr):
            importer.fault(
                "MG0103", f"{op.name} with indexing maps of its own is not supported", op, "use linalg.generic"
            )
            refuse(importer, op)
            return
        builder, (a, b, init) = Builder(importer, op), importer.values(op.operands)
        left, right, place = ([LOOPS.index(x) for x in word] for word in PRODUCTS[name])
        fits = (a.type.rank, b.type.rank, init.type.rank) == (len(left), len(right), len(place))
        if not fits or not _sizes_agree((a, b, init), (left, right, place)):
            importer.fault("MG0104", f"{op.name}: {a.type} times {b.type} does not make {init.type}", op)
            refuse(importer, op)
            return
        found = contract(builder, (a, left), (b, right), [LOOPS.index("k")], init.type.dtype, tuple(place))
        assert found is not None, "the table holds contractions"
        finish(importer, op, found if fill_number(op.operands[2]) == 0 else builder.apply("add", init, found))

    return import_product


def _sizes_agree(values: Sequence[Value], places: Sequence[Sequence[int]]) -> bool:
    sizes: dict[int, int | None] = {}
    pairs = [
        pair for value, place in zip(values, places, strict=True) for pair in zip(place, value.type.shape, strict=True)
    ]
    return all(size is not None and sizes.setdefault(loop, size) == size for loop, size in pairs)


@imports("linalg.fill")
def import_fill(importer: Importer, op: Operation) -> None:
    builder, (value, output) = Builder(importer, op), importer.values(op.operands)
    finish(importer, op, builder.broadcast(builder.convert(value, output.type.dtype), output.type.shape))


@imports("linalg.copy")
def import_copy(importer: Importer, op: Operation) -> None:
    value, output = importer.values(op.operands)
    finish(importer, op, Builder(importer, op).convert(value, output.type.dtype))


@imports("linalg.transpose")
def import_transpose(importer: Importer, op: Operation) -> None:
    """Dim d of the result is dim permutation[d] of the input."""
    value, order = importer.value(op.operands[0]), _list(op, "permutation")
    kind = importer.type(op.results[0])
    if sorted(order) != list(range(value.type.rank)) or tuple(value.type.shape[d] for d in order) != kind.shape:
        importer.fault("MG0104", f"linalg.transpose: {value.type} by {list(order)} is not {kind}", op)
        refuse(importer, op)
        return
    finish(importer, op, transposed(Builder(importer, op), value, order))


@imports("linalg.broadcast")
def import_broadcast(importer: Importer, op: Operation) -> None:
    """`dimensions` are the result's dims that the input does not have."""
    value, kind, new = importer.value(op.operands[0]), importer.type(op.results[0]), _list(op, "dimensions")
    dims = [d for d in range(kind.rank) if d not in new]
    if tuple(kind.shape[d] for d in dims) != value.type.shape:
        importer.fault("MG0104", f"linalg.broadcast: {value.type} with new dims {list(new)} is not {kind}", op)
        refuse(importer, op)
        return
    finish(importer, op, Builder(importer, op).broadcast(value, kind.shape, dims))


@imports("linalg.reduce", "linalg.map")
def import_body(importer: Importer, op: Operation) -> None:
    """A region or a combining operation over all dims, `dimensions` of them reduced."""
    reduced, count = _list(op, "dimensions"), _inputs(op)
    rank = importer.type(op.operands[0]).rank
    whole: Place = tuple(range(rank))
    kept: Place = tuple(d for d in whole if d not in reduced)
    places = [whole if n < count else kept for n in range(len(op.operands))]
    if op.regions:
        block = op.regions[0].block
        structured(importer, op, block.args, block.last_op, places, count, reduced)
    else:
        _combined(importer, op, count, reduced)


def _combined(importer: Importer, op: Operation, count: int, reduced: tuple[int, ...]) -> None:
    """`linalg.reduce { arith.addf } ...`, `linalg.map { arith.addf } ...`."""
    combiner = op.attributes.get("combiner")
    name = combiner.data.partition(".")[2] if isinstance(combiner, StringAttr) else ""
    builder, values, kind = Builder(importer, op), importer.values(op.operands), BINARY.get(name)
    if op.name == "linalg.map" and kind is not None and count == 2:
        finish(importer, op, builder.apply(kind, *values[:2]))
    elif op.name == "linalg.reduce" and kind in ("add", "multiply", "maximum", "minimum", "and", "or", "xor"):
        x, init = values
        number = neutral(kind, x.type.dtype)
        start = builder.constant(number, x.type.with_shape(()))
        found = builder.node("reduce", [x, start], init.type, dims=reduced, kind=kind)
        finish(importer, op, found if fill_number(op.operands[1]) == number else builder.apply(kind, init, found))
    else:
        importer.fault("MG0103", f"{op.name} with '{name}' is not supported", op)
        refuse(importer, op)


def import_named(importer: Importer, op: Operation) -> None:
    """An element-wise operation; its output's content is not read."""
    count, kind = _inputs(op), importer.type(op.results[0])
    values = importer.values(op.operands[:count])
    found = None
    if all(value.type.shape == kind.shape for value in values):
        found = apply_operation(Builder(importer, op), op, values)
    if found is None:
        importer.fault("MG0104", f"{op.name} of ({', '.join(str(v.type) for v in values)}) is not {kind}", op)
        refuse(importer, op)
        return
    finish(importer, op, found)


for _word in LINALG_NAMED.split():
    if _word in PRODUCTS:
        IMPORTERS[f"linalg.{_word}"] = _importer_of(_word)
    else:
        IMPORTERS.setdefault(f"linalg.{_word}", import_named)
