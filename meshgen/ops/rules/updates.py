"""Sharding rules of ops that slice or update windows at run-time offsets, sort, or combine elements with a region."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, picked_kind, reduction_kind, rule


def _spaced_names(names: list[str]) -> str:
    return " ".join(names) or "()"


def dynamic_slice(node: Node) -> Rule:
    """Return the rule of `dynamic_slice`: dims that are copied in full share their factors.

    A sliced dim may be sharded: each device copies the requested rows that are in its tile and writes zeros for all
    others. The result is then a partial sum.
    """
    operand, result = node.operands[0].type, node.result.type
    names = letters(operand.rank)
    sliced_dims = [d for d in range(operand.rank) if operand.shape[d] != result.shape[d]]
    source = [f"{n}_0" if d in sliced_dims else n for d, n in enumerate(names)]
    target = [f"{n}_r" if d in sliced_dims else n for d, n in enumerate(names)]
    return rule(
        f"{', '.join([_spaced_names(source), *['()'] * operand.rank])} -> {_spaced_names(target)}",
        [v.type for v in node.operands],
        [result],
        reduce={source[d]: picked_kind(operand.dtype) for d in sliced_dims},
        whole=[target[d] for d in sliced_dims],
        linear=(Linear((0,), ALL_KINDS),),
    )


def dynamic_update_slice(node: Node) -> Rule:
    """Return the rule of `dynamic_update_slice`.

    Dims that the update covers in full share their factors. The other dims may be sharded too: each device writes those
    rows of the update that are in its tile.
    """
    operand, update = node.operands[0].type, node.operands[1].type
    names = letters(operand.rank)
    partly_covered = [d for d in range(operand.rank) if operand.shape[d] != update.shape[d]]
    window = [f"{n}_u" if d in partly_covered else n for d, n in enumerate(names)]
    text = (
        f"{', '.join([_spaced_names(names), _spaced_names(window), *['()'] * operand.rank])} -> {_spaced_names(names)}"
    )
    replicated = [window[d] for d in partly_covered]
    return rule(text, [v.type for v in node.operands], [operand], whole=replicated, linear=(Linear((0, 1), ALL_KINDS),))


def sort(node: Node) -> Rule:
    """Return the rule of `sort` or `top_k`: all dims except the sorted one share their factors.

    `top_k` may also shard the sorted dim. Each device selects the k greatest elements of its tile, and the op gathers
    these candidates and selects again.
    """
    operands, results = [v.type for v in node.operands], [v.type for v in node.results]
    dim = node.attrs.dim if node.op == "sort" else operands[0].rank - 1
    names = letters(operands[0].rank)
    target = [f"{n}_r" if d == dim else n for d, n in enumerate(names)]
    text = f"{', '.join([_spaced_names(names)] * len(operands))} -> {', '.join([_spaced_names(target)] * len(results))}"
    if node.op == "top_k":
        return rule(text, operands, results, combine=(names[dim],), whole=(target[dim],))
    return rule(text, operands, results, whole=(names[dim], target[dim]))


def reduce_region(node: Node) -> Rule:
    """Return the rule of a reduction with a region.

    The reduced dims may be sharded: each device reduces its rows, and the op combines the devices' results in row
    order, so the region need not be commutative.
    """
    count = len(node.operands) // 2
    names = letters(node.operands[0].type.rank)
    result_dims = _spaced_names([n for d, n in enumerate(names) if d not in node.attrs.dims])
    text = f"{', '.join([_spaced_names(names)] * count + ['()'] * count)} -> {', '.join([result_dims] * count)}"
    reduced = [names[d] for d in node.attrs.dims]
    return rule(text, [v.type for v in node.operands], [v.type for v in node.results], combine=reduced)


def scatter(node: Node) -> Rule:
    """Return the rule of a scatter.

    Batching dims share their factors, and so do window dims that every update covers in full from index 0 on. An
    indexed dim with updates of size 1 may be sharded: each device applies the updates whose targets are in its tile. If
    the updates are sharded, the result is partial; this requires a region that is a single reduction op.
    """
    attrs, count = node.attrs, len(node.operands) // 2
    operand, indices, update = (node.operands[i].type for i in (0, count, count + 1))
    names = letters(operand.rank + indices.rank)
    data, index_factors = names[: operand.rank], ["1"] * indices.rank
    for batch_index, dim in enumerate(d for d in range(indices.rank) if d != attrs.index_vector_dim):
        index_factors[dim] = names[operand.rank + batch_index]
    batching = dict(zip(attrs.scatter_indices_batching_dims, attrs.input_batching_dims, strict=True))
    for index_dim, dim in batching.items():
        index_factors[index_dim] = data[dim]
    looked_up = iter(d for d in range(indices.rank) if d != attrs.index_vector_dim)
    dropped = {*attrs.inserted_window_dims, *attrs.input_batching_dims}
    window_dims = iter(d for d in range(operand.rank) if d not in dropped)
    window: list[str] = []
    replicated = [data[d] for d in attrs.inserted_window_dims if d not in attrs.scatter_dims_to_operand_dims]
    kind = scatter_reduction(node)
    reduced: dict[str, str] = {}
    for dim in range(update.rank):
        if dim not in attrs.update_window_dims:
            index_dim = next(looked_up)
            window.append(index_factors[index_dim])
            if index_dim not in batching and kind:
                reduced[index_factors[index_dim]] = reduction_kind(kind)
            elif index_dim not in batching:
                replicated.append(index_factors[index_dim])
            continue
        origin = next(window_dims)
        # An index other than 0 shifts the rows of the update against those of the operand.
        is_placed = origin in attrs.scatter_dims_to_operand_dims
        covered = update.shape[dim] == operand.shape[origin] and not is_placed
        is_row = update.shape[dim] == 1 and is_placed
        window.append(data[origin] if covered else "1" if is_row else f"w{dim}")
        replicated += [] if covered or is_row else [data[origin], f"w{dim}"]
    sides = [_spaced_names(data)] * count + [_spaced_names(index_factors)] + [_spaced_names(window)] * count
    text = f"{', '.join(sides)} -> {', '.join([_spaced_names(data)] * count)}"
    return rule(
        text,
        [v.type for v in node.operands],
        [v.type for v in node.results],
        reduce=reduced,
        whole=tuple(dict.fromkeys(replicated)),
        linear=(Linear((0, 2)),) if kind == "add" else (),
    )


def scatter_reduction(node: Node) -> str | None:
    """Return the reduction op of a scatter whose updates may be sharded, or None.

    Excluded are scatters without indices, because the partitioner could not mask their updates, and `add` and
    `multiply` of booleans, which are not sums and products.
    """
    if len(node.operands) != 3 or not node.attrs.scatter_dims_to_operand_dims:
        return None
    kind = fold_kind(node.regions[0])
    return None if node.results[0].type.dtype == "i1" and kind in ("add", "multiply") else kind


def rng_bit_generator(node: Node) -> Rule:
    """Return the rule of a random generator. Each element depends only on its position, so each device draws its own
    tile.
    """
    state, bits = (v.type for v in node.results)
    text = f"state -> next, {_spaced_names(letters(bits.rank))}"
    return rule(text, [v.type for v in node.operands], [state, bits], whole=["state", "next"])
