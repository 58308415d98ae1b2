"""Constant folding of sizes, and the static forms of ops that query sizes or take sizes as operands.

Functions that JAX exports with symbolic shapes compute shapes with small integer ops and pass them to dynamic ops.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from meshgen.errors import Diagnostic
from meshgen.ir.graph import Node, TensorType, Value, is_inexact
from meshgen.ir.predicates import is_constant
from meshgen.ops.constants import FOLDABLE
from meshgen.ops.evaluate.common import Array
from meshgen.ops.evaluate.evaluator import evaluate_node
from meshgen.ops.types.inference import verify_node
from meshgen.ops.types.site import shapes_agree

# Maximum number of elements of a folded constant. Chosen: shapes are short lists, and larger constants are never
# shapes.
LARGEST = 256
_PLACEHOLDERS = re.compile(r"\{(\d+)\}")
# Dynamic op -> (the corresponding static op, the attributes of the static op that the last operands become).
SHAPE = ("shape",)  # Marks an operand that is the shape of the result. The static op has it in the result type.
STATIC: dict[str, tuple[str, tuple[str, ...]]] = {
    "dynamic_iota": ("iota", SHAPE),
    "dynamic_reshape": ("reshape", SHAPE),
    "dynamic_broadcast_in_dim": ("broadcast_in_dim", SHAPE),
    "dynamic_pad": ("pad", ("low", "high", "interior")),
    "real_dynamic_slice": ("slice", ("start", "limit", "stride")),
    "dynamic_gather": ("gather", ("slice_sizes",)),
    "dynamic_conv": ("convolution", ("padding",)),
    "dynamic_reduce_window": (
        "reduce_window",
        ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"),
    ),
}


def attributes_of(names: Sequence[str], lists: Sequence[tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the attributes that replace the operands of a dynamic op: attribute name -> list of integers.

    `padding` is a list of (low, high) pairs and becomes the attributes `low` and `high`.
    """
    attributes = dict(zip(names, lists, strict=True))
    if (pairs := attributes.pop("padding", None)) is not None:
        attributes |= {"low": pairs[::2], "high": pairs[1::2]}
    return attributes


def _is_small(tensor_type: TensorType) -> bool:
    return None not in tensor_type.shape and tensor_type.size <= LARGEST and not is_inexact(tensor_type.dtype)


@dataclass
class KnownSizes:
    """The results of constant-folding the integers of a program.

    Attributes:
        numbers: the folded values.
        of_sizes: those folded values that depend on the sizes of inputs.
        faults: malformed nodes, and sizes that cannot be folded.
        refused: failed assertions. They explain all other faults.
    """

    numbers: dict[Value, Array] = field(default_factory=dict[Value, Array])
    of_sizes: set[Value] = field(default_factory=set[Value])
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    # Failed assertions; they explain all other faults.
    refused: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def same(self, old: Value, new: Value) -> None:
        """Record that `new` equals `old`: if `old` is folded, `new` is folded to the same number."""
        if old in self.numbers:
            self.numbers[new] = self.numbers[old]
        if old in self.of_sizes:
            self.of_sizes.add(new)

    def folded(self, node: Node, is_size: bool = False) -> Node:
        """Fold a node whose operands are folded.

        Returns a constant if the value depends on input sizes, else the node itself.

        Args:
            is_size: whether the node is a constant that replaces a size query.
        """
        if len(node.results) != 1 or not _is_small(node.result.type):
            return node
        if is_constant(node):
            self.numbers[node.result] = np.broadcast_to(node.attrs.value, node.result.type.sizes)
            if is_size:
                self.of_sizes.add(node.result)
            return node
        if node.op not in FOLDABLE or any(value not in self.numbers for value in node.operands):
            return node
        if faults := verify_node(node):
            self.faults += faults
            return node
        (array,) = evaluate_node(node, [self.numbers[value] for value in node.operands])
        self.numbers[node.result] = array
        if not self.of_sizes.intersection(node.operands):
            return node
        self.of_sizes.add(node.result)
        return replace(node, op="constant", operands=[], attrs={"value": array})

    def static(self, node: Node, operands: Sequence[Value]) -> Node | None:
        """Return the static form of a size op: a constant, a static op, or None for an assertion that holds.

        If a size operand is not folded, the method records a fault and returns the node unchanged.
        """
        node = replace(node, operands=list(operands))
        # A fault of the operand's producer was reported already.
        if any(None in value.type.shape for value in operands):
            return node
        if faults := verify_node(node):
            self.faults += faults
            return node
        if node.op == "axis_size":  # `at_mesh` folds axis sizes.
            return node
        if node.op == "shape_assertion":
            return self._checked(node)
        if node.op == "get_dimension_size":
            size = node.operands[0].type.sizes[node.attrs.dim]
            return replace(node, op="constant", operands=[], attrs={"value": np.asarray(size, np.int32)})
        return self._with_sizes(node)

    def _with_sizes(self, node: Node) -> Node:
        op, names = STATIC[node.op]
        size_operands = node.operands[-len(names) :]
        if any(value not in self.numbers for value in size_operands):
            self._record_fault("MG0103", node, f"'{node.op}' has size operands that are known at run time only")
            return node
        lists = [tuple(int(n) for n in self.numbers[value].reshape(-1)) for value in size_operands]
        static = replace(node, op=op, operands=node.operands[: -len(names)])
        if names != SHAPE:
            return replace(static, attrs=node.attrs | attributes_of(names, lists))
        declared, (shape,) = node.result.type, lists
        if min(shape, default=0) < 0 or not shapes_agree(shape, declared.shape):
            self._record_fault(
                "MG0104", node, f"'{node.op}' has sizes {list(shape)}, but the program declares {declared}"
            )
            return node
        return replace(static, results=[replace(node.result, type=declared.with_shape(shape))])

    def _checked(self, node: Node) -> Node | None:
        """Return None if the shape assertion holds; otherwise record a fault."""
        values = [self.numbers.get(value) for value in node.operands]
        if values[0] is None:
            self._record_fault("MG0103", node, "the condition of a shape assertion is known at run time only")
            return node
        if values[0].all():
            return None
        words = ["?" if number is None else str(number.item()) for number in values[1:]]
        message = _PLACEHOLDERS.sub(
            lambda placeholder: words[int(placeholder[1])] if int(placeholder[1]) < len(words) else placeholder[0],
            node.attrs.message,
        )
        text = f"a shape assertion of the program does not hold: {message}"
        self.refused.append(Diagnostic("MG0104", text, node.loc))
        return None

    def _record_fault(self, code: str, node: Node, message: str) -> None:
        self.faults.append(Diagnostic(code, message, node.loc))
