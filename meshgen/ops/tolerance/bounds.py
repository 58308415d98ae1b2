"""How far two executions of one program may differ: the tolerance that results are compared with.

An execution conforms if every op is rounded to its element type, sums are added up in any order and grouping (in
f32 at least, partial sums rounded to the element type), and functions are right to a few ulp. Nothing here is
tuned: the constants are unit roundoffs, counts of terms and a quantile. There are two bounds; the lower one counts.

1. Forward error analysis. Each value has a bound of |computed - exact|; two executions differ by at most twice
   that. It holds always, but grows by a factor in each layer of a deep program. A value may exist as partial sums
   that are larger than itself, and rounding acts on those, so a value also has a magnitude: the sum of absolute
   values of everything that was added up to it through linear ops. A value that some use needs whole is whole.
2. Monte Carlo arithmetic. The program is executed some more times in f64, with an error of the size that is
   typical of each op and of random sign added after every op. An execution under test is within the prediction
   interval of Student's t distribution, so a sound one is refused with a probability of about 1e-6 per element.

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
from meshgen.ops.tolerance.values import Tracked, absolute, exact, spread_bound, unknown, widest

SAMPLES = 8  # other executions that are tried: each costs one more, and T_QUANTILE covers how few they are
NEAR = 1.0  # standard deviations within which a pole is met
T_QUANTILE = 13.26  # of Student's t with 8 degrees of freedom, two-sided, at 1e-6


class _Tracker:
    def __init__(self, tf32: bool, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._tf32 = tf32
        self._random = np.random.default_rng(0)
        self._twins: dict[Node, Node] = {}
        self._decomposed: dict[Node, Graph] = {}
        self._whole: dict[Graph, frozenset[Value]] = {}
        self._last: dict[Graph, dict[int, list[Value]]] = {}

    def graph(
        self, graph: Graph, args: Sequence[Tracked], outer: Mapping[Value, Tracked] | None = None
    ) -> list[Tracked]:
        values: dict[Value, Tracked] = {**(outer or {}), **dict(zip(graph.inputs, args, strict=True))}
        if graph not in self._whole:
            self._whole[graph], self._last[graph] = _needed_whole(graph), last_uses(graph)
        for number, node in enumerate(graph.nodes):
            operands = [values[v] for v in node.operands]
            for value, found in zip(node.results, self._node(node, operands, values), strict=True):
                whole = value in self._whole[graph]
                values[value] = replace(found, magnitude=absolute(found.value)) if whole else found
            for value in self._last[graph].get(number, ()):
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
                found = rule(node, operands, results, self._tf32)
                if Trait.POLES in OPS[node.op].traits and any(np.any(~np.isfinite(t.error)) for t in found):
                    near = [_with_scatter_error(t) for t in operands]
                    found = [_at_pole(*pair) for pair in zip(found, rule(node, near, results, self._tf32), strict=True)]
            else:
                found = [spread_bound(operands, result) for result in results]
            samples = self._samples(node, operands, results, values)
            return [_cleaned(self._perturbed(t, s)) for t, s in zip(found, samples, strict=True)]

    def _samples(self, node: Node, operands: list[Tracked], results: list[Array], values: Mapping[Value, Tracked]) -> list[list[Array]]:  # fmt: skip
        """Per result its value in every other execution, before the op's own error."""
        if node.op == "bitcast_convert":  # the bits of the program's own type
            return [[_sample(result)] * SAMPLES for result in results]
        if node not in self._twins:
            self._twins[node] = _twin(node, {})
        twin, per_sample = self._twins[node], list[list[Array]]()
        for number in range(SAMPLES):
            args = [t.samples[number] for t in operands]
            same = number and not node.regions and all(t.samples[number] is t.samples[0] for t in operands)
            outer = {value: t.samples[number] for value, t in values.items()} if node.regions else None
            per_sample.append(per_sample[0] if same else self._evaluator.node(twin, args, outer))
        return [[found[i] for found in per_sample] for i in range(len(results))]

    def _perturbed(self, tracked: Tracked, samples: list[Array]) -> Tracked:
        if np.all(np.asarray(tracked.rounding) == 0):
            return replace(tracked, samples=tuple(samples))
        anything = np.isposinf(tracked.rounding) & np.isfinite(
            absolute(tracked.value)
        )  # then samples are NaN or infinite
        rounding = np.where(anything, np.nan, np.nan_to_num(tracked.rounding, nan=0.0, posinf=0.0))
        if is_complex(dtype_name(tracked.value.dtype)):
            rounding = rounding * np.exp(2j * np.pi * self._random.random(tracked.value.shape))
        draws = self._random.integers(0, 1 << SAMPLES, tracked.value.shape, np.uint8)  # a bit for each of 8 samples
        moved = (x + rounding * ((draws >> i & 1).astype(np.int8) * 2 - 1) for i, x in enumerate(samples))
        return replace(tracked, samples=tuple(moved))

    def _while(self, node: Node, state: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        condition, body = node.regions
        certain = True
        while True:
            (going,) = self.graph(condition, state, values)
            certain = certain and not going.is_uncertain
            if not bool(going.value):
                return state if certain else [_unknown(t) for t in state]
            state = self.graph(body, state, values)

    def _scan(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        (body,) = node.regions
        written = {n for n in node.attrs.sliced if n < len(body.outputs)}
        state = [_own(t) if n in written else t for n, t in enumerate(operands)]
        for trip in range(node.attrs.trips):
            rows = rows_at(node, trip)
            args = [_copied_rows(t, rows[n]) if n in rows else t for n, t in enumerate(state)]
            for n, after in enumerate(self.graph(body, args, values)):
                if n in rows:
                    _write(state[n], rows[n], after)
                else:
                    state[n] = after
        return state[: len(body.outputs)]

    def _branch(self, node: Node, operands: list[Tracked], values: Mapping[Value, Tracked]) -> list[Tracked]:
        choice, *rest = operands
        taken = int(not bool(choice.value)) if node.op == "if" else case_branch(choice.value, len(node.regions))
        found = self.graph(node.regions[taken], rest, values)
        return [_unknown(t) for t in found] if choice.is_uncertain else found


def _as_full_array(part: Array | float, shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.asarray(part), shape)


def _own(t: Tracked) -> Tracked:
    """A copy whose rows may be written."""
    shape, samples = t.value.shape, tuple(sample.copy() for sample in t.samples)
    error, magnitude = (_as_full_array(each, shape).copy() for each in (t.error, t.magnitude))
    return Tracked(t.value.copy(), error, magnitude, samples=samples)


def _copied_rows(t: Tracked, rows: slice) -> Tracked:
    """Some rows of a tensor, as they are now."""
    shape, samples = t.value.shape, tuple(sample[rows].copy() for sample in t.samples)
    error, magnitude = (_as_full_array(each, shape)[rows].copy() for each in (t.error, t.magnitude))
    return Tracked(t.value[rows].copy(), error, magnitude, samples=samples)


def _write(t: Tracked, rows: slice, part: Tracked) -> None:
    """Let these rows of a tensor be the part."""
    pairs = ((t.value, part.value), (t.error, part.error), (t.magnitude, part.magnitude))
    for whole, new in (*pairs, *zip(t.samples, part.samples, strict=True)):
        np.asarray(whole)[rows] = new


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


def _needed_whole(graph: Graph) -> frozenset[Value]:
    """Values with a use that is not linear in them: no execution has them as partial sums."""
    found: list[Value] = []
    for node in graph.nodes:
        linear = node.op in _LINEAR or (node.op == "reduce" and node.attrs.kind == "add")
        if node.op == "divide":
            found.append(node.operands[1])
        elif node.op == "multiply":
            found += node.operands if node.operands[0] is node.operands[1] else []
        elif not linear or (node.op in ("dot_general", "convolution") and node.operands[0] is node.operands[1]):
            found += node.operands
    return frozenset(found)


def _unknown(tracked: Tracked) -> Tracked:
    """Unknown in every execution: the samples are NaN or infinite."""
    nothing = np.full(tracked.value.shape, np.nan)
    floats = is_inexact(dtype_name(tracked.value.dtype))
    return replace(unknown(tracked.value), samples=(nothing,) * SAMPLES if floats else tracked.samples)


def _sample(value: Array) -> Array:
    return widest(value) if is_inexact(dtype_name(value.dtype)) else value


def _twin(node: Node, known: dict[Value, Value]) -> Node:
    """The node with f64 for every float, regions included."""
    regions = tuple(_twin_graph(region, known) for region in node.regions)
    attrs = dict(node.attrs)
    if node.op == "constant":
        attrs["value"] = _sample(np.asarray(attrs["value"]))
    operands = [known.get(v) or (v if v in known.values() else Value(_twin_type(v.type))) for v in node.operands]
    results = [known.setdefault(v, Value(_twin_type(v.type))) for v in node.results]
    return Node(node.op, operands, results, attrs, node.loc, None, regions)


def _twin_type(type_: TensorType) -> TensorType:
    if is_complex(type_.dtype):
        return TensorType(type_.shape, "c128")
    return TensorType(type_.shape, "f64") if is_float(type_.dtype) else type_


def _twin_graph(graph: Graph, outer: Mapping[Value, Value]) -> Graph:
    known = dict(outer)
    twin = Graph(graph.name, [known.setdefault(v, Value(_twin_type(v.type))) for v in graph.inputs])
    for node in graph.nodes:
        for value in node.operands:
            known.setdefault(value, value)  # a value from around the region: its sample is looked up by itself
        twin.nodes.append(_twin(node, known))
    twin.outputs = [known.setdefault(v, v) for v in graph.outputs]
    return twin


def _cleaned(tracked: Tracked) -> Tracked:
    """Infinities and NaN are exact where all executions have them, else unknown; a bound that is NaN does not bound."""
    error, magnitude = (
        _as_full_array(np.nan_to_num(part, nan=np.inf, posinf=np.inf), tracked.value.shape)
        for part in (tracked.error, tracked.magnitude)
    )
    special = ~np.isfinite(absolute(tracked.value))
    if special.any():
        error = np.where(special, _missed(tracked), error)
        magnitude = np.where(special, error, magnitude)
    return Tracked(tracked.value, error, magnitude, 0.0, tracked.samples)


def _missed(tracked: Tracked) -> Array:
    """For NaN and infinities: infinity where a sample is another one, else 0."""
    value = widest(tracked.value)
    alike = [(value == s) | (np.isnan(value) & np.isnan(s)) for s in tracked.samples]
    return np.where(np.all(alike, axis=0) if alike else True, 0.0, np.inf)


def _with_scatter_error(tracked: Tracked) -> Tracked:
    """A value with an error as large as its samples scatter, where no less is known."""
    error = np.minimum(tracked.error, NEAR * _spread(tracked))
    return replace(tracked, error=error, magnitude=absolute(tracked.value))


def _at_pole(found: Tracked, near: Tracked) -> Tracked:
    """A result of which nothing is known where the samples of what it is made from scatter around a pole.

    Executions on both sides of a pole do not scatter as samples that all miss it: one may be infinite.
    """
    if is_complex(dtype_name(found.value.dtype)):
        return found
    return replace(found, rounding=np.where(np.isfinite(near.error), found.rounding, np.inf))


def _spread(tracked: Tracked) -> Array:
    """How far other executions typically are from this one, by the samples; integers are certain or not."""
    value = widest(tracked.value)
    with np.errstate(all="ignore"):
        moved = [np.where(value == s, 0.0, np.abs(widest(s) - value)) for s in tracked.samples]
        if not is_inexact(dtype_name(tracked.value.dtype)):
            return np.where(np.max(moved, axis=0) > 0, np.inf, 0.0)
        spread = np.sqrt(np.mean(np.square(moved), axis=0))
        return np.where(np.isfinite(value), np.nan_to_num(spread, nan=np.inf, posinf=np.inf), _missed(tracked))


def _interval(tracked: Tracked) -> Array:
    """How far another execution may be from this one, by the samples."""
    spread = _spread(tracked)
    if not is_inexact(dtype_name(tracked.value.dtype)):
        return spread
    # The median keeps an element whose samples happen to be close from being held to less than its neighbours.
    return T_QUANTILE * np.maximum(spread, np.median(spread)) if spread.size else spread


def error_bound(graph: Graph, args: Sequence[Array], *, tf32: bool = False, evaluator: Evaluator | None = None) -> list[Array]:  # fmt: skip
    """Per output, per element: how far two conforming executions on these arguments may differ.

    Integers and booleans get 0 if no uncertain value decides them, else at least 1 (inf if any result is possible).
    Args:
        tf32: dots multiply f32 as GPUs do, by their precision (`ops.precision`).
        evaluator: gives meaning to ops that ask for the rank.
    """
    given = [np.asarray(a) for a in args]
    inputs = [replace(exact(a), samples=(_sample(a),) * SAMPLES) for a in given]
    found = _Tracker(tf32, evaluator or Evaluator()).graph(graph, inputs)
    return [np.minimum(2.0 * np.asarray(t.error), _interval(t)) for t in found]
