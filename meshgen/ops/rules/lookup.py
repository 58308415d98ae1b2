"""Rule of gather: batches of look-ups are parallel, a dim that is indexed can be looked up by masks."""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, picked_kind, rule


def gather(node: Node) -> Rule:
    """`v e, b 1 -> b e`: batch dims are tied to the indices, dims taken whole to the operand.

    A dim of which single rows are taken may be sharded: every device looks up what it has and leaves zeros
    elsewhere, so the result is a partial sum. A dim of which a window is taken stays whole.
    """
    attrs, operand, indices, result = node.attrs, node.operands[0].type, node.operands[1].type, node.result.type
    names = letters(operand.rank + indices.rank)
    data, places = names[: operand.rank], ["1"] * indices.rank
    batch = [d for d in range(indices.rank) if d != attrs.index_vector_dim]
    for number, dim in enumerate(batch):
        places[dim] = names[operand.rank + number]
    for dim, place in zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True):
        data[dim] = places[place]
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    kept = iter(d for d in range(operand.rank) if d not in dropped)
    looked_up = iter(batch)
    target: list[str] = []
    whole: list[str] = []
    rows = [d for d in attrs.collapsed_slice_dims if d in attrs.start_index_map]
    for dim in range(result.rank):
        if dim not in attrs.offset_dims:
            target.append(places[next(looked_up)])
            continue
        origin = next(kept)
        if attrs.slice_sizes[origin] == operand.shape[origin]:
            target.append(data[origin])
        elif attrs.slice_sizes[origin] == 1 and origin in attrs.start_index_map:
            rows.append(origin)
            target.append("1")
        else:
            whole += [data[origin], f"w{origin}"]
            target.append(f"w{origin}")
    reduced = {data[d]: picked_kind(operand.dtype) for d in rows}
    whole += [data[d] for d in attrs.collapsed_slice_dims if d not in attrs.start_index_map]
    sides = [" ".join(side) or "()" for side in (data, places, target)]
    text = f"{sides[0]}, {sides[1]} -> {sides[2]}"
    return rule(text, [operand, indices], [result], reduce=reduced, whole=whole, linear=(Linear((0,), ALL_KINDS),))
