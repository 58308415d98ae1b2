"""Data movement as steps of random ONNX models: reshapes, slices, concatenations, gathers and position-dependent
operators.
"""

from __future__ import annotations

import numpy as np

from tests.frontend.onnx_maker import RandomBuilder, step
from tests.frontend.random_models import CannotBuild


@step
def reshape(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    size = m.values[x].size
    first = m.one_of([d for d in range(1, size + 1) if size % d == 0])
    m.add("Reshape", x, m.constant(np.array(m.one_of(([first, -1], [-1, first], [-1], [1, first, -1])))), keeps=True)


@step
def reshape_by_shape(m: RandomBuilder) -> None:
    """Append a Reshape. Its target shape is computed from the shape of the operand at runtime, as in exported models."""
    x = m.of_rank(2)
    first = m.add("Gather", m.add("Shape", x), m.constant(np.array([0])), axis=0)
    m.add("Reshape", x, m.add("Concat", first, m.constant(np.array([-1])), axis=0), keeps=True)


@step
def flatten(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    m.add("Flatten", x, axis=m.integer(0, m.values[x].ndim), keeps=True)


@step
def transpose(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    m.add("Transpose", x, perm=[int(d) for d in m.rng.permutation(m.values[x].ndim)], keeps=True)


@step
def squeeze(m: RandomBuilder) -> None:
    x = m.of_rank(1, 4)
    wide = m.add("Unsqueeze", x, m.constant(np.array([m.integer(-1, m.values[x].ndim)])), keeps=True)
    if m.integer(0, 1) and (ones := [d for d, size in enumerate(m.values[wide].shape) if size == 1]):
        m.add("Squeeze", wide, m.constant(np.array([m.one_of(ones)])), keeps=True)


@step
def concat(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    axis = m.integer(0, m.values[x].ndim - 1)
    shape = list(m.values[x].shape)
    shape[axis] = m.integer(1, 3)
    m.add("Concat", x, m.weight(*shape), x, axis=axis, keeps=True)


@step
def split(m: RandomBuilder) -> None:
    x = m.pick(lambda array: array.ndim > 0 and max(array.shape) > 1)
    axis = int(np.argmax(m.values[x].shape))
    first = m.integer(1, m.values[x].shape[axis] - 1)
    sizes = m.constant(np.array([first, m.values[x].shape[axis] - first]))
    m.add("Split", x, sizes, results=2, axis=axis, keeps=True)


@step
def cut(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    axis = m.integer(0, m.values[x].ndim - 1)
    size = m.values[x].shape[axis]
    start, by = m.integer(0, size - 1), m.one_of((1, 2, -1))
    stop = size + 3 if by > 0 else -size - 1
    m.add("Slice", x, *(m.constant(np.array([n])) for n in (start, stop, axis, by)), keeps=True)


@step
def pad(m: RandomBuilder) -> None:
    x = m.of_rank(1, 4)
    mode = m.one_of(("constant", "edge", "reflect"))
    most = 1 if mode == "reflect" else 2
    widths = [m.integer(0, min(most, size - 1)) for size in m.values[x].shape] * 2
    m.add(
        "Pad",
        x,
        m.constant(np.array(widths)),
        m.constant(np.float32(0.5)) if mode == "constant" else "",
        mode=mode,
        keeps=True,
    )


@step
def repeat(m: RandomBuilder) -> None:
    x = m.of_rank(1, 4)
    if m.integer(0, 1):
        m.add("Tile", x, m.constant(np.array([m.integer(1, 2) for _ in m.values[x].shape])), keeps=True)
    else:
        m.add("Expand", x, m.constant(np.array([m.integer(2, 3), *m.values[x].shape])), keeps=True)


@step
def gather(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    axis = m.integer(0, m.values[x].ndim - 1)
    size = m.values[x].shape[axis]
    rows = m.rng.integers(-size, size, m.one_of(((), (3,), (2, 2))))
    m.add("Gather", x, m.constant(rows) if m.integer(0, 1) else m.input(rows), axis=axis, keeps=True)


@step
def gather_elements(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    axis = m.integer(0, m.values[x].ndim - 1)
    rows = m.rng.integers(0, m.values[x].shape[axis], m.values[x].shape)
    m.add("GatherElements", x, m.input(rows), axis=axis, keeps=True)


@step
def gather_places(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    sizes = m.values[x].shape[: m.integer(1, 2)]
    rows = np.stack([m.rng.integers(0, size, (3,)) for size in sizes], -1)
    m.add("GatherND", x, m.input(rows), keeps=True)


@step
def scatter(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    axis = m.integer(0, m.values[x].ndim - 1)
    shape = m.values[x].shape
    order = np.argsort(m.rng.random(shape), axis)
    m.add(
        "ScatterElements",
        x,
        m.input(order),
        m.weight(*shape),
        axis=axis,
        reduction=m.one_of(("none", "add", "max")),
        keeps=True,
    )


@step
def scatter_rows(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    size, *rest = m.values[x].shape
    rows = m.rng.permutation(size)[: max(1, size // 2), None]
    m.add(
        "ScatterND",
        x,
        m.input(rows),
        m.weight(len(rows), *rest),
        reduction=m.one_of(("none", "add", "mul")),
        keeps=True,
    )


@step
def largest(m: RandomBuilder) -> None:
    """Append a selection of the largest among distinct numbers, because packages order equal numbers differently."""
    x = m.pick(lambda array: array.ndim > 0 and np.unique(array).size == array.size, exact=True)
    axis = m.integer(0, m.values[x].ndim - 1)
    if m.integer(0, 1):
        m.add(
            "TopK",
            x,
            m.constant(np.array([m.integer(1, m.values[x].shape[axis])])),
            results=2,
            axis=axis,
            largest=m.integer(0, 1),
        )
    else:
        m.add(m.one_of(("ArgMax", "ArgMin")), x, axis=axis, keepdims=m.integer(0, 1))


@step
def running_sum(m: RandomBuilder) -> None:
    x = m.of_rank(1)
    axis = np.array(m.integer(-m.values[x].ndim, m.values[x].ndim - 1))
    m.add(
        "CumSum",
        x,
        m.input(axis) if m.integer(0, 1) else m.constant(axis),
        exclusive=m.integer(0, 1),
        reverse=m.integer(0, 1),
        keeps=True,
    )


@step
def one_hot(m: RandomBuilder) -> None:
    rows = m.input(m.rng.integers(-5, 5, (m.integer(1, 4),)))
    m.add("OneHot", rows, m.constant(np.array(5)), m.constant(np.array([0.5, 2], np.float32)), axis=m.one_of((0, -1)))


@step
def triangle(m: RandomBuilder) -> None:
    k = np.array(m.integer(-2, 2))
    m.add("Trilu", m.of_rank(2), m.input(k) if m.integer(0, 1) else m.constant(k), upper=m.integer(0, 1), keeps=True)


@step
def resize(m: RandomBuilder) -> None:
    x = m.of_rank(3, 4)
    sizes = [*m.values[x].shape[:2], *(m.integer(1, 5) for _ in m.values[x].shape[2:])]
    m.add("Resize", x, "", "", m.constant(np.array(sizes)), mode="linear", coordinate_transformation_mode=m.one_of(("half_pixel", "asymmetric")))  # fmt: skip


@step
def blocks(m: RandomBuilder) -> None:
    x = m.of_rank(4, 4)
    _, c, h, w = m.values[x].shape
    if c % 4 == 0:
        m.add("DepthToSpace", x, blocksize=2, mode=m.one_of(("DCR", "CRD")), keeps=True)
    elif h % 2 == 0 and w % 2 == 0:
        m.add("SpaceToDepth", x, blocksize=2, keeps=True)
    else:
        raise CannotBuild


@step
def reversed_rows(m: RandomBuilder) -> None:
    x = m.of_rank(2)
    time, batch = m.values[x].shape[:2]
    m.add("ReverseSequence", x, m.input(m.rng.integers(1, time + 1, (batch,))), time_axis=0, batch_axis=1, keeps=True)
