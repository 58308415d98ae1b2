"""Signatures of operations of arith, math, index and affine whose definitions in xDSL leave some of it open; `operation_signature.py` has the notation."""

from __future__ import annotations

from meshgen.mlir.operation_signature import signatures_of

FLAGS = "fastmath?: any, overflowFlags?: any, roundingmode?: string|integer"  # fast-math and overflow flags are ignored
SIGNATURES = (
    signatures_of("arith", {
        "0 -> 1 <value: number|elements>": "constant",
        f"1 -> 1 <{FLAGS}>": "bitcast",
        f"1 float -> 1 float <{FLAGS}>": "extf negf truncf",
        f"1 float -> 1 integer <{FLAGS}>": "fptosi fptoui",
        f"1 integer -> 1 float <{FLAGS}>": "sitofp uitofp",
        f"1 integer -> 1 integer <{FLAGS}>": "extsi extui index_cast index_castui trunci",
        f"2 float -> 1 <{FLAGS}>": "addf divf maximumf maxnumf minimumf minnumf mulf remf subf",
        f"2 integer -> 1 <{FLAGS}>": "addi andi ceildivsi ceildivui divsi divui floordivsi maxsi maxui minsi minui muli ori remsi remui shli "
        "shrsi shrui subi xori",
        f"2 float -> 1 <predicate: string|integer, {FLAGS}>": "cmpf",
        f"2 integer -> 1 <predicate: string|integer, {FLAGS}>": "cmpi",
        f"2 integer -> 2 <{FLAGS}>": "addui_extended mulsi_extended mului_extended",
        f"3 -> 1 <{FLAGS}>": "select",
    })
    | signatures_of("math", {
        f"1 float -> 1 <{FLAGS}>": "absf acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 floor isfinite isinf isnan "
        "isnormal log log10 log1p log2 round roundeven rsqrt sin sinh sqrt tan tanh trunc",
        f"1 float -> 2 <{FLAGS}>": "sincos",
        f"1 integer -> 1 <{FLAGS}>": "absi ctlz ctpop cttz",
        f"2 -> 1 float <{FLAGS}>": "fpowi",
        f"2 float -> 1 <{FLAGS}>": "atan2 copysign powf",
        f"2 integer -> 1 <{FLAGS}>": "ipowi",
        f"3 float -> 1 <{FLAGS}>": "clampf fma",
    })
    | signatures_of("index", {
        "0 -> 1 integer <value: integer>": "constant bool.constant",
        f"1 integer -> 1 integer <{FLAGS}>": "casts castu",
        f"2 integer -> 1 <{FLAGS}>": "add and ceildivs ceildivu divs divu floordivs maxs maxu mins minu mul or rems remu shl shrs shru sub xor",
        f"2 integer -> 1 <predicate: string|integer, {FLAGS}>": "cmp",
    })
    | signatures_of("affine", {"n -> 1 <map: map(n)>": "apply max min"})
)  # fmt: skip
