"""Rewrite of the matmuls that compute the gradients of an attention (dq, dk and dv), in any formulation, to gradient
ops.

    dv = dot(p, do),  dp = dot(do, v),  ds = p * (dp - sum(p * dp, over keys)),  dk = dot(f(ds, scores), q),  dq =
    dot(f(ds, scores), k)

Here p are the probabilities, and d.. is the gradient of the loss with respect to .. (do: of the attention's result).
Programs compute `ds` in many ways. Which value is `ds`, and what each matmul computes, is therefore tested
numerically. Each value is evaluated as a function of random scores, maxima, sums and gradients, and compared with its
expected value. Two such functions that agree on hundreds of random arguments are identical. The ops between `ds` and
the matmuls, which are the derivative of the score function, are kept as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from meshgen.codegen.attention.forward import Forward, precision_of, variables_of
from meshgen.codegen.attention.gradient_roles import End, Probe, Roles
from meshgen.codegen.attention.layouts import Element
from meshgen.codegen.attention.scalar_regions import Region, UnformedError
from meshgen.codegen.attention.upstream_indices import Reach, moves
from meshgen.codegen.attention.users import Uses
from meshgen.codegen.expr import Expr
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.classes import DOTS, LAYOUT, LEAVING, POINTWISE, REDUCTIONS
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.factors import KEY_GRADIENT, KEYS, QUERIES, QUERY_GRADIENT, VALUES, Names, notation
from meshgen.ops.types.attention import STATISTIC

_MOST_NODES = 256  # most nodes between the scores and the matmuls. Chosen: bounds the search
_MOST_SPLITS = 4  # most rounds of splitting loops, each of which may reveal further splits. Chosen: bounds the search
_MOST_STEPS = 16  # most values searched for the matmul that computes `dp`. Chosen: bounds the search


class Backward:
    """Replaces an attention's gradients by gradient ops. Raises UnformedError if the gradient ops cannot express them."""

    def __init__(self, forward: Forward, uses: Uses) -> None:
        self.forward, self.uses, self.attention = forward, uses, forward.attention
        self.reach = Reach(forward.layouts)
        self.inside: dict[Node, None] = {}
        self.dots: dict[Node, None] = {}
        self.escapes: dict[Value, None] = {}
        self.known = {value: place for value, place in forward.placed.items() if self._is_of_scores(value)}
        members = self.attention.members
        self._collect(v for node in members - {self.attention.product} for v in node.results)
        self.product = self._gradient_product()
        self._collect(self.product.results)
        self.place = self._placed_product()
        self.change = self._gradient_of_result()

    def written(self) -> Mapping[Node, list[Node]]:
        """Return the nodes that replace each matmul. All regions are finished before any of these nodes is written."""
        forward = self.forward
        layouts = forward.layouts
        probe = Probe(forward, self.inside, (self.product.result, self.place))
        ends = [self._end(dot) for dot in self.dots]
        for end in ends:
            probe.element(end.value, end.index)
        roles = Roles(probe, forward, ends, self.uses.graph.index.positions)
        gradient = self._gradient(roles)
        do = layouts.element(*self.change, is_whole=True)
        if do is None or {*do[1]} != {*forward.out}:
            raise UnformedError
        if self.escapes:
            return self._with_sums_of_results(probe, roles, do)
        sources = {
            QUERIES: self.reach.chain(forward.queries), KEYS: self.reach.chain(forward.keys), VALUES: self.reach.chain(self.change),
        }  # fmt: skip
        for role, end in roles.ends.items():
            known_indices = sources[_OTHER[role]]
            if not any(
                known_indices.get(value) == index for value, index in self.reach.chain((end.other, end.place)).items()
            ):
                raise UnformedError
        out, rows = forward.write()
        first = min(self.dots, key=self.uses.graph.nodes.index)
        self._require_order(first, [value for value, _ in (*forward.taken, do)])
        builder = Builder(layouts.graph, first.loc)
        delta = self._delta(builder, do, (out, forward.out))
        operands = [*forward.operands, (rows, forward.rows), (delta, forward.rows), do, *forward.elements.operands]
        results = self._write(builder, roles, gradient, operands)
        before = forward.needed([forward.result[0]])
        after = [node for node in forward.needed(results) if node not in before]
        return {self.attention.product: before, **{dot: [] for dot in self.dots}, first: after}

    # ---- the nodes

    def _collect(self, values: Iterable[Value]) -> None:
        """Collect the nodes from `values` to matmuls, and (in `escapes`) the inner results that other nodes read."""
        stack = list(values)
        while stack:
            for node in self.uses.of(stack.pop()):
                if node in self.attention.members or node in self.inside or node in self.dots:
                    continue
                if node.op in DOTS:
                    self.dots[node] = None
                elif node.option is None and (node.op in POINTWISE | REDUCTIONS or node.op in LAYOUT - LEAVING):
                    self.inside[node] = None
                    stack += node.results
            if len(self.inside) > _MOST_NODES:
                raise UnformedError
        needed = {value for dot in self.dots for value in dot.operands}
        for node in sorted(
            self.inside, key=lambda node: self.uses.graph.index.positions[node.results[0]], reverse=True
        ):
            if needed.isdisjoint(node.results):
                del self.inside[node]
            else:
                needed.update(node.operands)
        inner = (v for node in (*self.inside, *self.attention.members - {self.attention.product}) for v in node.results)
        self.escapes = dict.fromkeys(v for v in inner if v in self.uses.outputs or not all(map(self._follows, self.uses.of(v))))  # fmt: skip

    def _follows(self, node: Node) -> bool:
        return node in self.dots or self._passes(node)

    def _located(self, value: Value) -> Index:
        """Return the index (in the loops of the attention) of a value that is computed from scores."""
        return self.reach.located(value, self.known, self._passes)

    def _passes(self, node: Node) -> bool:
        return node in self.inside or node in self.attention.members

    def _gradient_product(self) -> Node:
        """Return the matmul that computes `dp`, the gradient of the probabilities."""
        scores, products = self.attention.scores, dict[Node, None]()
        for node in self.inside:
            stack = [v for v in node.operands if v.type.size == scores.result.type.size]
            for _ in range(_MOST_STEPS):
                if not stack:
                    break
                node_behind = self.uses.producer(stack.pop())
                if node_behind is None or node_behind in self.inside or node_behind in self.attention.members:
                    continue
                if node_behind.op in DOTS:
                    products[node_behind] = None
                elif node_behind.op in POINTWISE or node_behind.op in LAYOUT - LEAVING:
                    stack += [v for v in node_behind.operands if v.type.size == scores.result.type.size]
        if len(products) != 1:
            raise UnformedError
        return next(iter(products))

    def _require_order(self, first: Node, values: Sequence[Value]) -> None:
        """Raise UnformedError unless the gradient ops can be written before `first`: all their operands are computed
        there.
        """
        position = self.uses.graph.index.positions
        last = position[first.result]
        if any(position.get(value, -1) >= last for value in (*values, self.attention.product.result)):
            raise UnformedError

    # ---- indices

    def _end(self, dot: Node) -> End:
        """Return the matmul `dot` as an `End`, which says which of its operands is computed from scores."""
        inner = [i for i in (0, 1) if self._is_inside(dot.operands[i])]
        if len(inner) != 1:
            raise UnformedError
        (side,) = inner
        value, other = dot.operands[side], dot.operands[1 - side]
        index = self._located(value)
        anchors = self.reach.chain(self.forward.queries) | self.reach.chain(self.forward.keys)
        if not self.reach.shares(other, anchors):
            anchors = self.reach.chain(self.change)
        other_index = self.reach.located(other, anchors, moves)
        dims = DotDims.of(dot)
        pairs = [*zip(dims.batch[side], dims.batch[1 - side], strict=True), *zip(dims.contract[side], dims.contract[1 - side], strict=True)]  # fmt: skip
        if any(index[a] != other_index[b] for a, b in pairs):
            raise UnformedError
        return End(dot, side, value, index, other, other_index)

    def _is_of_scores(self, value: Value) -> bool:
        return {*variables_of(self.forward.placed[value])} >= {*variables_of(self.forward.placed[self.attention.scores.result])}  # fmt: skip

    def _is_inside(self, value: Value) -> bool:
        node = self.uses.producer(value)
        return node is not None and (node in self.inside or node in self.attention.members)

    def _gradient_of_result(self) -> tuple[Value, Index]:
        """Return the gradient of the attention's result, and the index of this gradient in the attention's loops."""
        forward, dot = self.forward, self.product
        values = self.reach.chain(forward.values)
        side = next((n for n in (0, 1) if self.reach.shares(dot.operands[n], values)), None)
        if side is None:
            raise UnformedError
        known_index = self.reach.located(dot.operands[side], values, moves)
        dims, other = DotDims.of(dot), 1 - side
        index = dict[int, Expr]()
        for dims_of_gradient, known_dims in (
            (dims.batch[other], dims.batch[side]),
            (dims.contract[other], dims.contract[side]),
        ):
            index |= {a: known_index[b] for a, b in zip(dims_of_gradient, known_dims, strict=True)}
        free = dims.free[other]
        result = self.place
        start = len(dims.batch[0]) + (len(dims.free[0]) if other == 1 else 0)
        index |= {d: result[start + i] for i, d in enumerate(free)}
        return dot.operands[other], tuple(index[d] for d in range(len(index)))

    def _placed_product(self) -> Index:
        for node in self.inside:
            if node.op not in POINTWISE:
                continue
            for value in node.operands:
                if not self.reach.reaches(value, {self.product.result}, self._passes):
                    continue
                try:
                    index = self._located(node.result)
                except UnformedError:
                    continue
                return self.reach.walked(value, index, self.product.result, self._passes)
        raise UnformedError

    # ---- what is written

    def _gradient(self, roles: Roles) -> tuple[Region, Value]:
        """Return a region that computes the gradient of a score from `ds` and the score, and the output of the region."""
        forward = self.forward
        scores, inside = forward.at(self.attention.scores.result), {*self.inside, *self.attention.members}
        ends = [end for role, end in roles.ends.items() if role != VALUES]
        if not ends:
            region = Region(forward.elements, {self.product.result: self.place} | scores, inside)
            return region, region.first[self.product.result]
        for (value, index), is_negative in roles.changes:
            region = Region(forward.elements, {value: index} | scores, inside)
            if is_negative:
                region.assume((value, index), Builder(region.graph).elementwise("negate", region.first[value]))
            kept = forward.elements.kept()
            try:
                output = region.element(ends[0].value, ends[0].index)
            # Computing the output from this value needs further values, so try the next candidate for `ds`.
            except UnformedError:
                forward.elements.restore(kept)
                continue
            return region, Builder(region.graph).convert(output, ends[0].value.type.dtype)
        raise UnformedError

    def _delta(self, builder: Builder, do: Element, out: Element) -> Value:
        """Return the sum over each row of `do` * `out`, the gradient of the result times the result."""
        forward = self.forward
        order = (*forward.rows, *(f for f in forward.out if f not in forward.rows))
        sides: list[Value] = []
        for value, names in (do, out):
            perm = [names.index(f) for f in order]
            moved = value if perm == sorted(perm) else builder.transpose(value, perm)
            sides.append(builder.convert(moved, STATISTIC))
        zero = builder.splat(0, TensorType((), STATISTIC))
        row_type = forward.type_of(forward.rows, STATISTIC)
        dims = tuple(range(len(forward.rows), len(order)))
        return builder.emit("reduce", [builder.elementwise("multiply", *sides), zero], row_type, kind="add", dims=dims)

    def _with_sums_of_results(self, probe: Probe, roles: Roles, do: Element) -> Mapping[Node, list[Node]]:
        """Rewrite sums over keys into sums over elements of the result. This applies if other nodes read the gradient
        of the scores.

            before   %r = reduce add (%p * %dp), over keys            %ds = %p * (%dp - %r)          reads the scores
            for %r, and again for %ds
            after    %r = reduce add (%do * %o), over elements

        An example of such a reader is the gradient of a bias.
        """
        forward, layouts, replacements = self.forward, self.forward.layouts, dict[Node, list[Node]]()
        product, total = self.attention.product.result, self.attention.total.result
        out = layouts.element(product, forward.loops.result)
        totals = layouts.element(total, forward.placed[total])
        if out is None or totals is None:
            raise UnformedError
        written = set[Node]()
        for node, value in probe.sums.items():
            self._require_order(node, [out[0], do[0], self.change[0]])
            builder = Builder(layouts.graph, node.loc)
            power, is_negative = roles.factor(value)
            row = self._delta(builder, do, out)
            if power:
                each = builder.permuted(totals[0], [totals[1].index(f) for f in forward.rows])
                row = builder.elementwise("multiply" if power > 0 else "divide", row, builder.convert(each, STATISTIC))
            row = builder.elementwise("negate", row) if is_negative else row
            names = forward.named(node.result, probe.places[node])
            moved = builder.permuted(row, [forward.rows.index(f) for f in names])
            builder.reshape(builder.convert(moved, node.result.type.dtype), node.result.type.shape)
            builder.make([node.result])
            replacements[node] = [each for each in forward.needed([node.result]) if each not in written]
            written.update(replacements[node])
        return replacements

    def _write(self, builder: Builder, roles: Roles, gradient: tuple[Region, Value], operands: Sequence[Element]) -> list[Value]:  # fmt: skip
        """Write the gradient ops, and return the program's values that they define."""
        forward, first = self.forward, self.forward.operands
        region, value = gradient
        regions = (forward.score_region(), forward.share.close(forward.weight), region.close(value))
        precision = {precision_of(end.dot, end.side) for role, end in roles.ends.items() if role != VALUES}
        if len(precision) > 1:
            raise UnformedError
        written_values: list[Value] = []
        attrs = forward.attrs | {"gradient_precision": next(iter(precision), ())}
        for op, numbers in ((QUERY_GRADIENT, (QUERIES,)), (KEY_GRADIENT, (KEYS, VALUES))):
            ends = [roles.ends.get(i) for i in numbers]
            if not any(ends):
                continue
            targets = self._targets(ends)
            names = self._names_of(numbers, targets)
            dtypes = [
                (first[n] if target is None else target)[0].type.dtype
                for n, target in zip(numbers, targets, strict=True)
            ]
            factors = notation([operand for _, operand in operands], names)
            values, types = [operand for operand, _ in operands], list(map(forward.type_of, names, dtypes))
            results = builder.append(op, values, types, attrs | {"factors": factors}, regions)
            node = builder.graph.nodes[-1]
            for result, target in zip(results, targets, strict=True):
                if target is None:
                    continue
                written_values.append(target[0])
                if result.type.shape == target[0].type.shape:
                    node.results[node.results.index(result)] = target[0]
                else:
                    builder.reshape(result, target[0].type.shape)
                    builder.make([target[0]])
        return written_values

    def _targets(self, ends: Sequence[End | None]) -> list[tuple[Value, Index] | None]:
        """Return the last value of the chain of single users after each matmul, with the index of this value.

        The chain continues after sums over shared heads only if the gradients of both keys and values are summed.
        """
        shared = {*self.forward.operands[KEYS][1], *self.forward.operands[VALUES][1]}
        heads = [
            v for v, name in self.forward.layouts.names.items() if name in self.forward.rows and name not in shared
        ]
        targets = [None if end is None else self.uses.settled(end.dot.result, end.result, summed=heads) for end in ends]
        rows = {frozenset(self.forward.named(*target)).intersection(self.forward.rows) for target in targets if target}
        if len(ends) > 1 and len(rows) == 1:
            return targets
        return [None if end is None else self.uses.settled(end.dot.result, end.result) for end in ends]

    def _names_of(self, numbers: Sequence[int], targets: Sequence[tuple[Value, Index] | None]) -> list[Names]:
        """Return the factors of each gradient. A gradient without users sums over the same rows as the other gradient."""
        forward = self.forward
        named = [None if target is None else forward.named(*target) for target in targets]
        kept = {name for names in named for name in names or () if name in forward.rows}
        operand_names = [forward.operands[number][1] for number in numbers]
        defaults = [(*(f for f in forward.rows if f in kept and f not in names), *names) for names in operand_names]
        return [given_names or other for given_names, other in zip(named, defaults, strict=True)]


_OTHER = {QUERIES: KEYS, KEYS: QUERIES, VALUES: VALUES}
"""The other operand of the matmul that computes each gradient: keys, queries, or the gradient of the result."""
