"""List the sites that propagation decides: the graph's nodes plus one per input and output, with rules and annotations.

Example, `%h = dot_general %a, %w : f32[64,32], f32[32,96]` with `%a` annotated [{x}, {}]:

    input %a        rule `-> a b`              annotation [{x}, {}], required; for donated arguments see `donated.py`
    input %w        rule `-> a b`
    dot_general     rule `a c, c b -> a b reduce(c: sum)`
    output %h       rule `a b ->`
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

from meshgen.cost_model.model import DEFAULT
from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.axis_parts import NO_DIVISION, AxisParts, merged
from meshgen.ir.graph import Annotation, Module, Node, Value
from meshgen.ir.node_keys import form_of
from meshgen.ir.predicates import is_annotation, is_propagation_barrier, is_sharding_group, is_transfer_send
from meshgen.ir.reduction_kinds import kind_faults
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.classes import CONTRACTIONS, JOINING, NEVER_STORED
from meshgen.ops.flops import node_flops, ranked_operand, ranking_operations
from meshgen.ops.precision import multiplied_as
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.propagation.control import Flat, flatten, identity_rule
from meshgen.sharding.propagation.donated import merged_annotations, tied_outputs, untied_outputs
from meshgen.sharding.propagation.groups import annotation_of_group, joined_groups
from meshgen.sharding.propagation.manual_bodies import body_rule, end_rule
from meshgen.sharding.propagation.pseudo_ops import MANUAL_ENDS, PSEUDO_OPS, is_input, is_manual_operand
from meshgen.sharding.propagation.splats import without_splats
from meshgen.sharding.window_fetches import turn
from meshgen.spec import Sharding, fit


@dataclass(eq=False)
class Site:
    """A node, an input (`op` input) or an output (`op` output) of the program, as propagation sees it.

    Attributes:
        annotation: annotation of `value`, in terms of the sub-axes that the program is solved over.
        user_sharding: sharding of the annotation as the user wrote it.
        option: the user's mesh axes per loop.
        times: number of executions per step.
        seconds: seconds of work per step if a single device executes the site.
        manual: mesh axes along which the site works on tiles, so that nothing in the site can be split over them.
        misfits: sub-axes of the user's annotation that do not nest in those of the solution (6 as 2 x 3 and as 3 x 2).
            `annotation` leaves them out. If the annotation is required, the value is resharded to it and back.
        splats: indices of the operands that are one number everywhere (`splats.py`).
        like: a number, equal for sites that differ only in their values. Caches are keyed by this number.
    """

    node: Node
    rule: Rule
    annotation: Annotation | None
    user_sharding: Sharding | None
    option: tuple[tuple[str, ...], ...] | None
    times: float
    seconds: float
    manual: tuple[str, ...]
    misfits: tuple[str, ...]
    splats: tuple[int, ...]
    like: int

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Return the operands, then the results."""
        return (*self.node.operands, *self.node.results)

    @cached_property
    def is_joined(self) -> bool:
        """Whether a dim consists of several loops, so that a split of one of them affects the others."""
        return any(len(part) > 1 for dims in (*self.rule.operands, *self.rule.results) for part in dims)

    def left(self, factor: int, share: float) -> float:
        """Return the fraction of work left to a device with `share` of a loop. A scatter's ranking is not divided."""
        ranking, operand = self._ranking, ranked_operand(self.node)
        is_ranked = ranking and operand is not None and self.rule.places(factor)[0][operand] is None
        return ranking + (1 - ranking) * share if is_ranked else share

    @cached_property
    def _ranking(self) -> float:
        seconds = _ranking_seconds(self.node)
        return seconds * self.times / self.seconds if seconds else 0.0

    @property
    def is_firm(self) -> bool:
        """Whether fusion cannot save the site's work: it is a GEMM, an FFT, or bound by arithmetic."""
        return (
            self.node.op in CONTRACTIONS
            or self.node.op == "fft"
            or _arithmetic_seconds(self.node) + _ranking_seconds(self.node) > _traffic_seconds(self.node)
        )

    @property
    def annotates_operand(self) -> bool:
        """Whether the annotation describes the first operand, not the first result."""
        return _annotates_operand(self.node)

    @property
    def value(self) -> Value:
        """Return the value that the annotation describes."""
        return self.node.operands[0] if self.annotates_operand else self.node.results[0]

    def carries(self, source: Value, target: Value) -> bool:
        """Whether states may propagate from `source` to `target`: a barrier permits one direction, or none."""
        if not is_propagation_barrier(self.node) or source is target:
            return True
        return self.node.attrs.direction == ("BACKWARD" if source is self.node.result else "FORWARD")

    def is_manual(self, axis: str) -> bool:
        """Whether an axis, or the axis that it is a part of, is manual at this site."""
        return split_ref(axis)[0] in self.manual


def _annotates_operand(node: Node) -> bool:
    return not node.results or is_manual_operand(node) or is_transfer_send(node)


def _rule(node: Node) -> Rule:
    if node.op in MANUAL_ENDS and node.operands and node.results:
        return end_rule(node)
    return identity_rule(node) if node.op in PSEUDO_OPS else body_rule(node)


def sites_of(module: Module, parts: AxisParts) -> list[Site]:
    """Return inputs, nodes and outputs as sites. Nodes of regions are included; nodes that compute splats are not.

    Raises:
        ShardingError: lists all faults of all annotations.
    """
    graph = module.graph
    tied = tied_outputs(module)
    tied_values = {index: [graph.outputs[output]] for index, output in tied.items()}
    inputs = [Node("input", tied_values.get(i, []), [value], loc=value.loc) for i, value in enumerate(graph.inputs)]
    untied = untied_outputs(module)
    outputs = [Node("output", [graph.outputs[index]], []) for index in untied]
    output_annotations = [module.out_annotations[i] if i < len(module.out_annotations) else None for i in untied]
    end_annotations = [*_padded(merged_annotations(module, tied), inputs), *output_annotations]
    annotations = dict(zip([*inputs, *outputs], end_annotations, strict=True))
    sites: list[Site] = []
    faults: list[Diagnostic] = []
    inner_nodes = joined_groups(without_splats(flatten(graph, 1.0)), faults)
    if faults:
        raise ShardingError(*faults)
    nodes = [Flat(n, 1.0) for n in inputs] + inner_nodes + [Flat(n, 1.0) for n in outputs]
    value_annotations = _annotations_by_value(nodes, annotations)
    concatenated = {value for node, *_ in nodes if node.op in JOINING for value in node.operands}
    producers = {value: node for node, *_ in nodes for value in node.results}
    kinds = Kinds(concatenated, producers)
    for node, times, manual in nodes:
        annotation = annotations.get(node) or annotation_of(node)
        if is_sharding_group(node):
            annotation = annotation_of_group(node, value_annotations, faults, parts)
        value = node.operands[0] if _annotates_operand(node) else node.results[0]
        if annotation:
            annotation = replace(annotation, sharding=fit(annotation.sharding, value.type.rank))
            if annotation_faults := _faults(annotation, value, node.loc, module.mesh):
                faults += annotation_faults
                continue
            sharding = annotation.sharding.without_even_offsets(value.type.shape, module.mesh)
            annotation = replace(annotation, sharding=sharding)
        option = _option(node, faults, parts)
        site_rule, like = kinds.of(node, is_plain=annotation is None and option is None and not manual)
        written_axes = merged(annotation.sharding, module.mesh).used_axes if annotation else ()
        misfits = tuple(axis for axis in written_axes if not parts.fits(axis))
        refined = annotation and _refined(annotation, misfits, parts)
        written = annotation and annotation.sharding
        seconds, splats = _seconds(node) * times, kinds.splats(node)
        sites.append(Site(node, site_rule, refined, written, option, times, seconds, manual, misfits, splats, like))
    if faults:
        raise ShardingError(*faults)
    return sites


class Kinds:
    """Caches the rules of nodes, and numbers sites by structure; nodes of equal form share one rule.

    `joined` contains the operands of concatenations, `makers` the producer of each value.
    """

    def __init__(self, joined: AbstractSet[Value], makers: Mapping[Value, Node]) -> None:
        self.joined, self.makers = joined, makers
        self.rules: dict[object, Rule] = {}
        self.numbers: dict[object, int] = {}
        self.count = itertools.count()

    def of(self, node: Node, *, is_plain: bool) -> tuple[Rule, int]:
        """Return the rule of a node and the number `like` of its site. The number is unique if the site is not plain.

        A plain site has no annotation, no option and no manual axes.
        """
        form = form_of(node)
        if form is None or not is_plain:
            return _rule_in_graph(node, self.joined, self.makers), next(self.count)
        first_positions: dict[Value, int] = {}
        values = (*node.operands, *node.results)
        repeats = tuple(first_positions.setdefault(value, position) for position, value in enumerate(values))
        is_resizing_bitcast = any(result in self.joined for result in node.results)
        key = form, repeats, self.splats(node), is_resizing_bitcast, turn(node, self.makers.get) is not None
        if key not in self.rules:
            self.rules[key] = _rule_in_graph(node, self.joined, self.makers)
            self.numbers[key] = next(self.count)
        return self.rules[key], self.numbers[key]

    def splats(self, node: Node) -> tuple[int, ...]:
        """Return the indices of the operands that are splats: the producer of a splat is not a site."""
        return tuple([index for index, value in enumerate(node.operands) if value not in self.makers])


def _rule_in_graph(node: Node, joined: AbstractSet[Value], makers: Mapping[Value, Node]) -> Rule:
    """Return the rule of a node, without windows whose rows another node fetches. `joined` are concatenated values."""
    node_rule = _rule(node)
    if node_rule.picks and node.result in joined:  # The concatenation fetches the rows of a rotation or shift.
        node_rule = replace(node_rule, picks=())
    if turn(node, makers.get) is not None:  # Rows of a rotation move once. Slices account for it.
        node_rule = replace(node_rule, windows=())
    return node_rule


def _annotations_by_value(
    nodes: Sequence[Flat], annotations: Mapping[Node, Annotation | None]
) -> dict[Value, list[Annotation]]:
    """Return the annotations of inputs, of results of `annotate` ops, and of the operands that these describe."""
    value_annotations: dict[Value, list[Annotation]] = {}
    for node, *_ in nodes:
        annotation = annotations.get(node) if is_input(node) else None
        annotation = annotation_of(node) if is_annotation(node) else annotation
        if annotation:
            annotated_values = [*node.results, *(node.operands if is_annotation(node) and node.attrs.as_result else ())]
            for value in annotated_values:
                sharding = fit(annotation.sharding, value.type.rank)
                value_annotations.setdefault(value, []).append(replace(annotation, sharding=sharding))
    return value_annotations


def _padded(annotations: Sequence[Annotation | None], sites: list[Node]) -> list[Annotation | None]:
    return list(annotations) + [None] * (len(sites) - len(annotations))


def annotation_of(node: Node) -> Annotation | None:
    """Return the annotation in a node's attributes or notes, or None if there are neither."""
    if hint := node.notes.hint:  # the sharding of the transferred value on the other mesh
        return Annotation(hint, False, (), node.loc)
    if not (is_annotation(node) or node.op in MANUAL_ENDS) or "sharding" not in node.attrs.given:
        return None
    attrs = node.attrs
    return Annotation(attrs.sharding, attrs.required if is_annotation(node) else True, tuple(attrs.open_dims), node.loc)


def _faults(annotation: Annotation, value: Value, loc: Location | None, mesh: Mesh) -> list[Diagnostic]:
    name = f"'{value.name}' ({value.type})" if value.name else str(value.type)
    return [
        Diagnostic(
            d.code, f"sharding {annotation.sharding} of {name}: {d.message}", annotation.loc or loc, d.notes, d.hint
        )
        for d in (
            *annotation.sharding.faults(value.type.shape, mesh),
            *kind_faults(annotation.sharding, value.type.dtype),
        )
    ]


def _option(node: Node, faults: list[Diagnostic], parts: AxisParts) -> tuple[tuple[str, ...], ...] | None:
    """Return the user's mesh axes per loop as sub-axes of size at least 2; faults are appended to `faults`."""
    option = node.option
    if option is None:
        return None
    loops = len(rule_of(node).factors)
    if len(option) > loops:
        text = f"the sharding option of '{node.op}' has {len(option)} lists, but the op has {loops} loops"
        faults.append(Diagnostic("MG0204", text, node.loc))
        return None
    sharding = Sharding(tuple(tuple(axes) for axes in option))
    new_faults = [
        Diagnostic(d.code, f"sharding option of '{node.op}': {d.message}", node.loc, (), d.hint)
        for d in sharding.faults((None,) * len(option), parts.mesh)
    ]
    if not new_faults and (unfit := [a for axes in sharding.dims for a in parts.merge(axes) if not parts.fits(a)]):
        text = (
            f"sharding option of '{node.op}': {unfit} do not nest in the parts that other options name: {NO_DIVISION}"
        )
        hint = "factor an axis in one way in all options of a program"
        new_faults.append(Diagnostic("MG0203", text, node.loc, hint=hint))
    faults += new_faults
    if new_faults:
        return None
    refined = (tuple(a for a in parts.refine(axes) if parts.mesh.axis_size(a) != 1) for axes in sharding.dims)
    return (*refined, *((),) * (loops - len(option)))


def _refined(annotation: Annotation, misfits: Sequence[str], parts: AxisParts) -> Annotation:
    sharding = merged(annotation.sharding, parts.mesh)
    if misfits:
        dims = tuple(parts.refine([axis for axis in axes if axis not in misfits]) for axes in sharding.dims)
        pairs = tuple(
            (part, kind) for axis, kind in sharding.partial if axis not in misfits for part in parts.refine((axis,))
        )
        open_dims = () if annotation.required else annotation.open_dims
        return Annotation(Sharding(dims, pairs), annotation.required, open_dims, annotation.loc)
    dims = tuple(parts.refine(axes) for axes in sharding.dims)
    partial = tuple((part, kind) for axis, kind in sharding.partial for part in parts.refine((axis,)))
    open_dims = tuple(is_open and not _is_uneven(sharding, dim) for dim, is_open in enumerate(annotation.open_dims))
    return Annotation(
        Sharding(dims, partial, sharding.halo, sharding.offsets), annotation.required, open_dims, annotation.loc
    )


def _is_uneven(sharding: Sharding, dim: int) -> bool:
    """Whether a dim has a halo or offsets: these describe its present shards, so no axis can be added."""
    halo, offsets = sharding.halo[dim : dim + 1], sharding.offsets[dim : dim + 1]
    return any(map(any, halo)) or any(offsets)


def _seconds(node: Node) -> float:
    """Estimate the seconds of one execution on one device: arithmetic or memory traffic, whichever takes longer."""
    if node.op in PSEUDO_OPS or node.op in NEVER_STORED:  # The work of unstored ops is counted at their users.
        return 0.0
    return max(_arithmetic_seconds(node), _traffic_seconds(node)) + _ranking_seconds(node)


def _ranking_seconds(node: Node) -> float:
    return ranking_operations(node) / DEFAULT.propagation.other_flops_per_second


def _traffic_seconds(node: Node) -> float:
    weights = DEFAULT.propagation
    rate = weights.product_bytes_per_second if node.op in CONTRACTIONS else weights.bytes_per_second
    return sum(value.type.nbytes for value in (*node.operands, *node.results)) / rate


def _arithmetic_seconds(node: Node) -> float:
    weights = DEFAULT.propagation
    rate = weights.other_flops_per_second
    if node.op in CONTRACTIONS:
        rate = _product_rate(multiplied_as(node))
    return node_flops(node) / rate


def _product_rate(multiplied: str) -> float:
    weights = DEFAULT.propagation
    if multiplied in ("f32", "f64", "c128", "tf32x3"):
        return weights.wide_flops_per_second
    return weights.tf32_flops_per_second if multiplied == "tf32" else weights.narrow_flops_per_second
