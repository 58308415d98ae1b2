"""Operations for attention and its gradients, such as `sched.attention`, which are printed in generic form.

They occur at every stage up to `partition`.

%0, %1 = "sched.attention"(%q, %k, %v) <{factors = "h t d, h s d, h s e -> h t e, h t", positions = ["t", "s"],
zero_empty = false}> ({
^bb0(%score: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
  ...
  stablehlo.return %masked : tensor<f32>
}, { ^bb0(%share: tensor<f32>, %t: tensor<i32>, %s: tensor<i32>):
  ...
  stablehlo.return %rounded : tensor<bf16>
}) : (...) -> (tensor<8x64x128xbf16>, tensor<8x64xf32>)
"""

from __future__ import annotations

from meshgen.mlir.fields import flag, number, string, strings
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes
from meshgen.mlir.stablehlo.fields import precisions
from meshgen.mlir.text_operation import define
from meshgen.ops.factors import FORWARD, KEY_GRADIENT, QUERY_GRADIENT

_FIELDS = (
    string("factors", "factors"),
    strings("positions", "positions"),
    precisions(),
    precisions(prop="value_precision_config", attr="value_precision"),
    flag("zero_empty", "zero_empty", is_required=True),
)
_OF_GRADIENTS = (
    *_FIELDS,
    precisions(prop="gradient_precision_config", attr="gradient_precision"),
    number("row_keys", "row_keys", default=0),
)
# The first region computes on a score, the second on a probability (the softmax of the scores).
# Gradients have a third region: the derivative of the first.
PART = as_nodes(
    *define(GenericOperation, "sched", {"3.. -> 2 {n -> 1} {n -> 1}": FORWARD}, FIELDS=_FIELDS),
    *define(GenericOperation, "sched", {
        "6.. -> 1 {n -> 1} {n -> 1} {1+n -> 1}": QUERY_GRADIENT,
        "6.. -> 2 {n -> 1} {n -> 1} {1+n -> 1}": KEY_GRADIENT,
    }, FIELDS=_OF_GRADIENTS),
)  # fmt: skip
