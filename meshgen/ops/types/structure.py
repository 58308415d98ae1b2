"""Type inference of ops that move elements."""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import TensorType, dtype_name, is_complex, real_dtype
from meshgen.ops.types.site import Shape, Site, agree, known, product, shapes_agree


def constant(site: Site) -> list[TensorType] | None:
    value = site.attrs.value
    if not site.require(isinstance(value, np.ndarray), f"value must be an array, got a {type(value).__name__}"):
        return None
    if site.results:
        result = site.results[0]
        site.require(
            None not in result.shape, f"the result {result} has an unknown size", "a constant needs static sizes"
        )
        name = dtype_name(value.dtype)
        site.require(name == result.dtype, f"value has element type {name}, but the result is {result}")
        fits = value.ndim == 0 or shapes_agree(value.shape, result.shape)
        site.require(fits, f"value has shape {list(value.shape)}, but the result is {result}")
    return None


def iota(site: Site) -> list[TensorType] | None:
    if site.results:
        site.one_dim("dim", site.results[0].rank)
        site.dtype_in(site.results[0], "number")
    return None


def broadcast_in_dim(site: Site) -> list[TensorType] | None:
    (x,), dims = site.operands, site.ints("dims")
    site.lengths(x.rank, "dims")
    if not site.results or len(dims) != x.rank or not site.unique_dims("dims", site.results[0].rank):
        return None
    result = site.results[0]
    site.require(x.dtype == result.dtype, f"cannot turn {x} into {result}: the element types differ")
    for i, d in enumerate(dims):
        fits = x.shape[i] == 1 or agree(x.shape[i], result.shape[d])
        site.require(
            fits, f"dim {i} of {x} cannot become dim {d} of {result} ({x.shape[i]} is neither 1 nor {result.shape[d]})"
        )
    return None


def transpose(site: Site) -> list[TensorType] | None:
    (x,), perm = site.operands, site.ints("perm")
    if not site.require(
        sorted(perm) == list(range(x.rank)), f"perm {list(perm)} is not a permutation of {x.rank} dims"
    ):
        return None
    return [x.with_shape(x.shape[d] for d in perm)]


def reshape(site: Site) -> list[TensorType] | None:
    if site.results:
        x, result = site.operands[0], site.results[0]
        site.require(x.dtype == result.dtype, f"cannot turn {x} into {result}: the element types differ")
        before, after = product(x.shape), product(result.shape)
        site.require(agree(before, after), f"cannot turn {x} with {before} elements into {result} with {after}")
    return None


def view(site: Site) -> list[TensorType] | None:
    """Check a view, which is either a reshape, or a change between complex numbers and pairs of real ones.

    c64[n] <-> f32[n,2]
    """
    if site.results:
        x, result = site.operands[0], site.results[0]
        if x.dtype == result.dtype:
            return reshape(site)
        complex_type, pair_type = (x, result) if is_complex(x.dtype) else (result, x)
        fits = pair_type == TensorType((*complex_type.shape, 2), real_dtype(complex_type.dtype))
        site.require(fits, f"cannot view {x} as {result}: complex numbers are pairs in a last dim of size 2")
    return None


def reversed_dims(site: Site) -> list[TensorType] | None:
    site.unique_dims("dims", site.operands[0].rank)
    return [site.operands[0]]


def sliced(site: Site) -> list[TensorType] | None:
    (x,) = site.operands
    if not site.lengths(x.rank, "start", "limit", "stride"):
        return None
    shape: list[int | None] = []
    for d, (start, limit, stride) in enumerate(
        zip(site.ints("start"), site.ints("limit"), site.ints("stride"), strict=True)
    ):
        size = x.shape[d]
        inside = 0 <= start <= limit and (size is None or limit <= size)
        site.require(inside, f"dim {d}: [{start}, {limit}) is not inside [0, {size})")
        site.require(stride > 0, f"dim {d}: stride {stride} is not positive")
        shape.append(max(0, -(-(limit - start) // max(stride, 1))))
    return [x.with_shape(shape)]


def windows(site: Site) -> list[TensorType] | None:
    (x,), dims = site.operands, site.ints("dims")
    if not site.unique_dims("dims", x.rank) or not site.lengths(len(dims), "sizes", "strides", "dilations"):
        return None
    shape = list(x.sizes)
    parts = zip(dims, site.ints("sizes"), site.ints("strides"), site.ints("dilations"), strict=True)
    for d, size, stride, dilation in parts:
        reach = (size - 1) * dilation + 1
        fits = size > 0 and stride > 0 and dilation > 0 and reach <= x.sizes[d]
        if not site.require(
            fits, f"dim {d}: a window of {size} elements, {dilation} apart, does not fit into {x.sizes[d]} rows"
        ):
            return None
        shape[d] = (x.sizes[d] - reach) // stride + 1
    return [x.with_shape((*shape, *site.ints("sizes")))]


def concatenate(site: Site) -> list[TensorType] | None:
    first = site.operands[0]
    site.same_dtype(site.operands)
    if not site.one_dim("dim", first.rank):
        return None
    dim = site.attrs.dim
    shape: Shape = first.shape
    total: int | None = 0
    for other in site.operands:
        rest = tuple(None if d == dim else n for d, n in enumerate(other.shape))
        if not shapes_agree(rest, shape):
            site.fault(f"cannot append {other} to {first} along dim {dim}: the other dims differ")
            return None
        shape = known(shape, rest)
        total = None if total is None or other.shape[dim] is None else total + (other.shape[dim] or 0)
    return [first.with_shape(total if d == dim else n for d, n in enumerate(shape))]


def pad(site: Site) -> list[TensorType] | None:
    x, value = site.operands
    site.require(value.rank == 0, f"the padding value {value} is not a scalar")
    site.same_dtype(site.operands)
    if not site.lengths(x.rank, "low", "high", "interior"):
        return None
    shape: list[int | None] = []
    for d, size in enumerate(x.shape):
        low, high, interior = (site.ints(name)[d] for name in ("low", "high", "interior"))
        site.require(interior >= 0, f"dim {d}: interior padding {interior} is negative")
        padded_size = None if size is None else size + max(size - 1, 0) * interior + low + high
        site.require(
            padded_size is None or padded_size >= 0, f"dim {d}: padding {low}, {high} removes more than its {size} rows"
        )
        shape.append(padded_size)
    return [x.with_shape(shape)]


def dynamic_slice(site: Site) -> list[TensorType] | None:
    x, *starts = site.operands
    _check_starts(site, x, starts)
    if not site.lengths(x.rank, "slice_sizes"):
        return None
    sizes = site.ints("slice_sizes")
    for d, (size, dim_size) in enumerate(zip(sizes, x.shape, strict=True)):
        site.require(
            size >= 0 and (dim_size is None or size <= dim_size), f"dim {d}: a slice of {size} is not inside {dim_size}"
        )
    return [x.with_shape(sizes)]


def dynamic_update_slice(site: Site) -> list[TensorType] | None:
    x, update, *starts = site.operands
    site.same_dtype((x, update))
    _check_starts(site, x, starts)
    fits = update.rank == x.rank and all(
        a is None or b is None or a <= b for a, b in zip(update.shape, x.shape, strict=True)
    )
    site.require(fits, f"the update {update} does not fit into {x}")
    return [x]


def _check_starts(site: Site, x: TensorType, starts: list[TensorType]) -> None:
    site.require(len(starts) == x.rank, f"has {len(starts)} start indices, but {x} has rank {x.rank}")
    for start in starts:
        scalar = start.rank == 0 and start.dtype.lstrip("u").startswith("i") and start.dtype != "i1"
        site.require(scalar, f"start index {start} is not an integer scalar")
    site.same_dtype(starts)


def gather(site: Site) -> list[TensorType] | None:
    return gathered(site, site.ints("slice_sizes"))


def gathered(site: Site, sizes: Shape) -> list[TensorType] | None:
    """Infer the result of a gather of slices with `sizes`."""
    operand, indices = site.operands
    site.dtype_in(indices, "integer")
    offset, vector_dim = site.ints("offset_dims"), site.attrs.index_vector_dim
    collapsed, batching = site.ints("collapsed_slice_dims"), site.ints("operand_batching_dims")
    has_all = site.require(
        len(sizes) == operand.rank, f"slice_sizes has {len(sizes)} entries, but the rank is {operand.rank}"
    )
    if not (has_all & check_gather_dims(site, operand, indices)):
        return None
    entries = 1 if vector_dim == indices.rank else indices.shape[vector_dim]
    count = len(site.ints("start_index_map"))
    site.require(agree(entries, count), f"start_index_map has {count} entries, but an index vector has {entries}")
    for d, (size, dim_size) in enumerate(zip(sizes, operand.shape, strict=True)):
        fits = size is None or (size >= 0 and (dim_size is None or size <= dim_size))
        site.require(fits, f"dim {d}: a slice of {size} is not inside {dim_size}")
    for d in (*collapsed, *batching):
        site.require(agree(sizes[d], 1), f"dim {d} is dropped, but has slice size {sizes[d]}")
    batch = [n for d, n in enumerate(indices.shape) if d != vector_dim]
    window = [n for d, n in enumerate(sizes) if d not in collapsed and d not in batching]
    rank = len(batch) + len(window)
    site.require(len(offset) == len(window), f"has {len(offset)} offset_dims for {len(window)} window dims")
    if site.faults or not site.unique_dims("offset_dims", rank):
        return None
    parts, rest = iter(window), iter(batch)
    return [operand.with_shape(next(parts) if d in offset else next(rest) for d in range(rank))]


def check_gather_dims(site: Site, operand: TensorType, indices: TensorType) -> bool:
    """Whether the dims of a gather's attributes exist, are distinct, and are sorted."""
    is_valid = site.is_sorted("offset_dims") & site.unique_dims("start_index_map", operand.rank)
    is_valid &= site.unique_dims("collapsed_slice_dims", operand.rank)
    is_valid &= site.is_sorted("collapsed_slice_dims") & site.is_sorted("operand_batching_dims")
    for name in ("collapsed_slice_dims", "start_index_map"):
        is_valid &= site.apart(name, "operand_batching_dims")
    return is_valid & check_index_dims(site, operand, indices, "operand_batching_dims", "start_indices_batching_dims")


def check_index_dims(site: Site, x: TensorType, indices: TensorType, of_x: str, of_indices: str) -> bool:
    """Whether the index vectors lie along a dim of the indices, and the batching dims are valid.

    The batching dims of the indices must exclude this dim and match the batching dims of `x`.
    """
    vector_dim = site.attrs.index_vector_dim
    is_valid = site.unique_dims(of_x, x.rank) & site.unique_dims(of_indices, indices.rank)
    is_valid &= site.require(
        0 <= vector_dim <= indices.rank, f"index_vector_dim {vector_dim} is not in [0, {indices.rank}]"
    )
    is_valid &= site.require(vector_dim not in site.ints(of_indices), f"{of_indices} has index_vector_dim {vector_dim}")
    return is_valid and _check_batching(site, x, indices, site.ints(of_x), site.ints(of_indices))


def _check_batching(site: Site, operand: TensorType, indices: TensorType, left: tuple[int, ...], right: tuple[int, ...]) -> bool:  # fmt: skip
    if not site.require(len(left) == len(right), f"has {len(left)} operand and {len(right)} index batching dims"):
        return False
    is_valid = True
    for a, b in zip(left, right, strict=True):
        fits = agree(operand.shape[a], indices.shape[b])
        is_valid &= site.require(fits, f"batching dim {a} of {operand} does not match dim {b} of {indices}")
    return is_valid
