"""What propagation looks at: the graph's nodes plus one site per input and output, with their rules and wishes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from meshgen.errors import Diagnostic, Location, ShardingError
from meshgen.ir.graph import Annotation, Module, Node, Value
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.rules import Linear, Rule, rule, rule_of
from meshgen.sharding.rules.registry import letters
from meshgen.sharding.rules.rule import ALL_KINDS
from meshgen.spec import Sharding, fit

# Dots as kernels reach them on one H100 (f32 without tf32): weighs redundant compute against bytes.
FLOPS_PER_SECOND = {"bf16": 600e12, "f16": 600e12, "f32": 50e12, "f64": 50e12}
BYTES_PER_SECOND = 10e12  # element-wise work, mostly fused away


@dataclass(eq=False)
class Site:
    """A node, an input (`op` input) or an output (`op` output), seen by propagation.

    `wish` is what the user asked of its value, in parts of axes, and `asked` the same in the user's words;
    `option` the user's axes per loop; `seconds` its work when it is not sharded.
    """

    node: Node
    rule: Rule
    wish: Annotation | None
    asked: Sharding | None
    option: tuple[tuple[str, ...], ...] | None
    seconds: float

    @property
    def value(self) -> Value:
        """The value that a wish is about."""
        return self.node.results[0] if self.node.results else self.node.operands[0]


def sites_of(module: Module, parts: AxisParts) -> list[Site]:
    """Inputs, nodes, outputs. Raises ShardingError with all faults of all annotations."""
    graph = module.graph
    found: list[Site] = []
    faults: list[Diagnostic] = []
    inputs = [Node("input", [], [value], loc=value.loc) for value in graph.inputs]
    outputs = [Node("output", [value], []) for value in graph.outputs]
    wishes = {
        id(n): w
        for n, w in zip(
            inputs + outputs,
            _padded(module.in_annotations, inputs) + _padded(module.out_annotations, outputs),
            strict=True,
        )
    }
    for node in [*inputs, *graph.nodes, *outputs]:
        wish = wishes.get(id(node))
        if node.op == "annotate":
            attrs = node.attrs
            wish = Annotation(
                attrs["sharding"], attrs.get("required", True), tuple(attrs.get("open_dims", ())), node.loc
            )
        value = node.results[0] if node.results else node.operands[0]
        if wish:
            wish = replace(wish, sharding=fit(wish.sharding, value.type.rank))
        if wish and (wrong := _faults(wish, value, node.loc, module.mesh)):
            faults += wrong
            continue
        option = _option(node, faults, module.mesh)
        site_rule = _identity(node) if node.op in ("input", "output", "annotate") else rule_of(node)
        found.append(
            Site(
                node,
                site_rule,
                wish and _refined(wish, parts),
                wish and wish.sharding,
                option and tuple(parts.refine(a) for a in option),
                _seconds(node, site_rule),
            )
        )
    if faults:
        raise ShardingError(*faults)
    return found


def _padded(wishes: Sequence[Annotation | None], sites: list[Node]) -> list[Annotation | None]:
    return list(wishes) + [None] * (len(sites) - len(wishes))


def _faults(wish: Annotation, value: Value, loc: Location | None, mesh: Mesh) -> list[Diagnostic]:
    name = f"'{value.name}' ({value.type})" if value.name else str(value.type)
    return [
        Diagnostic(d.code, f"sharding {wish.sharding} of {name}: {d.message}", wish.loc or loc, d.notes, d.hint)
        for d in wish.sharding.faults(value.type.shape, mesh)
    ]


def _option(node: Node, faults: list[Diagnostic], mesh: Mesh) -> tuple[tuple[str, ...], ...] | None:
    """The user's axes per loop, checked."""
    option = node.attrs.get("sharding_option")
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
        for d in full.faults((None,) * len(option), mesh)
    ]
    faults += wrong
    return None if wrong else full.dims + ((),) * (loops - len(option))


def _refined(wish: Annotation, parts: AxisParts) -> Annotation:
    sharding = wish.sharding
    dims = tuple(parts.refine(axes) for axes in sharding.dims)
    partial = tuple((part, kind) for axis, kind in sharding.partial for part in parts.refine((axis,)))
    return Annotation(Sharding(dims, partial, sharding.halo, sharding.offsets), wish.required, wish.open_dims, wish.loc)


def _identity(node: Node) -> Rule:
    value = node.results[0] if node.results else node.operands[0]
    dims = " ".join(letters(value.type.rank)) or "()"
    left, right = [v.type for v in node.operands], [v.type for v in node.results]
    return rule(
        f"{dims if left else ''} -> {dims if right else ''}",
        left,
        right,
        linear=(Linear((0,), ALL_KINDS),) if left and right else (),
    )


def _seconds(node: Node, site_rule: Rule) -> float:
    if node.op == "dot_general":
        return (
            2 * math.prod(f.size for f in site_rule.factors) / FLOPS_PER_SECOND.get(node.operands[0].type.dtype, 600e12)
        )
    if node.op in ("input", "output", "annotate", "constant"):
        return 0.0
    return sum(v.type.nbytes for v in [*node.operands, *node.results]) / BYTES_PER_SECOND


@dataclass(frozen=True)
class AxisParts:
    """The finest parts of the mesh's axes that the annotations name, so that no two overlap."""

    mesh: Mesh
    parts: dict[str, tuple[str, ...]]  # axis name -> its parts, major to minor

    @staticmethod
    def of(mesh: Mesh, refs: Sequence[str]) -> AxisParts:
        table: dict[str, tuple[str, ...]] = {}
        for axis in mesh.axes:
            size = axis.size
            cuts = sorted(
                {
                    c
                    for r in refs
                    for name, pre, part in [split_ref(r)]
                    if name == axis.name and part
                    for c in (pre, pre * part)
                }
                - {1}
            )
            if size is None or not [c for c in cuts if c != size]:
                table[axis.name] = (axis.name,)
                continue
            bounds = [1, *[c for c in cuts if c < size], size]
            table[axis.name] = tuple(f"{axis.name}:({a}){b // a}" for a, b in itertools.pairwise(bounds))
        return AxisParts(mesh, table)

    def refine(self, refs: Sequence[str]) -> tuple[str, ...]:
        """References in terms of the parts."""
        found: list[str] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            for part in self.parts[name]:
                _, part_pre, part_size = split_ref(part)
                if size is None or part_size is None or pre <= part_pre < pre * size:
                    found.append(part)
        return tuple(found)

    def merge(self, refs: Sequence[str]) -> tuple[str, ...]:
        """Neighbouring parts joined again: the inverse of refine."""
        found: list[str] = []
        for ref in refs:
            name, pre, size = split_ref(ref)
            if found and size is not None:
                last, last_pre, last_size = split_ref(found[-1])
                if last == name and last_size is not None and last_pre * last_size == pre:
                    found[-1] = f"{name}:({last_pre}){last_size * size}"
                    continue
            found.append(ref)
        whole = {f"{a.name}:(1){a.size}": a.name for a in self.mesh.axes}
        return tuple(whole.get(ref, ref) for ref in found)

    def all(self) -> list[str]:
        """All parts of all axes of known size above 1, in mesh order."""
        return [
            p
            for a in self.mesh.axes
            if a.size is not None and a.size > 1
            for p in self.parts[a.name]
            if self.mesh.axis_size(p) > 1
        ]
