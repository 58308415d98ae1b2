"""The table of all op records by name. Importing `meshgen.ops` fills it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from meshgen.errors import CodegenError, Diagnostic, ProgramError
from meshgen.ir.attributes.table import KINDS
from meshgen.ir.graph import Node
from meshgen.ir.node_keys import Form, form_of
from meshgen.ops.evaluate.common import Handler
from meshgen.ops.op import Op, Trait
from meshgen.ops.rules.rule import Rule
from meshgen.ops.triton.registers import TRITON_TYPES, Code, Made, unsupported

OPS: dict[str, Op] = {}


def register(families: Iterable[Iterable[Op]]) -> None:
    """Add the ops of all families. Raises ValueError for a duplicate name."""
    for family in families:
        for op in family:
            if op.name in OPS:
                raise ValueError(f"op '{op.name}' is defined twice")
            OPS[op.name] = op
            KINDS[op.name] = op.attributes


def with_trait(trait: Trait) -> frozenset[str]:
    """Return the names of the ops that have a trait."""
    return frozenset(name for name, op in OPS.items() if trait in op.traits)


def composites() -> frozenset[str]:
    """Return the names of the ops that have a decomposition."""
    return frozenset(name for name, op in OPS.items() if op.decompose is not None)


def with_attributes(*names: str) -> frozenset[str]:
    """Return the names of the ops that have all attributes in `names` as required attributes."""
    return frozenset(name for name, op in OPS.items() if {*names} <= op.attributes.required_fields)


def with_kernel(*forms: str) -> frozenset[str]:
    """Return the names of the ops whose `Kernel.form` is one of `forms`."""
    return frozenset(name for name, op in OPS.items() if op.kernel.form in forms)


def rule_of(node: Node) -> Rule:
    """Return the sharding rule of a node. Raises ProgramError MG0103 if the op has none."""
    op = OPS.get(node.op)
    if op is None or op.rule is None:
        raise ProgramError(Diagnostic("MG0103", f"'{node.op}' has no sharding rule", node.loc))
    return op.rule(node)


class Rules:
    """The sharding rules of a program's nodes. Nodes with equal forms (`ir/node_keys.py`) share one rule object."""

    def __init__(self) -> None:
        self._of_forms: dict[Form, Rule] = {}

    def of(self, node: Node) -> Rule:
        """Return the sharding rule of a node. Raises ProgramError MG0103 if the op has none."""
        form = form_of(node)
        if form is None:
            return rule_of(node)
        if form not in self._of_forms:
            self._of_forms[form] = rule_of(node)
        return self._of_forms[form]


def has_rule(op: str) -> bool:
    return op in OPS and OPS[op].rule is not None


def broadcasts(op: str) -> bool:
    """Whether the NumPy evaluation of an op broadcasts operands, so that it accepts entire arrays for scalars."""
    return op in OPS and Trait.BROADCASTS in OPS[op].traits


def numpy_semantics(op: str) -> Handler:
    """Return the function that evaluates an op on NumPy arrays. The op must not be a composite."""
    evaluate = OPS[op].evaluate
    assert evaluate is not None, op
    return evaluate


def evaluable_ops() -> frozenset[str]:
    """Return the names of the ops that the evaluator can run on one device: by a function, or through their
    decomposition.
    """
    return frozenset(name for name, op in OPS.items() if op.evaluate is not None or op.decompose is not None)


def is_allowed_in_manual(op: str) -> bool:
    """Whether users may write an op in the body of a manual computation, although it depends on the device."""
    return op in OPS and Trait.IN_BODIES in OPS[op].traits


def expression(node: Node, args: Sequence[Code]) -> Made:
    """Return the Triton source of an element-wise node, and the helper functions that the source calls.

    `args` are the operands in registers. Raises CodegenError MG0301 if Triton cannot express the op for their type.
    """
    generate = OPS[node.op].kernel.expression
    if generate is None or args[0].dtype not in TRITON_TYPES:
        raise CodegenError(unsupported(node))
    return generate(node, args)
