"""Error bounds for the comparison of two executions of one program.

An execution conforms if it rounds every op to its element type and computes functions to within a few ulp. It may
add sums in any order and grouping, at least in f32, and round partial sums to the element type. Nothing here is tuned:
the constants are unit roundoffs, counts of terms and a quantile. There are two bounds; the smaller one applies.

1. Forward error analysis. Each value has a bound of |computed - exact|, and two executions differ by at most twice
   this bound. The bound always holds, but it grows by a factor per layer of a deep program. A value may exist as
   partial sums that are larger than the value itself, and these are rounded too. Each value therefore also has a
   magnitude: the sum of absolute values of all terms that linear ops added up to it. A value with a nonlinear use is
   never partial there, so its magnitude is its absolute value.
2. Monte Carlo arithmetic. The program runs several more times in f64. After every op, each run adds a random-sign
   error of the size that is typical of the op. An execution under test must lie in the prediction interval of
   Student's t distribution, so a correct one fails with a probability of about 1e-6 per element.

Sources: Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapter 3; Parker, "Monte Carlo
Arithmetic", UCLA CSD-970002, 1997.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from meshgen.ir.graph import Graph, Node, TensorType, Value, dtype_name, is_complex, is_float, is_inexact
from meshgen.ir.op_names import ANNOTATIONS, BRANCHES
from meshgen.ops.composites import decomposed, is_composite
from meshgen.ops.evaluate.common import Array
from meshgen.ops.evaluate.control import case_branch, rows_at
from meshgen.ops.evaluate.evaluator import Evaluator, last_uses
from meshgen.ops.op import Trait
from meshgen.ops.registry import OPS
from meshgen.ops.tolerance.tracked import Tracked, absolute, default_bound, exact, unknown, widest

# The number of Monte Carlo runs. Chosen: each costs one more execution, and T_QUANTILE accounts for the small number.
SAMPLES = 8
# An operand this many standard deviations from a pole counts as at the pole. Chosen: the typical spread of samples.
NEAR = 1.0
T_QUANTILE = 13.26  # The two-sided 1e-6 quantile of Student's t distribution with 8 degrees of freedom.


class _Tracker:
    def __init__(self, tf32: bool, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._tf32 = tf32
        self._random = np.random.default_rng(0)
        self._twins: dict[Node, Node] = {}
        self._decomposed: dict[Node, Graph] = {}
        self._never_partial: dict[Graph, frozenset[Value]] = {}
        self._dying_values: dict[Graph, dict[int, list[Value]]] = {}

    def graph(
        self, graph: Graph, args: Sequence[Tracked], outer: Mapping[Value, Tracked] | None = None
    ) -> list[Tracked]:
        values: dict[Value, Tracked] = {**(outer or {}), **dict(zip(graph.inputs, args, strict=True))}
        if graph not in self._never_partial:
            self._never_partial[graph], self._dying_values[graph] = _values_with_nonlinear_use(graph), last_uses(graph)
        for index, node in enumerate(graph.nodes):
            operands = [values[v] for v in node.operands]
            for value, tracked in zip(node.results, self._node(node, operands, values), strict=True):
                is_never_partial = value in self._never_partial[graph]
                values[value] = replace(tracked, magnitude=absolute(tracked.value)) if is_never_partial else tracked
            for value in self._dying_values[graph].get(index, ()):
                values.pop(value, None)
        return [values[v] for v in graph.outputs]

    def _node(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        if node.op == "while":
            return self._while(node, operands, values)
        if node.op in ("scan", "recurrence"):
            return self._scan(node, operands, values)
        if node.op in BRANCHES:
            return self._branch(node, operands, values)
        if is_composite(node):
            if node not in self._decomposed:
                self._decomposed[node] = decomposed(node)
            return self.graph(self._decomposed[node], operands)
        outer = {value: tracked.value for value, tracked in values.items()} if node.regions else None
        results = self._evaluator.node(node, [t.value for t in operands], outer)
        with np.errstate(all="ignore"):
            if rule := OPS[node.op].error:
                bounds = rule(node, operands, results, self._tf32)
                if Trait.POLES in OPS[node.op].traits and any(np.any(~np.isfinite(t.error)) for t in bounds):
                    near_pole = [_with_sample_error(t) for t in operands]
                    bounds = [
                        _at_pole(*pair) for pair in zip(bounds, rule(node, near_pole, results, self._tf32), strict=True)
                    ]
            else:
                bounds = [default_bound(operands, result) for result in results]
            samples = self._samples(node, operands, results, values)
            return [_cleaned(self._perturbed(t, s)) for t, s in zip(bounds, samples, strict=True)]

    def _samples(self, node: Node, operands: list[Tracked], results: list[Array], values: Mapping[Value, Tracked]) -> list[list[Array]]:  # fmt: skip
        """Return, for each result, the value in every Monte Carlo run, without the error that this op adds."""
        if node.op == "bitcast_convert":  # The op reads the bits of the element type, so it cannot run on f64 samples.
            return [[_sample(result)] * SAMPLES for result in results]
        if node not in self._twins:
            self._twins[node] = _twin(node, {})
        twin, per_sample = self._twins[node], list[list[Array]]()
        for run_index in range(SAMPLES):
            args = [t.samples[run_index] for t in operands]
            is_same = run_index and not node.regions and all(t.samples[run_index] is t.samples[0] for t in operands)
            outer = {value: t.samples[run_index] for value, t in values.items()} if node.regions else None
            per_sample.append(per_sample[0] if is_same else self._evaluator.node(twin, args, outer))
        return [[run_results[i] for run_results in per_sample] for i in range(len(results))]

    def _perturbed(self, tracked: Tracked, samples: list[Array]) -> Tracked:
        if np.all(np.asarray(tracked.rounding) == 0):
            return replace(tracked, samples=tuple(samples))
        # If the rounding error of an element is unbounded, its samples become NaN.
        unbounded = np.isposinf(tracked.rounding) & np.isfinite(absolute(tracked.value))
        rounding = np.where(unbounded, np.nan, np.nan_to_num(tracked.rounding, nan=0.0, posinf=0.0))
        if is_complex(dtype_name(tracked.value.dtype)):
            rounding = rounding * np.exp(2j * np.pi * self._random.random(tracked.value.shape))
        # Each element gets a random byte: a sign bit for each of the 8 samples.
        draws = self._random.integers(0, 1 << SAMPLES, tracked.value.shape, np.uint8)
        perturbed = (x + rounding * ((draws >> i & 1).astype(np.int8) * 2 - 1) for i, x in enumerate(samples))
        return replace(tracked, samples=tuple(perturbed))

    def _while(self, node: Node, state: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        condition, body = node.regions
        is_certain = True
        while True:
            (keeps_running,) = self.graph(condition, state, values)
            is_certain = is_certain and not keeps_running.is_uncertain
            if not bool(keeps_running.value):
                return state if is_certain else [_as_unknown(t) for t in state]
            state = self.graph(body, state, values)

    def _scan(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        (body,) = node.regions
        written = {index for index in node.attrs.sliced if index < len(body.outputs)}
        state = [_writable_copy(t) if index in written else t for index, t in enumerate(operands)]
        for iteration in range(node.attrs.trips):
            row_slices = rows_at(node, iteration)
            args = [_copied_rows(t, row_slices[index]) if index in row_slices else t for index, t in enumerate(state)]
            for index, body_result in enumerate(self.graph(body, args, values)):
                if index in row_slices:
                    _write(state[index], row_slices[index], body_result)
                else:
                    state[index] = body_result
        return state[: len(body.outputs)]

    def _branch(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        choice, *rest = operands
        branch_index = int(not bool(choice.value)) if node.op == "if" else case_branch(choice.value, len(node.regions))
        bounds = self.graph(node.regions[branch_index], rest, values)
        return [_as_unknown(t) for t in bounds] if choice.is_uncertain else bounds


def _as_full_array(part: Array | float, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.asarray(part), shape)


def _writable_copy(t: Tracked) -> Tracked:
    """Return a copy of `t` with writable arrays."""
    shape, samples = t.value.shape, tuple(sample.copy() for sample in t.samples)
    error, magnitude = (_as_full_array(part, shape).copy() for part in (t.error, t.magnitude))
    return Tracked(t.value.copy(), error, magnitude, samples=samples)


def _copied_rows(t: Tracked, rows: slice) -> Tracked:
    """Return a copy of the rows `rows` of a tracked tensor."""
    shape, samples = t.value.shape, tuple(sample[rows].copy() for sample in t.samples)
    error, magnitude = (_as_full_array(part, shape)[rows].copy() for part in (t.error, t.magnitude))
    return Tracked(t.value[rows].copy(), error, magnitude, samples=samples)


def _write(t: Tracked, rows: slice, part: Tracked) -> None:
    """Overwrite the rows `rows` of a tracked tensor with `part`."""
    pairs = ((t.value, part.value), (t.error, part.error), (t.magnitude, part.magnitude))
    for destination, source in (*pairs, *zip(t.samples, part.samples, strict=True)):
        np.asarray(destination)[rows] = source


_LINEAR = frozenset(
    [
        "add",
        "subtract",
        "negate",
        "convert",
        *ANNOTATIONS,
        "transpose",
        "reshape",
        "view",
        "subview",
        "join",
        "broadcast_in_dim",
        "reverse",
        "slice",
        "concatenate",
        "pad",
        "gather",
        "dynamic_slice",
        "dynamic_update_slice",
        "update_in_place",
        "select",
        "dot_general",
        "convolution",
        "all_slice",
        "mask_padding",
        "to_partial",
        "real",
        "imag",
        "complex",
        "fft",
    ]
)


def _values_with_nonlinear_use(graph: Graph) -> frozenset[Value]:
    """Return the values with a nonlinear use. A partial sum must be reduced before such a use."""
    values: list[Value] = []
    for node in graph.nodes:
        is_linear = node.op in _LINEAR or (node.op == "reduce" and node.attrs.kind == "add")
        if node.op == "divide":
            values.append(node.operands[1])
        elif node.op == "multiply":
            values += node.operands if node.operands[0] is node.operands[1] else []
        elif not is_linear or (node.op in ("dot_general", "convolution") and node.operands[0] is node.operands[1]):
            values += node.operands
    return frozenset(values)


def _as_unknown(tracked: Tracked) -> Tracked:
    """Return `tracked` with an unbounded error. The samples become NaN, which makes all values computed from them
    unbounded.
    """
    nan = np.full(tracked.value.shape, np.nan)
    is_float_value = is_inexact(dtype_name(tracked.value.dtype))
    return replace(unknown(tracked.value), samples=(nan,) * SAMPLES if is_float_value else tracked.samples)


def _sample(value: Array) -> Array:
    return widest(value) if is_inexact(dtype_name(value.dtype)) else value


def _twin(node: Node, twins: dict[Value, Value]) -> Node:
    """Return the node with f64 (c128) instead of every float (complex) type, also in its regions."""
    regions = tuple(_twin_graph(region, twins) for region in node.regions)
    attrs = dict(node.attrs)
    if node.op == "constant":
        attrs["value"] = _sample(np.asarray(attrs["value"]))
    operands = [twins.get(v) or (v if v in twins.values() else Value(_twin_type(v.type))) for v in node.operands]
    results = [twins.setdefault(v, Value(_twin_type(v.type))) for v in node.results]
    return Node(node.op, operands, results, attrs, node.loc, None, regions)


def _twin_type(type_: TensorType) -> TensorType:
    if is_complex(type_.dtype):
        return TensorType(type_.shape, "c128")
    return TensorType(type_.shape, "f64") if is_float(type_.dtype) else type_


def _twin_graph(graph: Graph, outer: Mapping[Value, Value]) -> Graph:
    twins = dict(outer)
    twin = Graph(graph.name, [twins.setdefault(v, Value(_twin_type(v.type))) for v in graph.inputs])
    for node in graph.nodes:
        for value in node.operands:
            # A captured value is not copied: its sample is looked up under the original value.
            twins.setdefault(value, value)
        twin.nodes.append(_twin(node, twins))
    twin.outputs = [twins.setdefault(v, v) for v in graph.outputs]
    return twin


def _cleaned(tracked: Tracked) -> Tracked:
    """Replace NaN bounds by infinity, and set the error of infinite and NaN elements.

    An infinite or NaN element is exact if all samples have the same element, and unknown otherwise.
    """
    error, magnitude = (
        _as_full_array(np.nan_to_num(part, nan=np.inf, posinf=np.inf), tracked.value.shape)
        for part in (tracked.error, tracked.magnitude)
    )
    special = ~np.isfinite(absolute(tracked.value))
    if special.any():
        error = np.where(special, _special_error(tracked), error)
        magnitude = np.where(special, error, magnitude)
    return Tracked(tracked.value, error, magnitude, 0.0, tracked.samples)


def _special_error(tracked: Tracked) -> Array:
    """Return the error of infinite and NaN elements: 0 if all samples have the same element, else infinity."""
    value = widest(tracked.value)
    sample_agrees = [(value == s) | (np.isnan(value) & np.isnan(s)) for s in tracked.samples]
    return np.where(np.all(sample_agrees, axis=0) if sample_agrees else True, 0.0, np.inf)


def _with_sample_error(tracked: Tracked) -> Tracked:
    """Return `tracked` with its error reduced to the spread of its samples."""
    error = np.minimum(tracked.error, NEAR * _spread(tracked))
    return replace(tracked, error=error, magnitude=absolute(tracked.value))


def _at_pole(result: Tracked, result_near_pole: Tracked) -> Tracked:
    """Return `result` with unknown elements where the operands, within the spread of their samples, reach a pole.

    `result_near_pole` is the result for operands with this spread as their error. If all samples are on one side of a
    pole, the samples of the result differ little, although an execution on the other side may give infinity.
    """
    if is_complex(dtype_name(result.value.dtype)):
        return result
    return replace(result, rounding=np.where(np.isfinite(result_near_pole.error), result.rounding, np.inf))


def _spread(tracked: Tracked) -> Array:
    """Return the typical distance between another execution and this one, estimated from the samples.

    For an integer, the distance is 0 if all samples agree, else infinity.
    """
    value = widest(tracked.value)
    with np.errstate(all="ignore"):
        distances = [np.where(value == s, 0.0, np.abs(widest(s) - value)) for s in tracked.samples]
        if not is_inexact(dtype_name(tracked.value.dtype)):
            return np.where(np.max(distances, axis=0) > 0, np.inf, 0.0)
        spread = np.sqrt(np.mean(np.square(distances), axis=0))
        return np.where(np.isfinite(value), np.nan_to_num(spread, nan=np.inf, posinf=np.inf), _special_error(tracked))


def _interval(tracked: Tracked) -> Array:
    """Return a bound on the distance between another execution and this one, estimated from the samples."""
    spread = _spread(tracked)
    if not is_inexact(dtype_name(tracked.value.dtype)):
        return spread
    # The samples of an element may be close by chance. The median prevents a tighter bound for it than for its
    # neighbors.
    return T_QUANTILE * np.maximum(spread, np.median(spread)) if spread.size else spread


def error_bound(graph: Graph, args: Sequence[Array], *, tf32: bool = False, evaluator: Evaluator | None = None) -> list[Array]:  # fmt: skip
    """Return, for each output, the largest difference per element between two conforming executions on these arguments.

    For integers and booleans the bound is 0 if no uncertain value influences them. Otherwise it is at least 1, or
    infinite if any result is possible.

    Args:
        args: the arguments, one array per graph input.
        tf32: dots multiply f32 operands in the number format that GPUs use for them (`ops.precision`).
        evaluator: evaluates ops that read the rank.
    """
    arrays = [np.asarray(a) for a in args]
    inputs = [replace(exact(a), samples=(_sample(a),) * SAMPLES) for a in arrays]
    outputs = _Tracker(tf32, evaluator or Evaluator()).graph(graph, inputs)
    return [np.minimum(2.0 * np.asarray(t.error), _interval(t)) for t in outputs]
