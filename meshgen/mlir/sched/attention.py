"""Attention in text: `sched.attention`, at every stage up to `partition`, in generic form.

%0, %1 = "sched.attention"(%q, %k, %v) <{factors = "h t d, h s d, h s e -> h t e, h t", positions = ["t", "s"], zero_empty = false}> ({
^bb0(%score: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
  ...
  stablehlo.return %masked : tensor<f32>
}, {
^bb0(%share: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
  ...
  stablehlo.return %rounded : tensor<bf16>
}) : (...) -> (tensor<8x64x128xbf16>, tensor<8x64xf32>)
"""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import region_def, var_operand_def, var_result_def

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.operation_signature import signatures_of
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes, define
from meshgen.mlir.stablehlo.fields import Field, flag, precisions, string, strings


class Attention(GenericOperation):
    """Softmax between two products; the regions are functions of a score and of a probability."""

    arguments = var_operand_def()
    scored = region_def()
    weighted = region_def()
    outputs = var_result_def()
    FIELDS: ClassVar[tuple[Field, ...]] = (
        string("factors", "factors"),
        strings("positions", "positions"),
        precisions(),
        precisions(prop="value_precision_config", attr="value_precision"),
        flag("zero_empty", "zero_empty", is_required=True),
    )


_PROPERTIES = (
    "factors: string, positions?: array, precision_config?: array, value_precision_config?: array, zero_empty: flag"
)
PART = merged(
    Dialect(signatures=signatures_of("sched", {f"3.. -> 2 {{n -> 1}} {{n -> 1}} <{_PROPERTIES}>": "attention"})),
    as_nodes(define(Attention, "sched.attention")),
)
