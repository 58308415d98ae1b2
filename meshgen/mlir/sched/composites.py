"""Composite operations, printed in generic form: normalization, softmax cross-entropy and scaled dot.

The attribute `factors` names the dims of operands and results in factor notation.

%y, %mean, %variance = "sched.normalize"(%x, %scale) <{factors = "t d, d -> t d, t, t", centered = true, epsilon =
1.0e-05 : f64}>
    : (tensor<8x64xbf16>, tensor<64xbf16>) -> (tensor<8x64xbf16>, tensor<8xf32>, tensor<8xf32>)
"""

from __future__ import annotations

from meshgen.mlir.fields import flag, number, real, string
from meshgen.mlir.stablehlo.base import GenericOperation, as_nodes
from meshgen.mlir.stablehlo.fields import precisions
from meshgen.mlir.text_operation import define

_NORMALIZE = (string("factors", "factors"), flag("centered", "centered", is_required=True))
PART = as_nodes(
    *define(GenericOperation, "sched", {"1..3 -> 2..3": "normalize"}, FIELDS=(*_NORMALIZE, real("epsilon", "epsilon"))),
    *define(GenericOperation, "sched", {"2 -> 2": "softmax_cross_entropy"}, FIELDS=(string("factors", "factors"),)),
    *define(GenericOperation, "sched", {"3.. -> 1": "normalize_gradient"}, FIELDS=_NORMALIZE),
    *define(
        GenericOperation,
        "sched",
        {"3..4 -> 1": "scaled_dot"},
        FIELDS=(string("factors", "factors"), number("bits", "bits", default=0), precisions()),
    ),
)
