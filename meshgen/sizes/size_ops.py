"""Constant folding of sizes once they are given, and the static forms of ops that query sizes or take them as operands.

JAX's exported functions with symbolic shapes compute shapes by small integer ops, and make tensors of these shapes.
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

LARGEST = 256  # elements: lists of sizes are short; larger constants are not examined
_PLACES = re.compile(r"\{(\d+)\}")
# By op: the static one, and what the last operands become: attributes, or the shape.
SHAPE = ("shape",)  # of the result; its type says it
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
    """The attributes given by lists of numbers: `padding` has a pair for each dim."""
    found = dict(zip(names, lists, strict=True))
    if (pairs := found.pop("padding", None)) is not None:
        found |= {"low": pairs[::2], "high": pairs[1::2]}
    return found


def _is_small(kind: TensorType) -> bool:
    return None not in kind.shape and kind.size <= LARGEST and not is_inexact(kind.dtype)


@dataclass
class KnownSizes:
    """The known integer values of one program, and which of them depend on its sizes."""

    numbers: dict[Value, Array] = field(default_factory=dict[Value, Array])
    of_sizes: set[Value] = field(default_factory=set[Value])
    faults: list[Diagnostic] = field(default_factory=list[Diagnostic])
    refused: list[Diagnostic] = field(
        default_factory=list[Diagnostic]
    )  # assertions that do not hold: the cause of all other faults

    def same(self, old: Value, new: Value) -> None:
        """Record that `new` equals `old`, which may be known."""
        if old in self.numbers:
            self.numbers[new] = self.numbers[old]
        if old in self.of_sizes:
            self.of_sizes.add(new)

    def folded(self, node: Node, is_size: bool = False) -> Node:
        """The node, as a constant where it is computed from sizes alone; its value is recorded.

        `is_size`: it replaces an op that queries a size.
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
        """The form of a size op over these operands once sizes are known: a constant, its static form, or None.

        The node itself, with a fault recorded, where a size is unknown.
        """
        node = replace(node, operands=list(operands))
        if any(None in value.type.shape for value in operands):  # the fault of its producer is already reported
            return node
        if faults := verify_node(node):
            self.faults += faults
            return node
        if node.op == "axis_size":  # `at_mesh` knows it
            return node
        if node.op == "shape_assertion":
            return self._checked(node)
        if node.op == "get_dimension_size":
            size = node.operands[0].type.sizes[node.attrs.dim]
            return replace(node, op="constant", operands=[], attrs={"value": np.asarray(size, np.int32)})
        return self._with_sizes(node)

    def _with_sizes(self, node: Node) -> Node:
        op, names = STATIC[node.op]
        given = node.operands[-len(names) :]
        if any(value not in self.numbers for value in given):
            self._record_fault("MG0103", node, f"'{node.op}' of sizes that are known at run time only")
            return node
        lists = [tuple(int(n) for n in self.numbers[value].reshape(-1)) for value in given]
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
        """None where the assertion holds."""
        found = [self.numbers.get(value) for value in node.operands]
        if found[0] is None:
            self._record_fault("MG0103", node, "the condition of a shape assertion is known at run time only")
            return node
        if found[0].all():
            return None
        words = ["?" if number is None else str(number.item()) for number in found[1:]]
        message = _PLACES.sub(
            lambda place: words[int(place[1])] if int(place[1]) < len(words) else place[0], node.attrs.message
        )
        text = f"a shape assertion of the program does not hold: {message}"
        self.refused.append(Diagnostic("MG0104", text, node.loc))
        return None

    def _record_fault(self, code: str, node: Node, message: str) -> None:
        self.faults.append(Diagnostic(code, message, node.loc))
