"""Rules of ops that cut or write windows at run-time places, sort, or combine in a region."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, picked_kind, reduction_kind, rule


def _spaced_names(names: list[str]) -> str:
    return " ".join(names) or "()"


def dynamic_slice(node: Node) -> Rule:
    """Dims that are taken whole are tied. Of a dim that a window at a run-time place is taken of, every device
    gives the rows that it has, and zeros for the others: a partial sum of the result.
    """
    operand, result = node.operands[0].type, node.result.type
    names = letters(operand.rank)
    cut = [d for d in range(operand.rank) if operand.shape[d] != result.shape[d]]
    source = [f"{n}_0" if d in cut else n for d, n in enumerate(names)]
    target = [f"{n}_r" if d in cut else n for d, n in enumerate(names)]
    return rule(
        f"{', '.join([_spaced_names(source), *['()'] * operand.rank])} -> {_spaced_names(target)}",
        [v.type for v in node.operands],
        [result],
        reduce={source[d]: picked_kind(operand.dtype) for d in cut},
        whole=[target[d] for d in cut],
        linear=(Linear((0,), ALL_KINDS),),
    )


def dynamic_update_slice(node: Node) -> Rule:
    """Dims that the update covers whole are tied; of the others a device writes the rows that it has."""
    operand, update = node.operands[0].type, node.operands[1].type
    names = letters(operand.rank)
    cut = [d for d in range(operand.rank) if operand.shape[d] != update.shape[d]]
    window = [f"{n}_u" if d in cut else n for d, n in enumerate(names)]
    text = (
        f"{', '.join([_spaced_names(names), _spaced_names(window), *['()'] * operand.rank])} -> {_spaced_names(names)}"
    )
    whole = [window[d] for d in cut]
    return rule(text, [v.type for v in node.operands], [operand], whole=whole, linear=(Linear((0, 1), ALL_KINDS),))


def sort(node: Node) -> Rule:
    """All dims but the sorted one are tied. The k greatest are among the k greatest of every tile, which are gathered."""
    operands, results = [v.type for v in node.operands], [v.type for v in node.results]
    dim = node.attrs.dim if node.op == "sort" else operands[0].rank - 1
    names = letters(operands[0].rank)
    target = [f"{n}_r" if d == dim else n for d, n in enumerate(names)]
    text = f"{', '.join([_spaced_names(names)] * len(operands))} -> {', '.join([_spaced_names(target)] * len(results))}"
    if node.op == "top_k":
        return rule(text, operands, results, combine=(names[dim],), whole=(target[dim],))
    return rule(text, operands, results, whole=(names[dim], target[dim]))


def reduce_region(node: Node) -> Rule:
    """The region may be any function of a monoid: devices reduce their rows, and what they have is combined in order."""
    count = len(node.operands) // 2
    names = letters(node.operands[0].type.rank)
    kept = _spaced_names([n for d, n in enumerate(names) if d not in node.attrs.dims])
    text = f"{', '.join([_spaced_names(names)] * count + ['()'] * count)} -> {', '.join([kept] * count)}"
    reduced = [names[d] for d in node.attrs.dims]
    return rule(text, [v.type for v in node.operands], [v.type for v in node.results], combine=reduced)


def scatter(node: Node) -> Rule:
    """Batching dims, and window dims that every update covers from their first row on, are tied.

    Of a dim in which single places are written, a device writes those that it has. Updates that are split make a
    partial result where the region is one op that is also a reduction.
    """
    attrs, count = node.attrs, len(node.operands) // 2
    operand, indices, update = (node.operands[i].type for i in (0, count, count + 1))
    names = letters(operand.rank + indices.rank)
    data, places = names[: operand.rank], ["1"] * indices.rank
    for number, dim in enumerate(d for d in range(indices.rank) if d != attrs.index_vector_dim):
        places[dim] = names[operand.rank + number]
    batching = dict(zip(attrs.scatter_indices_batching_dims, attrs.input_batching_dims, strict=True))
    for place, dim in batching.items():
        places[place] = data[dim]
    looked_up = iter(d for d in range(indices.rank) if d != attrs.index_vector_dim)
    dropped = {*attrs.inserted_window_dims, *attrs.input_batching_dims}
    kept = iter(d for d in range(operand.rank) if d not in dropped)
    window: list[str] = []
    whole = [data[d] for d in attrs.inserted_window_dims if d not in attrs.scatter_dims_to_operand_dims]
    kind = scatter_reduction(node)
    reduced: dict[str, str] = {}
    for dim in range(update.rank):
        if dim not in attrs.update_window_dims:
            place = next(looked_up)
            window.append(places[place])
            if place not in batching and kind:
                reduced[places[place]] = reduction_kind(kind)
            elif place not in batching:
                whole.append(places[place])
            continue
        origin = next(kept)
        is_placed = origin in attrs.scatter_dims_to_operand_dims  # its rows go to others at any index but 0
        covered = update.shape[dim] == operand.shape[origin] and not is_placed
        is_row = update.shape[dim] == 1 and is_placed
        window.append(data[origin] if covered else "1" if is_row else f"w{dim}")
        whole += [] if covered or is_row else [data[origin], f"w{dim}"]
    sides = [_spaced_names(data)] * count + [_spaced_names(places)] + [_spaced_names(window)] * count
    text = f"{', '.join(sides)} -> {', '.join([_spaced_names(data)] * count)}"
    return rule(
        text,
        [v.type for v in node.operands],
        [v.type for v in node.results],
        reduce=reduced,
        whole=tuple(dict.fromkeys(whole)),
        linear=(Linear((0, 2)),) if kind == "add" else (),
    )


def scatter_reduction(node: Node) -> str | None:
    """The reduce kind of a scatter's region, where its updates may be combined in parts; None if not.

    Without indices nothing could be masked, and a sum of booleans wraps, so it is not a sum.
    """
    if len(node.operands) != 3 or not node.attrs.scatter_dims_to_operand_dims:
        return None
    kind = fold_kind(node.regions[0])
    return None if node.results[0].type.dtype == "i1" and kind in ("add", "multiply") else kind


def rng_bit_generator(node: Node) -> Rule:
    """A number is drawn from its position, so every device draws those of its tile."""
    state, bits = (v.type for v in node.results)
    text = f"state -> next, {_spaced_names(letters(bits.rank))}"
    return rule(text, [v.type for v in node.operands], [state, bits], whole=["state", "next"])
