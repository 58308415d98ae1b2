"""Types of ops with regions, of sorting, scatter and random bits.

scatter: `update_window_dims`, `inserted_window_dims`, `input_batching_dims`, `scatter_indices_batching_dims`,
`scatter_dims_to_operand_dims`, `index_vector_dim`; operands are inputs, indices, updates. sort: `dim`,
`is_stable`. top_k: `k`; results are values and i32 indices. rng_bit_generator: `algorithm`; results are the new
state and the bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.flatten_manual import is_open
from meshgen.ir.graph import Graph, Node, TensorType
from meshgen.ir.regions import all_nodes
from meshgen.mesh import split_ref
from meshgen.ops.registry import is_allowed_in_manual
from meshgen.ops.types.site import Site, agree, shapes_agree, types_agree
from meshgen.ops.types.structure import check_index_dims
from meshgen.spec import Sharding


def optimization_barrier(site: Site) -> list[TensorType] | None:
    """Return the operand types, which are also the result types."""
    return list(site.operands)


def while_loop(site: Site) -> list[TensorType] | None:
    if not site.region_count(2):
        return None
    types = list(site.operands)
    site.region(0, types, [TensorType((), "i1")])
    site.region(1, types, types)
    return types


def scan(site: Site) -> list[TensorType] | None:
    """Infer the result types of a scan: the types of the carried operands.

    The body receives each operand, or a slice of its rows if it is sliced. The body returns the carried operands for
    the next iteration.
    """
    if not site.region_count(1):
        return None
    body, attrs = site.regions[0], site.attrs
    sliced = attrs.sliced
    lengths_match = len(sliced) == len(attrs.offsets) == len(attrs.strides) and len(set(sliced)) == len(sliced)
    counts_match = len(body.outputs) <= len(site.operands) == len(body.inputs)
    in_range = all(0 <= index < len(site.operands) for index in sliced)
    if not site.require(
        lengths_match and counts_match and in_range and attrs.trips >= 1,
        "its trip count, rows and arguments do not fit",
    ):
        return None
    types = list(site.operands)
    for index in sliced:
        types[index] = _type_of_rows(site, index, body.inputs[index].type, index < len(body.outputs))
    site.region(0, types, types[: len(body.outputs)])
    return list(site.operands[: len(body.outputs)])


def _type_of_rows(site: Site, index: int, part: TensorType, is_result: bool) -> TensorType:
    """Return the type of the rows that the body receives.

    The rows must be inside the operand in every iteration. No two iterations may write the same rows of a result.
    """
    whole, attrs = site.operands[index], site.attrs
    fits = whole.rank > 0 and whole.dtype == part.dtype and part.shape[1:] == whole.shape[1:]
    if not site.require(fits and None not in whole.shape, f"{whole} has no rows of type {part}"):
        return part
    size, count, step = whole.sizes[0], part.sizes[0], attrs.steps[index][1]
    starts = [attrs.starts(iteration)[index] for iteration in (0, attrs.trips - 1)]
    site.require(min(starts) >= 0 and max(starts) + count <= size, f"rows {starts} of {whole} are not inside it")
    site.require(not is_result or attrs.trips == 1 or abs(step) >= count, f"rows of {whole} are written twice")
    return part


def conditional(site: Site) -> list[TensorType] | None:
    pred, *rest = site.operands
    site.require(types_agree(pred, TensorType((), "i1")), f"the predicate must be i1[], got {pred}")
    return _branches(site, rest) if site.region_count(2) else None


def switch(site: Site) -> list[TensorType] | None:
    index, *rest = site.operands
    site.require(types_agree(index, TensorType((), "i32")), f"the index must be i32[], got {index}")
    if not site.require(len(site.regions) > 0, "has no branches"):
        return None
    return _branches(site, rest)


def _branches(site: Site, inputs: Sequence[TensorType]) -> list[TensorType]:
    outputs = [v.type for v in site.regions[0].outputs]
    for index in range(len(site.regions)):
        site.region(index, inputs, outputs)
    return outputs


def sort_rows(site: Site) -> list[TensorType] | None:
    first = site.operands[0]
    for operand in site.operands:
        site.require(
            shapes_agree(first.shape, operand.shape), f"sorts {first} together with {operand}: the shapes differ"
        )
    site.one_dim("dim", first.rank)
    if site.region_count(1):
        scalars = [TensorType((), t.dtype) for t in site.operands for _ in range(2)]
        site.region(0, scalars, [TensorType((), "i1")])
    return list(site.operands)


def top_k(site: Site) -> list[TensorType] | None:
    (x,) = site.operands
    k = site.attrs.k
    site.dtype_in(x, "ordered")
    if not site.require(x.rank > 0, f"{x} has no last dim"):
        return None
    size = x.shape[-1]
    if not site.require(
        k >= 0 and (size is None or k <= size), f"k is {k}, but the last dim of {x} has {size} elements"
    ):
        return None
    shape = (*x.shape[:-1], k)
    return [x.with_shape(shape), TensorType(shape, "i32")]


_RANDOM = {"THREE_FRY": (2,), "PHILOX": (2, 3), "DEFAULT": (2, 3)}  # Valid sizes of the state.


def rng_bit_generator(site: Site) -> list[TensorType] | None:
    state = site.operands[0]
    algorithm = site.attrs.algorithm
    if site.require(algorithm in _RANDOM, f"unknown algorithm '{algorithm}'; expected one of {', '.join(_RANDOM)}"):
        sizes = _RANDOM[algorithm]
        expected = " or ".join(f"ui64[{size}]" for size in sizes)
        fits = any(types_agree(state, TensorType((size,), "ui64")) for size in sizes)
        site.require(fits, f"the state of {algorithm} must be {expected}, got {state}")
    if site.results and site.require(len(site.results) == 2, f"has {len(site.results)} results instead of 2"):
        site.require(types_agree(site.results[0], state), f"the new state must be {state}, got {site.results[0]}")
        dtype = site.results[1].dtype
        site.require(dtype.lstrip("u") in ("i8", "i16", "i32", "i64"), f"its result must have an integer type of at least 8 bits, got {site.results[1]}")  # fmt: skip
    return None


def scatter(site: Site) -> list[TensorType] | None:
    count = len(site.operands) // 2
    if not site.require(len(site.operands) % 2 == 1, "needs inputs, indices and as many updates as inputs") or not site.region_count(1):  # fmt: skip
        return None
    inputs, indices, updates = list(site.operands[:count]), site.operands[count], site.operands[count + 1 :]
    site.dtype_in(indices, "integer")
    x, update = inputs[0], updates[0]
    if _check_scatter_dims(site, x, indices, update):
        _check_updates(site, x, indices, update)
    for a, b in zip(inputs, updates, strict=True):
        site.require(shapes_agree(a.shape, x.shape) and shapes_agree(b.shape, update.shape), "the inputs or the updates differ in shape")  # fmt: skip
        site.require(a.dtype == b.dtype, f"updates {a} with {b}: the element types differ")
    scalars = [TensorType((), t.dtype) for t in inputs]
    site.region(0, scalars * 2, scalars)
    return inputs


def _check_scatter_dims(site: Site, x: TensorType, indices: TensorType, update: TensorType) -> bool:
    """Whether the dims of a scatter's attributes exist, are distinct, and are sorted."""
    is_valid = site.unique_dims("update_window_dims", update.rank) and site.is_sorted("update_window_dims")
    is_valid &= site.unique_dims("inserted_window_dims", x.rank)
    is_valid &= site.is_sorted("inserted_window_dims") & site.is_sorted("input_batching_dims")
    is_valid &= site.unique_dims("scatter_dims_to_operand_dims", x.rank)
    for name in ("inserted_window_dims", "scatter_dims_to_operand_dims"):
        is_valid &= site.apart(name, "input_batching_dims")
    return is_valid & check_index_dims(site, x, indices, "input_batching_dims", "scatter_indices_batching_dims")


def _check_updates(site: Site, x: TensorType, indices: TensorType, update: TensorType) -> None:
    vector_dim = site.attrs.index_vector_dim
    entries = 1 if vector_dim == indices.rank else indices.shape[vector_dim]
    map_length = len(site.ints("scatter_dims_to_operand_dims"))
    site.require(
        agree(entries, map_length),
        f"scatter_dims_to_operand_dims has {map_length} entries, but an index vector has {entries}",
    )
    dropped = (*site.ints("inserted_window_dims"), *site.ints("input_batching_dims"))
    window_dims = [n for d, n in enumerate(x.shape) if d not in dropped]
    window = [update.shape[d] for d in site.ints("update_window_dims")]
    inside = len(window_dims) == len(window) and all(
        a is None or b is None or a <= b for a, b in zip(window, window_dims, strict=True)
    )
    site.require(inside, f"the update's window {window} does not fit into {window_dims}")
    batch = tuple(n for d, n in enumerate(indices.shape) if d != vector_dim)
    update_batch = tuple(n for d, n in enumerate(update.shape) if d not in site.ints("update_window_dims"))
    site.require(
        shapes_agree(batch, update_batch), f"there are {list(batch)} indices, but {list(update_batch)} updates"
    )


# Ops that a body may contain after free axes have been partitioned, because the body is then a per-device program.
_LOCAL_OPS = ("permute", "retile", "update_halo", "fetch_rows", "mask_padding")


def manual(site: Site) -> list[TensorType] | None:
    """Check that operands (results) and their shardings agree in count and rank.

    The sizes of the tiles depend on the mesh, so the reader of the module checks them.
    """
    if not site.region_count(1):
        return None
    body, axes = site.regions[0], (*site.manual, *site.attrs.axes)
    results = site.results or []
    for direction, types, values in (("in", site.operands, body.inputs), ("out", results, body.outputs)):
        shardings = getattr(site.attrs, f"{direction}_shardings")
        ends = zip(types, values, shardings, strict=False)
        counts_match = len(types) == len(values) == len(shardings)
        types_match = all(t.dtype == v.type.dtype and t.rank == v.type.rank == s.rank for t, v, s in ends)
        site.require(
            counts_match and types_match, f"{direction}_shardings do not fit the values {', '.join(map(str, types))}"
        )
    _check_body(site, body, axes, is_local=not is_open(site))
    return None


def _check_body(site: Site, body: Graph, axes: Sequence[str], is_local: bool) -> None:
    """Check that the collectives in a body use manual axes only.

    With `is_local`, the body may also contain the ops that the partitioner adds.
    """
    for node in body.nodes:
        if node.op == "manual":
            _check_body(site, node.regions[0], (*axes, *node.attrs.axes), is_local)
            continue
        if is_allowed_in_manual(node.op) or (is_local and node.op in _LOCAL_OPS):
            other_axes = [axis for axis in used_axes(node) if split_ref(axis)[0] not in axes]
            site.require(
                not other_axes,
                f"'{node.op}' in its body uses the axes {other_axes}, but the manual axes are {list(axes)}",
            )
        elif node.op != "process_index" and ("axes" in node.attrs.given or node.op in _LOCAL_OPS):
            site.fault(f"'{node.op}' is not allowed in its body")
        for region in node.regions:
            _check_body(site, region, axes, is_local)


def used_axes(node: Node) -> list[str]:
    """Return the distinct mesh axes and sub-axes that the attributes of a node in a local program name."""
    shardings = (value for value in node.attrs.given.values() if isinstance(value, Sharding))
    return list(dict.fromkeys([*axes_of(node.attrs), *(a for sharding in shardings for a in sharding.used_axes)]))


def axes_in(graph: Graph) -> set[str]:
    """Return the names of the mesh axes that the nodes of a local program use."""
    return {split_ref(axis)[0] for node in all_nodes(graph) for axis in used_axes(node)}
