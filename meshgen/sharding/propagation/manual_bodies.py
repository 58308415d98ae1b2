"""Let axes that are not manual ("free") split the bodies of manual computations, as with JAX's `axis_names`.

Example, on x=2, y=2: `manual over x` with operand f32[64,32]{x}

    body argument   f32[32,32], replicated along x
    propagation     may split it over y: [{}, {y}] in the body is [{x}, {y}] of the operand

Propagation treats the body as part of the program, on tiles: every value in it is replicated along manual axes, and
may be split along free axes. A collective that the user wrote works on tiles like any operation. Its rule says which
dims may be split further. `materialize` later writes such a body out for one device, so that every later stage
sees a manual computation over all axes that it uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Node
from meshgen.mesh import split_ref
from meshgen.ops.classes import ON_RANKS, REDUCING
from meshgen.ops.registry import rule_of
from meshgen.ops.rules.rule import Linear, Rule, letters, rule
from meshgen.sharding.propagation.pseudo_ops import is_manual_operand
from meshgen.spec import Sharding

_WHOLE_DIMS = ("dim", "split_dim", "concat_dim")  # attributes that name a dim whose rows a collective rearranges


def free_part(sharding: Sharding, manual: Sequence[str]) -> Sharding:
    """Return the sharding without the manual axes."""
    dims = tuple(tuple(a for a in axes if split_ref(a)[0] not in manual) for axes in sharding.dims)
    return Sharding(dims, tuple(pair for pair in sharding.partial if split_ref(pair[0])[0] not in manual))


def joined(manual: Sharding, free: Sharding) -> Sharding:
    """Return the sharding over the axes of `manual` and `free`, with the free axes minor to the manual ones."""
    dims = tuple((*outer, *inner) for outer, inner in zip(manual.dims, free.dims, strict=True))
    return Sharding(dims, (*manual.partial, *free.partial))


def end_rule(node: Node) -> Rule:
    """Return the rule that ties an operand or result of a manual computation to its tile in the body.

    A dim that manual axes split consists of a factor for these axes and a factor for the tile.
    """
    inner = (node.results if is_manual_operand(node) else node.operands)[0]
    names = letters(inner.type.rank)
    cut = [bool(axes) for axes in node.attrs.manual.dims]
    outer = " ".join(f"(u{d} {n})" if cut[d] else n for d, n in enumerate(names)) or "()"
    plain = " ".join(names) or "()"
    sides = (outer, plain) if is_manual_operand(node) else (plain, outer)
    sizes = {f"u{d}": 1 for d, is_resizing_bitcast in enumerate(cut) if is_resizing_bitcast}
    sizes |= dict(zip(names, inner.type.sizes, strict=True))
    return rule(f"{sides[0]} -> {sides[1]}", [inner.type], [inner.type], sizes=sizes)


def body_rule(node: Node) -> Rule:
    """Return the rule of a node in a manual body. A collective's rule ties only the dims that it leaves in place."""
    if node.op not in ON_RANKS:
        return rule_of(node)
    if not node.operands:
        return rule("-> ()", [], [node.result.type])
    moved_dims = {getattr(node.attrs, name) for name in _WHOLE_DIMS if name in node.attrs.given}
    names = letters(node.operands[0].type.rank)
    operand_dims = " ".join(f"{n}_in" if d in moved_dims else n for d, n in enumerate(names)) or "()"
    result_dims = " ".join(f"{n}_out" if d in moved_dims else n for d, n in enumerate(names)) or "()"
    whole = [f"{names[d]}_{side}" for d in sorted(moved_dims) for side in ("in", "out")]
    linear = (Linear((0,), (node.attrs.kind,)),) if node.op in REDUCING and not moved_dims else ()
    kinds = [node.operands[0].type], [node.result.type]
    return rule(f"{operand_dims} -> {result_dims}", *kinds, whole=whole, linear=linear)
