"""Sharding rule of `gather`. Batches of look-ups are parallel. With masked look-ups, the indexed dim may also be
sharded.
"""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, picked_kind, rule


def gather(node: Node) -> Rule:
    """Return the rule of a gather, for example `v e, b 1 -> b e`.

    Batch dims share their factors with the indices, and dims that are copied in full share theirs with the operand.
    A dim from which the op reads single rows may be sharded. Every device then looks up the rows in its tile and writes
    zeros for all others, so the result is a partial sum. A dim from which the op reads a longer window stays
    replicated.
    """
    attrs, operand, indices, result = node.attrs, node.operands[0].type, node.operands[1].type, node.result.type
    names = letters(operand.rank + indices.rank)
    data, index_factors = names[: operand.rank], ["1"] * indices.rank
    batch = [d for d in range(indices.rank) if d != attrs.index_vector_dim]
    for batch_index, dim in enumerate(batch):
        index_factors[dim] = names[operand.rank + batch_index]
    for dim, index_dim in zip(attrs.operand_batching_dims, attrs.start_indices_batching_dims, strict=True):
        data[dim] = index_factors[index_dim]
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    window_dims = iter(d for d in range(operand.rank) if d not in dropped)
    looked_up = iter(batch)
    target: list[str] = []
    replicated: list[str] = []
    rows = [d for d in attrs.collapsed_slice_dims if d in attrs.start_index_map]
    for dim in range(result.rank):
        if dim not in attrs.offset_dims:
            target.append(index_factors[next(looked_up)])
            continue
        origin = next(window_dims)
        if attrs.slice_sizes[origin] == operand.shape[origin]:
            target.append(data[origin])
        elif attrs.slice_sizes[origin] == 1 and origin in attrs.start_index_map:
            rows.append(origin)
            target.append("1")
        else:
            replicated += [data[origin], f"w{origin}"]
            target.append(f"w{origin}")
    reduced = {data[d]: picked_kind(operand.dtype) for d in rows}
    replicated += [data[d] for d in attrs.collapsed_slice_dims if d not in attrs.start_index_map]
    sides = [" ".join(side) or "()" for side in (data, index_factors, target)]
    text = f"{sides[0]}, {sides[1]} -> {sides[2]}"
    return rule(text, [operand, indices], [result], reduce=reduced, whole=replicated, linear=(Linear((0,), ALL_KINDS),))
