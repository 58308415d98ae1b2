"""Types of reductions, dots, convolutions and windows.

Attributes that StableHLO nests are flat here. convolution: `window_strides`, `low`, `high`, `lhs_dilation`,
`rhs_dilation`, `window_reversal` (one entry per spatial dim), `input_batch`, `input_feature`, `input_spatial`,
`kernel_input_feature`, `kernel_output_feature`, `kernel_spatial`, `output_batch`, `output_feature`,
`output_spatial`, `feature_group_count`, `batch_group_count`. reduce_window: `window_dimensions`,
`window_strides`, `base_dilations`, `window_dilations`, `low`, `high`.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import TensorType, is_complex, is_float
from meshgen.ops.types.site import Site, agree, shapes_agree

_KINDS = {"add": "any", "multiply": "any", "maximum": "ordered", "minimum": "ordered", "and": "logical", "or": "logical",
          "xor": "logical"}  # fmt: skip


def reduce(site: Site) -> list[TensorType] | None:
    x, init = site.operands
    kind = site.attrs.kind
    if site.require(kind in _KINDS, f"unknown kind '{kind}'; expected one of {', '.join(_KINDS)}"):
        site.dtype_in(x, _KINDS[kind])
    return _reduced_types(site, [x], [init])


def _reduced_types(site: Site, inputs: Sequence[TensorType], inits: Sequence[TensorType]) -> list[TensorType] | None:
    _check_folded(site, inputs, inits)
    dims = site.ints("dims")
    if not site.unique_dims("dims", inputs[0].rank):
        return None
    return [x.with_shape(n for d, n in enumerate(x.shape) if d not in dims) for x in inputs]


def _check_folded(site: Site, inputs: Sequence[TensorType], inits: Sequence[TensorType]) -> None:
    """Check that all inputs have the same shape, and that each initial value is a scalar with the element type of its
    input.
    """
    for x, init in zip(inputs, inits, strict=True):
        site.require(
            init.rank == 0 and init.dtype == x.dtype,
            f"the initial value must be a scalar of type {x.dtype}, got {init}",
        )
        site.require(shapes_agree(x.shape, inputs[0].shape), f"the inputs {inputs[0]} and {x} differ in shape")


def reduce_region(site: Site) -> list[TensorType] | None:
    count = len(site.operands) // 2
    if not _has_paired_operands(site):
        return None
    return _reduced_types(site, site.operands[:count], site.operands[count:])


def _has_paired_operands(site: Site) -> bool:
    """Whether there is an initial value per input, and the region folds scalars of the inputs' element types."""
    count = len(site.operands)
    if not site.require(count % 2 == 0, f"has {count} operands; needs one initial value per input"):
        return False
    scalars = [x.with_shape(()) for x in site.operands[: count // 2]]
    return site.region_count(1) and site.region(0, scalars * 2, scalars)


def dot_general(site: Site) -> list[TensorType] | None:
    left, right = site.operands
    is_valid = site.require(
        _may_multiply(left, right),
        f"the operands differ in element type: {left.dtype} and {right.dtype}",
        "insert a convert",
    )
    dim_attributes = ("lhs_batch", "lhs_contract"), ("rhs_batch", "rhs_contract")
    for x, names in zip((left, right), dim_attributes, strict=True):
        for name in names:
            is_valid &= site.unique_dims(name, x.rank)
        shared_dims = set(site.ints(names[0])) & set(site.ints(names[1]))
        is_valid &= site.require(not shared_dims, f"{names[0]} and {names[1]} share dim {min(shared_dims, default=0)}")
    for a, b in zip(*dim_attributes, strict=True):
        pairs = list(zip(site.ints(a), site.ints(b), strict=False))
        is_valid &= site.require(
            len(site.ints(a)) == len(site.ints(b)), f"{a} has {len(site.ints(a))} dims and {b} {len(site.ints(b))}"
        )
        for i, j in pairs if is_valid else ():
            fits = agree(left.shape[i], right.shape[j])
            site.require(
                fits, f"dim {i} of {left} does not match dim {j} of {right} ({left.shape[i]} against {right.shape[j]})"
            )
    if not is_valid:
        return None
    shape = [left.shape[d] for d in site.ints("lhs_batch")]
    for x, names in zip((left, right), dim_attributes, strict=True):
        shape += [n for d, n in enumerate(x.shape) if d not in site.ints(names[0]) and d not in site.ints(names[1])]
    return [TensorType(tuple(shape), _product_dtype(site, left))]


def ragged_dot(site: Site) -> list[TensorType] | None:
    """Infer the result type of a grouped matmul: [m, k] x [g, k, n] -> [m, n].

    If the rows are contracted: [m, k] x [m, n] -> [g, k, n]. The last two operands are the start and the end of each
    group:
    i32[g] tensors of row indices.
    """
    left, right, starts, ends = site.operands
    contracts = site.attrs.contracts
    fits = left.rank == 2 and right.rank == (2 if contracts else 3)
    fits = fits and agree(left.shape[0 if contracts else 1], right.shape[0 if contracts else 1])
    is_valid = site.require(fits, f"{left} does not fit {right}")
    is_valid &= site.require(_may_multiply(left, right) and not is_complex(left.dtype), f"{left.dtype} cannot be multiplied by {right.dtype}")  # fmt: skip
    for ends_of in (starts, ends):
        is_valid &= site.require(ends_of.rank == 1 and ends_of.dtype == "i32", f"the starts and ends of groups must be lists of i32, got {ends_of}")  # fmt: skip
    is_valid &= site.require(
        site.attrs.total_groups >= 0, f"total_groups is {site.attrs.total_groups}; it must be 0 or more"
    )
    if not is_valid:
        return None
    groups = (starts, ends) if contracts else (starts, ends, right)
    if not site.require(all(agree(x.shape[0], ends.shape[0]) for x in groups), f"{starts}, {ends} and {right} differ in the number of groups"):  # fmt: skip
        return None
    shape = (ends.shape[0], left.shape[1], right.shape[1]) if contracts else (left.shape[0], right.shape[2])
    return [TensorType(shape, _product_dtype(site, left))]


def _may_multiply(left: TensorType, right: TensorType) -> bool:
    return left.dtype == right.dtype or (
        is_float(left.dtype) == is_float(right.dtype)
        and "i1" not in (left.dtype, right.dtype)
        and not (is_complex(left.dtype) or is_complex(right.dtype))
    )


def _product_dtype(site: Site, left: TensorType) -> str:
    """Return the element type of a dot's result.

    It is the declared type if that type and the left operand's type are both floats, both integers, or both complex.
    Otherwise, and during inference, it is the type of the left operand.
    """
    if site.results and _family(site.results[0].dtype) == _family(left.dtype):
        return site.results[0].dtype
    return left.dtype


def _family(dtype: str) -> tuple[bool, bool, bool]:
    return dtype == "i1", is_float(dtype), is_complex(dtype)


def window_size(
    size: int | None, window: int, stride: int, low: int, high: int, base: int, dilation: int
) -> int | None:
    """Return the number of positions of a window in a padded, dilated dim, or None if the size of the dim is unknown."""
    if size is None:
        return None
    padded = (size - 1) * base + 1 + low + high if size else low + high
    reach = (window - 1) * dilation + 1
    return 0 if window == 0 or padded < reach else (padded - reach) // stride + 1


def _positive(site: Site, *names: str) -> bool:
    is_valid = True
    for name in names:
        values = site.ints(name)
        is_valid &= site.require(all(v > 0 for v in values), f"{name} {list(values)} has an entry below 1")
    return is_valid


def reduce_window(site: Site) -> list[TensorType] | None:
    count = len(site.operands) // 2
    if not _has_paired_operands(site):
        return None
    _check_folded(site, site.operands[:count], site.operands[count:])
    x = site.operands[0]
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    if not (site.lengths(x.rank, *names, "low", "high") and _positive(site, *names)):
        return None
    parts = zip(x.shape, *(site.ints(n) for n in ("window_dimensions", "window_strides", "low", "high", "base_dilations", "window_dilations")), strict=True)  # fmt: skip
    shape = [window_size(*part) for part in parts]
    return [t.with_shape(shape) for t in site.operands[:count]]


def select_and_scatter(site: Site) -> list[TensorType] | None:
    x, source, init = site.operands
    names = ("window_dimensions", "window_strides")
    scalar = x.with_shape(())
    if site.region_count(2):
        site.region(0, [scalar, scalar], [TensorType((), "i1")])
        site.region(1, [scalar, scalar], [scalar])
    _check_folded(site, [x], [init])
    site.require(source.dtype == x.dtype, f"the source {source} and {x} differ in element type")
    if site.lengths(x.rank, *names, "low", "high") and _positive(site, *names):
        parts = zip(x.shape, *(site.ints(n) for n in (*names, "low", "high")), strict=True)
        windows = tuple(window_size(*part, base=1, dilation=1) for part in parts)
        site.require(shapes_agree(source.shape, windows), f"the source {source} should have shape {list(windows)}")
    return [x]


def convolution(site: Site) -> list[TensorType] | None:
    spatial = len(site.ints("input_spatial"))
    if not site.lengths(spatial, "low", "high"):
        return None
    return convolved(site, list(zip(site.ints("low"), site.ints("high"), strict=True)))


def convolved(site: Site, padding: Sequence[tuple[int, int]] | None) -> list[TensorType] | None:
    """Infer a convolution with this `padding` of each spatial dim. If it is None, the spatial sizes of the result are
    unknown.
    """
    image, kernel = site.operands
    spatial = len(site.ints("input_spatial"))
    lists = ("window_strides", "lhs_dilation", "rhs_dilation")
    is_valid = site.lengths(spatial, *lists, "window_reversal", "kernel_spatial", "output_spatial")
    is_valid = is_valid and _positive(site, *lists)
    for x, batch, feature, dims in (
        (image, "input_batch", "input_feature", "input_spatial"),
        (kernel, "kernel_input_feature", "kernel_output_feature", "kernel_spatial"),
        (image, "output_batch", "output_feature", "output_spatial"),
    ):
        order = [getattr(site.attrs, batch), getattr(site.attrs, feature), *site.ints(dims)]
        is_valid &= site.require(sorted(order) == list(range(x.rank)), f"{batch}, {feature} and {dims} {order} are not a permutation of {x.rank} dims")  # fmt: skip
    if not is_valid:
        return None
    fits = _may_multiply(image, kernel)
    site.require(fits, f"the operands differ in element type: {image.dtype} and {kernel.dtype}", "insert a convert")
    if not _check_groups(site, image, kernel) or site.faults:
        return None
    batches = site.attrs.batch_group_count
    rows = image.shape[site.attrs.input_batch]
    shape: list[int | None] = [None] * image.rank
    shape[site.attrs.output_batch] = None if rows is None else rows // batches
    shape[site.attrs.output_feature] = kernel.shape[site.attrs.kernel_output_feature]
    for i, d in enumerate(site.ints("output_spatial")):
        window = kernel.shape[site.ints("kernel_spatial")[i]]
        size = image.shape[site.ints("input_spatial")[i]]
        if window is None or padding is None:
            continue
        stride, base, dilation = (site.ints(name)[i] for name in lists)
        shape[d] = window_size(size, window, stride, *padding[i], base, dilation)
    return [TensorType(tuple(shape), _product_dtype(site, image))]


def _check_groups(site: Site, image: TensorType, kernel: TensorType) -> bool:
    groups, batches = site.attrs.feature_group_count, site.attrs.batch_group_count
    if not site.require(min(groups, batches) >= 1 and 1 in (groups, batches), f"has {groups} feature and {batches} batch groups; one of them must be 1"):  # fmt: skip
        return False
    features, kernel_features = image.shape[site.attrs.input_feature], kernel.shape[site.attrs.kernel_input_feature]
    outputs, rows = kernel.shape[site.attrs.kernel_output_feature], image.shape[site.attrs.input_batch]
    if features is not None and kernel_features is not None:
        site.require(
            features == kernel_features * groups,
            f"{features} input features are not {groups} groups of the kernel's {kernel_features}",
        )
    if outputs is not None:
        site.require(
            outputs % (groups * batches) == 0, f"{outputs} output features do not divide into {groups * batches} groups"
        )
    if rows is not None:
        site.require(rows % batches == 0, f"{rows} rows do not divide into {batches} groups")
    return True
