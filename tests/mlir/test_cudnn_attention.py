"""Tests of cuDNN attention calls: results and gradients match JAX's attention, and unsupported calls are refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.graph import Graph
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate

jax = pytest.importorskip("jax")
jnp = jax.numpy
B, T, S, N, D = 2, 8, 12, 4, 16
E = D  # the depth of values equals that of keys, as in JAX
GROUPED = {"heads": 2}
CASES: dict[str, dict[str, Any]] = {
    "no mask": {},
    "causal": {"mask": "CAUSAL", **GROUPED},
    "window": {"mask": "CAUSAL", "window": 3},
    "lengths": {"mask": "PADDING", "lengths": ((8, 5), (12, 7))},
    "causal lengths": {"mask": "PADDING_CAUSAL", "lengths": ((6, 8), (9, 12)), **GROUPED},
    "bias": {"bias": (1, N, T, S)},
    "bias per batch": {"bias": (B, 1, 1, S), "mask": "CAUSAL", **GROUPED},
    "heads first": {"mask": "CAUSAL", "heads_first": True, **GROUPED},
}


def config(*, is_gradient: bool, heads_first: bool = False, mask: str = "NO_MASK", window: int = 0, **more: Any) -> str:
    """Return the backend configuration of a call as JAX writes it, without fields that the importer ignores."""
    heads = ["0", "1"] if heads_first else ["0", "2"]
    gemm = "bmm2_grad_gemm2" if is_gradient else "bmm1"
    dims = {"bmm1_grad_gemm1_dot_dimension_numbers": {}} if is_gradient else {}
    fields = {"fmha_scale": 0.3, "mask_type": mask, "sliding_window_length": window, **dims, **more}
    fields[f"{gemm}_dot_dimension_numbers"] = {"rhs_batch_dimensions": heads}
    return json.dumps({"cudnn_fmha_backend_config": fields}).replace('"', "\\22")


def wide(*sizes: int, dtype: str = "bf16") -> str:
    return f"tensor<{'x'.join(map(str, sizes))}x{dtype}>"


def program(
    *, heads: int = N, bias: tuple[int, ...] = (), lengths: Any = (), heads_first: bool = False, **options: Any
) -> str:
    """Return a program with an attention call and the call that computes its gradients.

    Arguments are queries, keys, values, the gradient of the result, and optionally the bias and the lengths.
    """

    def rows(count: int, heads: int, width: int) -> str:
        return wide(B, *((heads, count) if heads_first else (count, heads)), width)

    kinds = [rows(T, N, D), rows(S, heads, D), rows(S, heads, E), rows(T, N, E)]
    extra_types = [*([wide(*bias)] if bias else []), *([wide(B, dtype="i32")] * (2 if lengths else 0))]
    names = [f"%a{n}" for n in range(len(extra_types))]
    first = 1 if bias else 0
    word = "ScaleBiasSoftmax" if bias else "Softmax"
    out, stats, none = wide(B, N, T, E), wide(B, N, T, dtype="f32"), "tensor<0xui8>"
    gradient_types = [
        wide(B, N, T, D),
        wide(B, heads, S, D),
        wide(B, heads, S, E),
        *([wide(*bias)] if bias else []),
        none,
    ]
    texts = [config(is_gradient=flag, heads_first=heads_first, **options) for flag in (False, True)]
    result = "%o#0" if heads_first else "%t"
    transpose_line = (
        "" if heads_first else f"%t = stablehlo.transpose %o#0, dims = [0, 2, 1, 3] : ({out}) -> {kinds[3]}"
    )
    arguments = ", ".join(
        f"{name}: {kind}" for name, kind in zip(("%q", "%k", "%v", "%d", *names), (*kinds, *extra_types), strict=True)
    )
    gradient_operands = ["%q", "%k", "%v", "%o#1", "%d", *names[:first], result, *names[first:]]
    types = [*kinds[:3], stats, kinds[3], *extra_types[:first], kinds[3], *extra_types[first:]]
    results = ", ".join([out, *gradient_types[:3]])
    return f"""func.func @main({arguments}) -> ({results}) {{
      %o:3 = stablehlo.custom_call @__cudnn$fmha{word}({", ".join(("%q", "%k", "%v", *names))}) {{backend_config = "{texts[0]}"}}
        : ({", ".join((*kinds[:3], *extra_types))}) -> ({out}, {stats}, {none})
      {transpose_line}
      %g:{len(gradient_types)} = stablehlo.custom_call @__cudnn$fmha{word}Backward({", ".join(gradient_operands)}) {{backend_config = "{texts[1]}"}}
        : ({", ".join(types)}) -> ({", ".join(gradient_types)})
      return %o#0, %g#0, %g#1, %g#2 : {results}
    }}"""


def expected(args: list[Any], *, lengths: Any = (), bias: Any = (), mask: str = "NO_MASK", window: int = 0,
             heads_first: bool = False, **_: Any) -> list[Any]:  # fmt: skip
    """Return the results and gradients that JAX computes without cuDNN. The head dim precedes the row dim."""
    q, k, v, d, *extras = ((jnp.swapaxes(x, 1, 2) if heads_first and x.ndim == 4 else x) for x in args)
    options: dict[str, Any] = {"is_causal": "CAUSAL" in mask, "scale": 0.3, "implementation": "xla"}
    if bias:
        options["bias"] = jnp.broadcast_to(extras[0], (extras[0].shape[0], N, T, S))
    if lengths:
        options |= dict(zip(("query_seq_lengths", "key_value_seq_lengths"), extras[-2:], strict=True))
    if window:
        options["local_window_size"] = (window - 1, 0)
    out, gradients_of = jax.vjp(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **options), q, k, v)
    valid = jnp.arange(T) < (jnp.array(lengths[0]) if lengths else jnp.full(B, T))[:, None]
    results = [jnp.where(valid[..., None, None], out, 0), *gradients_of(jnp.where(valid[..., None, None], d, 0))]
    return [np.asarray(jnp.swapaxes(x, 1, 2), np.float64) for x in results]


def arguments(graph: Graph, lengths: Any) -> list[Any]:
    random, remaining_lengths = np.random.default_rng(0), [*lengths]
    return [
        jnp.asarray(remaining_lengths.pop(0), "int32") if value.type.dtype == "i32" else jnp.asarray(random.standard_normal(value.type.sizes), "bfloat16")
        for value in graph.inputs
    ]  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cudnn_call_matches_jax_attention_and_gradients(name: str) -> None:
    options = CASES[name]
    graph = parse_text(program(**options)).graph
    assert [n.op for n in graph.nodes if "attention" in n.op] == [
        "attention",
        "attention_gradient_queries",
        "attention_gradient_keys",
    ]
    args = arguments(graph, options.get("lengths", ()))
    results = evaluate(graph, [np.asarray(arg) for arg in args])
    for result, reference in zip(results, expected(args, **options), strict=True):
        np.testing.assert_allclose(
            result.astype(np.float64), reference, rtol=2**-6, atol=2**-6 * np.abs(reference).max()
        )


def faulty(text: str, code: str) -> list[str]:
    with pytest.raises(ProgramError) as error:
        parse_text(text)
    assert {fault.code for fault in error.value.diagnostics} == {code}
    return [fault.message for fault in error.value.diagnostics]


@pytest.mark.parametrize(
    "more", [{"dropout_rate": 0.1}, {"max_seg_per_batch": 2}, {"is_paged_attention": True}, {"mask": "ALIBI"}]
)
def test_unsupported_cudnn_option_is_refused(more: dict[str, Any]) -> None:
    assert all(
        "without dropout, paged keys and packed sequences" in message for message in faulty(program(**more), "MG0103")
    )


@pytest.mark.parametrize(("before", "after"), [
    ('\\22fmha_scale\\22: 0.3', '\\22fmha_scale\\22: \\22x\\22'),
    ('\\22fmha_scale\\22: 0.3', '\\22fmha_scale\\22: NaN'),
    ('\\22fmha_scale\\22: 0.3', f"\\22fmha_scale\\22: {10**400}"),
    ('\\22sliding_window_length\\22: 0', f"\\22sliding_window_length\\22: {1 << 40}"),
    ('\\22fmha_scale\\22: 0.3', "["),
    ("[\\220\\22, \\222\\22]", "[\\220\\22]"),
    (wide(B, S, N, E), wide(B, S + 1, N, E)),
    (wide(B, S, N, D), wide(B, S, 3, D)),
    (wide(B, N, T, E), wide(B, N, T, E, dtype="f32")),
    (wide(B, N, T, dtype="f32"), wide(B, N, dtype="f32")),
    ("(%q, %k, %v)", "(%q, %k)"),
])  # fmt: skip
def test_malformed_cudnn_call_is_refused(before: str, after: str) -> None:
    text = program()
    assert before in text
    with pytest.raises(ProgramError):
        parse_text(text.replace(before, after))


def test_used_bias_gradient_is_refused() -> None:
    text = program(bias=(1, N, T, S))
    used = text.replace("return %o#0", f"%z = stablehlo.negate %g#3 : {wide(1, N, T, S)}\n      return %o#0")
    assert faulty(used, "MG0103") == [
        "@__cudnn$fmhaScaleBiasSoftmaxBackward: has the gradient of a bias as a result, which is not supported"
    ]
