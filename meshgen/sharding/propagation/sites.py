"""List the sites that propagation decides: the graph's nodes plus one per input and output, with rules and annotations.

Example, `%h = dot_general %a, %w : f32[64,32], f32[32,96]` with `%a` annotated [{x}, {}]:

    input %a        rule `-> a b`              annotation [{x}, {}], required; of donated arguments see `donated.py`
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
from meshgen.ir.forms import form_of
from meshgen.ir.graph import Annotation, Module, Node, Value
from meshgen.ir.partial_kinds import kind_faults
from meshgen.ir.predicates import is_annotation, is_propagation_barrier, is_sharding_group, is_transfer_send
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.classes import CONTRACTIONS, JOINING, UNSTORED
from meshgen.ops.flops import node_flops, ranked_operand, ranking_operations
from meshgen.ops.precision import multiplied_as
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.propagation.control import Flat, flatten, identity_rule
from meshgen.sharding.propagation.donated import joint_annotations, tied_outputs, untied_outputs
from meshgen.sharding.propagation.groups import annotation_of_group, joined_groups
from meshgen.sharding.propagation.pseudo_ops import MANUAL_ENDS, PSEUDO_OPS, is_input, is_manual_operand
from meshgen.sharding.propagation.splats import without_splats
from meshgen.sharding.propagation.tiles import body_rule, end_rule
from meshgen.sharding.window_fetches import turn
from meshgen.spec import Sharding, fit


@dataclass(eq=False)
class Site:
    """A node, an input (`op` input) or an output (`op` output), seen by propagation.

    `annotation` is that of its value, in parts of axes, and `asked` its sharding as the user wrote it;
    `option` the user's axes per loop; `times` how often it runs; `seconds` its work when it is not sharded; along the
    axes in `manual` nothing in it can be split: it works on tiles of them. `misfits` are parts of axes in the annotation
    that do not nest in those that the program is solved over (6 devices as 2 x 3 and as 3 x 2): `annotation` leaves them out. If it
    is required it is kept all the same: the value is resharded to it, and from it. `splats` are the operands, by number, that are one
    number everywhere (`splats.py`). Sites with the same number `like` differ only
    in their values, so they share all that depends on the rule and on the states of values alone.
    """

    node: Node
    rule: Rule
    annotation: Annotation | None
    asked: Sharding | None
    option: tuple[tuple[str, ...], ...] | None
    times: float
    seconds: float
    manual: tuple[str, ...]
    misfits: tuple[str, ...]
    splats: tuple[int, ...]
    like: int

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Operands, then results."""
        return (*self.node.operands, *self.node.results)

    @cached_property
    def is_joined(self) -> bool:
        """Whether a dim is made of several loops: a split of some of them affects the others."""
        return any(len(part) > 1 for dims in (*self.rule.operands, *self.rule.results) for part in dims)

    def left(self, factor: int, share: float) -> float:
        """The share of its work that a device has left which does `share` of a loop: it ranks all updates of a scatter whose rows it has."""
        ranking, operand = self._ranking, ranked_operand(self.node)
        is_ranked = ranking and operand is not None and self.rule.places(factor)[0][operand] is None
        return ranking + (1 - ranking) * share if is_ranked else share

    @cached_property
    def _ranking(self) -> float:
        """The share of its work that is ranking elements."""
        seconds = _ranking_seconds(self.node)
        return seconds * self.times / self.seconds if seconds else 0.0

    @property
    def is_firm(self) -> bool:
        """Whether fusion cannot save its work: products, transforms, or other arithmetic that takes longer than its traffic with memory."""
        return (
            self.node.op in CONTRACTIONS
            or self.node.op == "fft"
            or _arithmetic_seconds(self.node) + _ranking_seconds(self.node) > _traffic_seconds(self.node)
        )

    @property
    def asks_operand(self) -> bool:
        """Whether the annotation is of the first operand, not of the first result."""
        return _asks_operand(self.node)

    @property
    def value(self) -> Value:
        """The value that the annotation is of."""
        return self.node.operands[0] if self.asks_operand else self.node.results[0]

    def carries(self, source: Value, target: Value) -> bool:
        """Whether propagation may go from one of its values to another: a barrier lets it go one way, or none."""
        if not is_propagation_barrier(self.node) or source is target:
            return True
        return self.node.attrs.direction == ("BACKWARD" if source is self.node.result else "FORWARD")

    def is_manual(self, axis: str) -> bool:
        """Whether an axis, or the axis that it is a part of, is manual here."""
        return split_ref(axis)[0] in self.manual


def _asks_operand(node: Node) -> bool:
    return not node.results or is_manual_operand(node) or is_transfer_send(node)


def _rule(node: Node) -> Rule:
    if node.op in MANUAL_ENDS and node.operands and node.results:
        return end_rule(node)
    return identity_rule(node) if node.op in PSEUDO_OPS else body_rule(node)


def sites_of(module: Module, parts: AxisParts) -> list[Site]:
    """Inputs, nodes (those of regions too, without those that make splats), outputs. Raises ShardingError with all faults of all annotations."""
    graph = module.graph
    tied = tied_outputs(module)
    ends = {number: [graph.outputs[output]] for number, output in tied.items()}
    inputs = [Node("input", ends.get(number, []), [value], loc=value.loc) for number, value in enumerate(graph.inputs)]
    untied = untied_outputs(module)
    outputs = [Node("output", [graph.outputs[number]], []) for number in untied]
    wanted = [module.out_annotations[number] if number < len(module.out_annotations) else None for number in untied]
    given = zip([*inputs, *outputs], [*_padded(joint_annotations(module, tied), inputs), *wanted], strict=True)
    annotations = dict(given)
    found: list[Site] = []
    faults: list[Diagnostic] = []
    inside = joined_groups(without_splats(flatten(graph, 1.0)), faults)
    if faults:
        raise ShardingError(*faults)
    nodes = [Flat(n, 1.0) for n in inputs] + inside + [Flat(n, 1.0) for n in outputs]
    said = _annotations_by_value(nodes, annotations)
    joined = {value for node, *_ in nodes if node.op in JOINING for value in node.operands}
    makers = {value: node for node, *_ in nodes for value in node.results}
    kinds = Kinds(joined, makers)
    for node, times, manual in nodes:
        annotation = annotations.get(node) or annotation_of(node)
        if is_sharding_group(node):
            annotation = annotation_of_group(node, said, faults, parts)
        value = node.operands[0] if _asks_operand(node) else node.results[0]
        if annotation:
            annotation = replace(annotation, sharding=fit(annotation.sharding, value.type.rank))
            if wrong := _faults(annotation, value, node.loc, module.mesh):
                faults += wrong
                continue
            sharding = annotation.sharding.without_even_offsets(value.type.shape, module.mesh)
            annotation = replace(annotation, sharding=sharding)
        option = _option(node, faults, parts)
        site_rule, like = kinds.of(node, is_plain=annotation is None and option is None and not manual)
        asked = merged(annotation.sharding, module.mesh).used_axes if annotation else ()
        misfits = tuple(axis for axis in asked if not parts.fits(axis))
        refined = annotation and _refined(annotation, misfits, parts)
        written = annotation and annotation.sharding
        seconds, splats = _seconds(node) * times, kinds.splats(node)
        found.append(Site(node, site_rule, refined, written, option, times, seconds, manual, misfits, splats, like))
    if faults:
        raise ShardingError(*faults)
    return found


class Kinds:
    """The rules of nodes, and what sites are alike; equal rules of one form of node are made once.

    `joined` are the operands of concatenations, `makers` has the producer of each value.
    """

    def __init__(self, joined: AbstractSet[Value], makers: Mapping[Value, Node]) -> None:
        self.joined, self.makers = joined, makers
        self.rules: dict[object, Rule] = {}
        self.numbers: dict[object, int] = {}
        self.count = itertools.count()

    def of(self, node: Node, *, is_plain: bool) -> tuple[Rule, int]:
        """The rule of a node, and the number `like` of its site; one that is not plain has a number of its own."""
        form = form_of(node)
        if form is None or not is_plain:
            return _rule_in_place(node, self.joined, self.makers), next(self.count)
        seen: dict[Value, int] = {}
        values = (*node.operands, *node.results)
        repeats = tuple(seen.setdefault(value, number) for number, value in enumerate(values))
        is_cut = any(result in self.joined for result in node.results)
        key = form, repeats, self.splats(node), is_cut, turn(node, self.makers.get) is not None
        if key not in self.rules:
            self.rules[key] = _rule_in_place(node, self.joined, self.makers)
            self.numbers[key] = next(self.count)
        return self.rules[key], self.numbers[key]

    def splats(self, node: Node) -> tuple[int, ...]:
        """The operands that no node makes which has a site."""
        return tuple([number for number, value in enumerate(node.operands) if value not in self.makers])


def _rule_in_place(node: Node, joined: AbstractSet[Value], makers: Mapping[Value, Node]) -> Rule:
    """The rule of a node, without windows whose rows are moved by another node; `joined` are the operands of concatenations."""
    found = _rule(node)
    if found.picks and node.result in joined:  # rotated or moved rows are fetched once
        found = replace(found, picks=())
    if turn(node, makers.get) is not None:  # its rows move once: they are counted at the slices
        found = replace(found, windows=())
    return found


def _annotations_by_value(
    nodes: Sequence[Flat], annotations: Mapping[Node, Annotation | None]
) -> dict[Value, list[Annotation]]:
    """Annotations of how values are made: those of inputs, and of a value or of the operand that it annotates."""
    found: dict[Value, list[Annotation]] = {}
    for node, *_ in nodes:
        annotation = annotations.get(node) if is_input(node) else None
        annotation = annotation_of(node) if is_annotation(node) else annotation
        if annotation:
            made = [*node.results, *(node.operands if is_annotation(node) and node.attrs.as_result else ())]
            for value in made:
                sharding = fit(annotation.sharding, value.type.rank)
                found.setdefault(value, []).append(replace(annotation, sharding=sharding))
    return found


def _padded(annotations: Sequence[Annotation | None], sites: list[Node]) -> list[Annotation | None]:
    return list(annotations) + [None] * (len(sites) - len(annotations))


def annotation_of(node: Node) -> Annotation | None:
    """The annotation in a node's own attributes or notes."""
    if hint := node.notes.hint:  # the sharding on the other mesh of a transfer
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
    """The user's axes per loop, checked, in terms of the parts; axes of one device are left out."""
    option = node.option
    if option is None:
        return None
    loops = len(rule_of(node).factors)
    if len(option) > loops:
        faults.append(
            Diagnostic(
                "MG0204",
                f"the sharding option of '{node.op}' has {len(option)} lists, but the op has {loops} loops",
                node.loc,
            )
        )
        return None
    full = Sharding(tuple(tuple(axes) for axes in option))
    wrong = [
        Diagnostic(d.code, f"sharding option of '{node.op}': {d.message}", node.loc, (), d.hint)
        for d in full.faults((None,) * len(option), parts.mesh)
    ]
    if not wrong and (odd := [a for axes in full.dims for a in parts.merge(axes) if not parts.fits(a)]):
        text = f"sharding option of '{node.op}': {odd} do not nest in the parts that other options name: {NO_DIVISION}"
        wrong.append(Diagnostic("MG0203", text, node.loc, hint="factor an axis in one way in all options of a program"))
    faults += wrong
    if wrong:
        return None
    refined = (tuple(a for a in parts.refine(axes) if parts.mesh.axis_size(a) != 1) for axes in full.dims)
    return (*refined, *((),) * (loops - len(option)))


def _refined(annotation: Annotation, misfits: Sequence[str], parts: AxisParts) -> Annotation:
    sharding = merged(annotation.sharding, parts.mesh)
    if misfits:
        dims = tuple(parts.refine([axis for axis in axes if axis not in misfits]) for axes in sharding.dims)
        pairs = tuple(
            (part, kind) for axis, kind in sharding.partial if axis not in misfits for part in parts.refine((axis,))
        )
        opened = () if annotation.required else annotation.open_dims
        return Annotation(Sharding(dims, pairs), annotation.required, opened, annotation.loc)
    dims = tuple(parts.refine(axes) for axes in sharding.dims)
    partial = tuple((part, kind) for axis, kind in sharding.partial for part in parts.refine((axis,)))
    opened = tuple(is_open and not _is_uneven(sharding, dim) for dim, is_open in enumerate(annotation.open_dims))
    return Annotation(
        Sharding(dims, partial, sharding.halo, sharding.offsets), annotation.required, opened, annotation.loc
    )


def _is_uneven(sharding: Sharding, dim: int) -> bool:
    """Whether a dim has a halo or offsets: they are those of its shards, so no axis can be added."""
    halo, offsets = sharding.halo[dim : dim + 1], sharding.offsets[dim : dim + 1]
    return any(map(any, halo)) or any(offsets)


def _seconds(node: Node) -> float:
    """Estimated seconds of one run on one device: those of its arithmetic or of its traffic with memory, whichever takes longer."""
    if node.op in PSEUDO_OPS or node.op in UNSTORED:  # the work of these counts at their users
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
