"""Roles of matmuls in the backward pass of an attention: gradients of the queries, the keys or the values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from meshgen.codegen import expr as ex
from meshgen.codegen.attention.forward import Forward, variables_of
from meshgen.codegen.attention.identity_tests import SampledFunctions, Samples, near
from meshgen.codegen.attention.indices import before_reduce
from meshgen.codegen.attention.recognition import splat
from meshgen.codegen.attention.scalar_regions import Elements, Region, UnformedError
from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.factors import KEYS, QUERIES, VALUES
from meshgen.ops.types.attention import STATISTIC


@dataclass(frozen=True)
class End:
    """A matmul of the backward pass, one of whose operands is computed from scores.

    Attributes:
        dot: the matmul.
        side: the position (0 or 1) of the operand that is computed from scores.
        value, index: this operand and its index.
        other, place: the other operand and its index.
    """

    dot: Node
    side: int
    value: Value
    index: Index
    other: Value
    place: Index

    @property
    def contracted(self) -> set[Var]:
        return set(variables_of([self.index[d] for d in DotDims.of(self.dot).contract[self.side]]))

    @property
    def result(self) -> Index:
        """Return the index of the matmul's result."""
        dims, sides = DotDims.of(self.dot), (self.index, self.place)
        left, right = sides if self.side == 0 else sides[::-1]
        free = [side[d] for side, free_dims in zip((left, right), dims.free, strict=True) for d in free_dims]
        return (*(left[d] for d in dims.batch[0]), *free)


class Probe(Region):
    """A region that computes all values between scores and matmuls as functions of scores, row maxima, row sums,
    gradients and sums over keys.
    """

    def __init__(self, forward: Forward, inside: Collection[Node], product: tuple[Value, Index]) -> None:
        attention, placed = forward.attention, forward.placed
        self.forward, self.computed, self.product = forward, inside, product[0]
        self.sums: dict[Node, Value] = {}
        self.places: dict[Node, Index] = {}
        stops = {v: placed[v] for v in (attention.scores.result, attention.maximum.result, attention.total.result)}
        super().__init__(Elements(forward.layouts), stops | dict([product]), {*attention.members, *inside})

    def _computed(self, node: Node, index: Index) -> Value:
        if node.op not in REDUCTIONS:
            return super()._computed(node, index)
        sizes, dims = node.operands[0].type.sizes, sorted(node.attrs.dims)
        if node.attrs.kind != "add" or splat(node.operands[1], self.producer) != 0:
            raise UnformedError
        kept = iter(index)
        if all(sizes[d] == 1 for d in dims):
            return self.element(
                node.operands[0], tuple(ex.ZERO if d in dims else next(kept) for d in range(len(sizes)))
            )
        if self.places.setdefault(node, index) != index:
            raise UnformedError
        return self.sums.setdefault(node, Value(TensorType((), STATISTIC)))

    def summed(self, node: Node) -> Value:
        """Return the region's value for one element of the operand of `node`, a sum over keys."""
        keys = self.forward.loops.keys
        index = before_reduce(node, self.places[node], keys)
        names = set(variables_of([index[d] for d in node.attrs.dims]))
        if names != set(variables_of([keys])):
            raise UnformedError
        return self.element(node.operands[0], index)


class Roles:
    """The role of each matmul of the backward pass, and the values that are `ds` (the gradients of the softmax's
    operand).

    Attributes:
        functions: all functions of the probe, evaluated for random arguments.
        ends: maps the position of an attention operand to the matmul that computes its gradient.
        changes: values with indices that equal `ds`, or the negative of `ds` if the flag is set.
    """

    def __init__(self, probe: Probe, forward: Forward, ends: Sequence[End], positions: Mapping[Value, int]) -> None:  # fmt: skip
        attention = forward.attention
        exponential = probe.element(attention.exponential.result, forward.placed[attention.exponential.result])
        summed = dict[Node, Value]()
        # The summed function may contain further sums over keys, which are appended to `probe.sums`.
        while len(summed) < len(probe.sums):
            summed |= {node: probe.summed(node) for node in [*probe.sums] if node not in summed}
        scores, maxima, totals = (node.result for node in (attention.scores, attention.maximum, attention.total))
        regions = (forward.score, forward.softmaxed), (forward.share, forward.share_of)
        sizes = {name: var.high + 1 for var, name in forward.layouts.names.items()}
        samples = Samples(probe, (scores, maxima, totals, probe.product), *regions, sizes)
        functions = samples.solved(exponential, {probe.sums[node]: summand for node, summand in summed.items()})
        self.functions = functions
        self.ends: dict[int, End] = {}
        self.changes: list[tuple[tuple[Value, Index], bool]] = []
        for end in ends:
            role = self._role(end, forward, functions, probe.made[end.value, end.index])
            if role in self.ends:
                raise UnformedError
            self.ends[role] = end
        alike = [
            functions.values[probe.made[end.value, end.index]] for role, end in self.ends.items() if role != VALUES
        ]
        if alike:
            self.changes = self._changes(probe, functions, positions)
        if any(not functions.are_equal(alike[0], values) for values in alike):
            raise UnformedError

    def factor(self, value: Value) -> tuple[int, bool]:
        """Return the ratio of a sum over keys to the sum over keys of probabilities times their gradients, as a power
        of the row sum.

        Args:
            value: the argument of the probe that stands for the sum.
        Returns:
            The exponent of the row sum in the ratio, and whether the ratio is negative.
        """
        for power in (0, -1, 1):
            for sign in (1, -1):
                if near(self.functions.factors[value], sign * self.functions.total**power, self.functions.is_sound):
                    return power, sign < 0
        raise UnformedError

    def _role(self, end: End, forward: Forward, functions: SampledFunctions, computed: Value) -> int:
        if functions.are_equal(functions.values[computed], functions.weights):
            return VALUES
        return QUERIES if end.contracted == set(variables_of([forward.loops.keys])) else KEYS

    def _changes(
        self, probe: Probe, functions: SampledFunctions, positions: Mapping[Value, int]
    ) -> list[tuple[tuple[Value, Index], bool]]:
        """Return the values that are `ds` or the negative of `ds`, in program order.

        Callers prefer the first value: masks after it still apply in rows whose keys are all masked.
        """
        candidates = [(key, computed) for key, computed in probe.made.items() if probe.producer(key[0]) in probe.computed and computed in functions.values]  # fmt: skip
        ordered = sorted(candidates, key=lambda pair: positions[pair[0][0]])
        signs = [(key, sign) for key, computed in ordered for sign in (1, -1) if functions.are_equal(functions.values[computed], sign * functions.change)]  # fmt: skip
        return [(key, sign < 0) for key, sign in signs]
