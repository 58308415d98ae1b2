"""The records of element-wise ops. Their text form is in `mlir/stablehlo/elementwise.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.ir.attributes.elementwise import Compare, ReducePrecision
from meshgen.ir.graph import Node
from meshgen.ops import special_functions as special
from meshgen.ops.evaluate import complex_functions
from meshgen.ops.evaluate import elementwise as means
from meshgen.ops.evaluate.common import Array, bits
from meshgen.ops.op import NO_KERNEL, Domain, Flops, Kernel, Op, RuleOf, Trait, no_flops, per_result
from meshgen.ops.rules import elementwise as rules
from meshgen.ops.tolerance import elementwise as errors
from meshgen.ops.tolerance.functions import (
    between_poles,
    bounded_slope,
    gamma_error,
    inverse_root,
    monotone,
    special_error,
    tangent,
    within,
)
from meshgen.ops.tolerance.tracked import Rule as ErrorRule
from meshgen.ops.tolerance.tracked import Tracked
from meshgen.ops.triton import expressions as triton
from meshgen.ops.triton.expressions import helper, in_f64, plain
from meshgen.ops.triton.registers import Code, Expression, Made, register_type
from meshgen.ops.types import elementwise as types
from meshgen.ops.types.site import Inference

Function = Callable[..., Any]
Error = Callable[[Tracked], Array]
_TRAITS = frozenset((Trait.ELEMENTWISE, Trait.BROADCASTS))
EXPENSIVE, DISCONTINUOUS, POLES, TYPED = Trait.EXPENSIVE, Trait.DISCONTINUOUS, Trait.POLES, Trait.TYPED
ANY, BY_COUNT = (Domain.ANY,), (Domain.ANY, Domain.COUNT)
POSITIVE, FROM_ONE, FROM_TWO, WITHIN_ONE = Domain.POSITIVE, Domain.FROM_ONE, Domain.FROM_TWO, Domain.WITHIN_ONE


def _op(name: str, operands: int, infer: Inference, evaluate: means.Handler, error: ErrorRule | None, rule: RuleOf,
        kernel: Expression | None, *traits: Trait, flops: Flops = per_result, **fields: Any) -> Op:  # fmt: skip
    kernel_record = Kernel("expression", kernel) if kernel else NO_KERNEL
    return Op(name=name, operands=operands, types=infer, evaluate=evaluate, error=error, rule=rule, kernel=kernel_record, flops=flops,
              traits=_TRAITS | set(traits), **fields)  # fmt: skip


def _function(name: str, function: Function, error: Error, kernel: Expression | None = None, *traits: Trait,
              of: str = "inexact", domain: Domain = Domain.ANY, computed: Callable[[Array, Array], Array] | None = None) -> Op:  # fmt: skip
    """Return the record of a unary function with rounded results.

    Args:
        of: the class of element types that it accepts.
        computed: the error of the implementation itself (see `errors.function`).
    """
    return _op(name, 1, types.unary(of), means.of_numbers(function), errors.function(error, computed), rules.WHOLE, kernel, *traits,
               domains=(domain,))  # fmt: skip


def _step_function(name: str, function: Function, error: Function, kernel: Expression, of: str = "float") -> Op:
    """Return the record of a unary function with exact results."""
    return _op(name, 1, types.unary(of), means.of_numbers(function), errors.step(monotone(error)), rules.WHOLE, kernel, DISCONTINUOUS,
               domains=ANY)  # fmt: skip


def _binary(name: str, of: str, function: Function, error: ErrorRule | None, rule: RuleOf = rules.WHOLE,
            kernel: Expression | None = None, *traits: Trait, domains: tuple[Domain, Domain] = (Domain.ANY, Domain.ANY)) -> Op:  # fmt: skip
    return _op(name, 2, types.binary(of), means.of_numbers(function), error, rule, kernel, *traits, domains=domains)


def _bits(name: str, evaluate: means.OfNode, kernel: Expression) -> Op:
    return _op(name, 1, types.unary("integer"), means.of_node(evaluate), None, rules.WHOLE, kernel, TYPED, domains=ANY)


def _shift(name: str, kernel: Expression, *, arithmetic: bool = False, left: bool = False) -> Op:
    evaluate = means.shift(arithmetic=arithmetic, left=left)
    return _op(name, 2, types.binary("integer"), evaluate, None, rules.WHOLE, kernel, TYPED, domains=BY_COUNT)


def _arcsine_parts(z: Array) -> Array:
    """Return cos(a) cosh(b) + i |b| for asin(z) = a + ib, which `asin` and `acos` share."""
    arcsine: Array = np.arcsin(z)
    return np.cos(arcsine.real) * np.cosh(arcsine.imag) + 1j * np.abs(arcsine.imag)


def _high_half(node: Node, args: list[Array]) -> Array:
    """Return the upper half of the bits of the double-width product of two integers.

    A 64-bit product is computed from 32-bit halves.
    """
    dtype = node.result.type.dtype
    if (width := bits(dtype)) < 64:
        wide = np.uint64 if dtype.startswith("u") else np.int64
        return (args[0].astype(wide) * args[1].astype(wide)) >> wide(width)
    x, y = (arg.astype(np.uint64) for arg in args)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    middle = (x >> half) * (y & low) + ((x & low) * (y & low) >> half)
    cross = (x & low) * (y >> half) + (middle & low)
    upper = (x >> half) * (y >> half) + (middle >> half) + (cross >> half)
    if dtype == "i64":  # A negative number equals its unsigned interpretation minus 2^64.
        upper -= np.where(args[0] < 0, y, 0).astype(np.uint64) + np.where(args[1] < 0, x, 0).astype(np.uint64)
    return upper


def _high_half_source(node: Node, args: Sequence[Code]) -> Made:
    dtype = node.result.type.dtype
    if (width := bits(dtype)) == 64:
        name = "high_half_unsigned" if dtype.startswith("u") else "high_half"
        return f"{name}({', '.join(arg.text for arg in args)})", (name,)
    wide = "tl.uint64" if dtype.startswith("u") else "tl.int64"
    x, y = (f"{arg.text}.to({wide})" for arg in args)
    return f"(({x} * {y}) >> {width}).to({register_type(dtype)})", ()


FUNCTIONS = (
    _function("exponential", np.exp, monotone(np.exp), helper("accurate_exp", of_f64="tl.exp", of_narrow="tl.exp"), EXPENSIVE, TYPED),
    _function("exponential_minus_one", np.expm1, monotone(np.expm1), helper("accurate_expm1", of_f64="expm1", of_narrow="expm1"), EXPENSIVE, TYPED),
    _function("log", np.log, monotone(np.log), plain("tl.log({0})"), EXPENSIVE, POLES, domain=POSITIVE),
    _function("log_plus_one", complex_functions.log_plus_one, monotone(np.log1p), helper("log1p"), EXPENSIVE, POLES, domain=POSITIVE),
    _function("logistic", complex_functions.logistic, monotone(lambda x: 1 / (1 + np.exp(-x))), helper("accurate_logistic", of_f64="tl.sigmoid", of_narrow="narrow_logistic"), EXPENSIVE, TYPED),
    _function("tanh", np.tanh, monotone(np.tanh), helper("tanh_f32", of_f64="tanh_f64"), EXPENSIVE),
    _function("sqrt", np.sqrt, monotone(lambda x: np.sqrt(np.maximum(x, 0))), helper("square_root", of_f64="tl.sqrt"), TYPED, domain=POSITIVE),
    _function("rsqrt", means.rsqrt, monotone(inverse_root), helper("inverse_root", of_f64="tl.rsqrt"), POLES, TYPED, domain=POSITIVE),
    _function("cbrt", means.cbrt, monotone(np.cbrt), helper("cbrt"), EXPENSIVE),
    _function("sine", np.sin, bounded_slope, helper("sine", of_f64="tl.sin"), EXPENSIVE, TYPED),
    _function("cosine", np.cos, bounded_slope, plain("tl.cos({0})"), EXPENSIVE),
    _function("tan", np.tan, tangent, triton.tangent, EXPENSIVE, TYPED, POLES),
    _function("sinh", np.sinh, monotone(np.sinh), in_f64("sinh"), EXPENSIVE, TYPED),
    _function("cosh", np.cosh, monotone(np.cosh), in_f64("cosh"), EXPENSIVE, TYPED),
    _function("asin", np.arcsin, within(np.arcsin, -1, 1), in_f64("asin"), EXPENSIVE, TYPED, domain=WITHIN_ONE),
    _function("acos", np.arccos, within(np.arccos, -1, 1), in_f64("acos"), EXPENSIVE, TYPED, domain=WITHIN_ONE),
    _function("asinh", np.arcsinh, monotone(np.arcsinh), in_f64("asinh"), EXPENSIVE, TYPED),
    _function("acosh", np.arccosh, within(np.arccosh, 1, np.inf), in_f64("acosh"), EXPENSIVE, TYPED, domain=FROM_ONE),
    _function("atanh", np.arctanh, within(np.arctanh, -1, 1), in_f64("atanh"), EXPENSIVE, TYPED, POLES, domain=WITHIN_ONE),
    _function("erf", special.erf, monotone(special.erf), helper("error_function", of_f64="tl.erf"), EXPENSIVE, TYPED, of="float"),
    _function("erf_inv", special.erf_inv, within(special.erf_inv, -1, 1), helper("erf_inv", of_f64="erf_inv_f64"), EXPENSIVE, of="float",
              domain=WITHIN_ONE),
    _function("erfc", special.erfc, monotone(special.erfc), helper("erfc_f32", of_f64="erfc_f64"), EXPENSIVE, TYPED, of="float"),
    _function("lgamma", special.lgamma, between_poles(special.lgamma), in_f64("lgamma"), EXPENSIVE, TYPED, POLES, of="float", domain=FROM_ONE,
              computed=gamma_error),
    _function("digamma", special.digamma, between_poles(special.digamma), in_f64("digamma"), EXPENSIVE, TYPED, POLES, of="float", domain=FROM_ONE,
              computed=gamma_error),
    _function("_asin_acos_kernel", _arcsine_parts, within(np.arcsin, -1, 1), of="complex"),
    _function("bessel_i1e", special.bessel_i1e, bounded_slope, in_f64("bessel_i1e"), EXPENSIVE, TYPED, of="float", computed=special_error),
)  # fmt: skip

STEPS = (
    _step_function("floor", np.floor, np.floor, plain("tl.floor({0})")),
    _step_function("ceil", np.ceil, np.ceil, plain("tl.ceil({0})")),
    _step_function("round_nearest_even", np.rint, np.rint, triton.round_even),
    _step_function(
        "round_nearest_afz", means.round_away, lambda x: np.trunc(x + np.copysign(0.5, x)), helper("round_away")
    ),
    _step_function("sign", means.sign, np.sign, triton.sign, of="number"),
)

PARTS = (
    _op(
        "abs",
        1,
        types.part("number"),
        means.of_numbers(np.abs),
        errors.magnitude,
        rules.WHOLE,
        plain("tl.abs({0})"),
        domains=ANY,
    ),
    _op(
        "negate",
        1,
        types.unary("number"),
        means.of_numbers(np.negative),
        errors.negated,
        rules.FIRST,
        triton.negate,
        domains=ANY,
    ),
    _op("real", 1, types.part("inexact"), means.of_numbers(np.real), errors.parts, rules.FIRST, None),
    _op("imag", 1, types.part("inexact"), means.of_numbers(np.imag), errors.parts, rules.FIRST, None),
    _op("complex", 2, types.complex_number, means.of_node(means.complex_number), errors.parts, rules.TOGETHER, None),
)

ARITHMETIC = (
    _binary("add", "any", np.add, errors.add, rules.TOGETHER, plain("{0} + {1}", of_bits="{0} | {1}")),
    _binary("subtract", "number", np.subtract, errors.add, rules.TOGETHER, plain("{0} - {1}")),
    _binary("multiply", "any", np.multiply, errors.multiply, rules.PRODUCT, plain("{0} * {1}", of_bits="{0} & {1}")),
    _binary("divide", "number", means.divide, errors.divide, rules.divide, triton.divide, POLES, domains=BY_COUNT),
    _binary("remainder", "real", means.remainder, errors.remainder, rules.WHOLE, triton.remainder, DISCONTINUOUS, TYPED, domains=BY_COUNT),
    _binary("power", "number", means.power, errors.power, rules.WHOLE, triton.power, EXPENSIVE, TYPED,
            domains=(POSITIVE, Domain.COUNT)),
    _binary("maximum", "ordered", np.maximum, errors.extreme, rules.of_kind("max"), triton.extremum("maximum", "|"), TYPED),
    _binary("minimum", "ordered", np.minimum, errors.extreme, rules.of_kind("min"), triton.extremum("minimum", "&"), TYPED),
    _binary("and", "logical", np.bitwise_and, errors.logical(False), rules.of_kind("and"), plain("{0} & {1}")),
    _binary("or", "logical", np.bitwise_or, errors.logical(True), rules.of_kind("or"), plain("{0} | {1}")),
    _binary("xor", "logical", np.bitwise_xor, errors.logical(None), rules.of_kind("xor"), plain("{0} ^ {1}")),
    _binary("atan2", "inexact", complex_functions.arc_tangent, errors.atan2, rules.WHOLE,
            helper("arc_tangent", of_f64="arc_tangent_f64"), EXPENSIVE, domains=BY_COUNT),
    _binary("polygamma", "float", special.polygamma, errors.polygamma_or_zeta(special.polygamma), rules.WHOLE, in_f64("polygamma"), EXPENSIVE, TYPED, domains=(Domain.COUNT, FROM_ONE)),
    _binary("zeta", "float", special.zeta, errors.polygamma_or_zeta(special.zeta), rules.WHOLE, in_f64("zeta"), EXPENSIVE, TYPED, domains=(FROM_TWO, FROM_ONE)),
    _op("next_after", 2, types.binary("float"), means.of_node(means.next_after), errors.next_after, rules.WHOLE, triton.next_after, DISCONTINUOUS, TYPED,
        domains=(Domain.ANY, Domain.ANY)),
)  # fmt: skip

BITS = (
    _op(
        "not",
        1,
        types.unary("logical"),
        means.of_numbers(means.invert),
        errors.unchanged,
        rules.WHOLE,
        triton.logical_not,
        domains=ANY,
    ),
    _bits("popcnt", means.popcnt, triton.popcnt),
    _bits("count_leading_zeros", means.count_leading_zeros, triton.leading_zeros),
    _op(
        "mulhi",
        2,
        types.binary("integer"),
        means.of_node(_high_half),
        None,
        rules.WHOLE,
        _high_half_source,
        domains=(Domain.ANY, Domain.ANY),
    ),
    _shift("shift_left", triton.shift("<<"), left=True),
    _shift("shift_right_logical", triton.shift(">>")),
    _shift("shift_right_arithmetic", triton.arithmetic_shift, arithmetic=True),
)

CHOICES = (
    _op("compare", 2, types.compare, means.of_node(means.compare), errors.compare, rules.WHOLE, triton.compare, DISCONTINUOUS, TYPED,
        attributes=Compare),
    _op("is_finite", 1, types.is_finite, means.of_numbers(np.isfinite), None, rules.WHOLE, plain('tl.abs({0}) < float("inf")'), DISCONTINUOUS,
        domains=ANY),
    _op("select", 3, types.select, means.of_node(means.choose), errors.select, rules.select, plain("tl.where({0}, {1}, {2})"),
        TYPED, flops=no_flops),
    _op("clamp", 3, types.clamp, means.of_node(means.clamp), errors.clamp, rules.clamp, triton.clamp, TYPED),
)  # fmt: skip

CONVERSIONS = (
    _op("convert", 1, types.convert, means.of_node(means.converted), errors.convert, rules.convert, triton.converted, TYPED,
        flops=no_flops),
    _op("reduce_precision", 1, types.reduce_precision, means.of_node(means.reduce_precision), errors.reduce_precision, rules.WHOLE,
        triton.reduce_precision, DISCONTINUOUS, TYPED, attributes=ReducePrecision),
    Op(name="bitcast_convert", operands=1, types=types.bitcast_convert, evaluate=means.of_node(means.bitcast_convert), error=None,
       rule=rules.bitcast_convert, kernel=Kernel("expression", triton.bitcast), flops=no_flops, traits=frozenset((TYPED,))),
)  # fmt: skip

OPS = (*FUNCTIONS, *STEPS, *PARTS, *ARITHMETIC, *BITS, *CHOICES, *CONVERSIONS)
