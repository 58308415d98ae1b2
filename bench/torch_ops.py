"""`python -m bench.torch_ops [NAME ...]`: samples of PyTorch's OpInfo database on the reference engine, with a score.

Each sample is a call of one operator with arguments from PyTorch's own tests. The program is the exported call, or with
`--gradients` the `make_fx` trace of its `torch.func.vjp`. It runs on one device, and on two devices that split the
first dim of each tensor. Both results are compared with torch's. NAMES select the operators whose names contain one of
them.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import meshgen as mg
from meshgen.api import read
from meshgen.calls.arrays import plain_array
from meshgen.errors import MeshgenError
from meshgen.frontend.torch.recognition import is_module
from meshgen.ops.evaluate.evaluator import evaluate

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

# Operators whose results cannot be compared: the reason, and their names in the database.
EXCLUDED = {
    "the numbers are random": (
        "bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "normal", "normal.number_mean", "rand_like", "randint",
        "randint_like", "randn", "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout", "nn.functional.dropout2d",
        "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train", "nn.functional.fractional_max_pool2d",
        "nn.functional.fractional_max_pool3d", "nn.functional.rrelu", "pca_lowrank", "svd_lowrank",
    ),
    "the numbers are uninitialized memory": (
        "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    ),
    "eigenvectors and singular vectors are unique up to a factor, and the samples have equal eigenvalues": (
        "linalg.eig", "linalg.eigh", "linalg.svd", "svd",
    ),
}  # fmt: skip
# For 16-bit floats and integers, rounding or the order of equal elements selects between results that are far apart.
TIES = "equal elements, or a rounding at a boundary, choose between results that are far apart"
TIED = (
    "argsort",
    "histc",
    "kthvalue",
    "median",
    "nanmedian",
    "mode",
    "msort",
    "nn.functional.grid_sample",
    "sort",
    "topk",
)
# Documented limits, each with a pattern of the error messages for it.
DOCUMENTED = {
    "the size of the result is data": r"the size of .* is data|data-dependent|Could not guard",
    "a number of Python is made of a tensor": r"converts a tensor, which is data, to a Python number",
    "random numbers are drawn": r"draws random numbers",
    "torch exports no such program": r"torch\.export",
}
RELATIVE = {
    "f": 1e-4,
    "c": 1e-4,
}  # relative tolerances; torch itself has such errors from other summation orders, functions with errors of 4 ulp, and inverses of small matrices


@dataclass(frozen=True)
class Outcome:
    """The result of a sample, on one device and on two: `same`, `refused`, `crashed`, `differs`, or `not run` if torch
    cannot run the sample.
    """

    op: str
    sample: int
    verdict: str
    text: str = ""
    split: str = "not run"
    split_text: str = ""


def operators(names: Sequence[str]) -> list[Any]:
    """Return the operators of the database that can be compared and whose names contain one of `names`."""
    from torch.testing._internal.common_methods_invocations import op_db

    excluded = {name for group in EXCLUDED.values() for name in group}
    chosen = [op for op in op_db if not names or any(name in title(op) for name in names)]
    return [op for op in chosen if title(op) not in excluded]


def title(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def outcomes(op: Any, dtype: str, samples: int, gradients: bool) -> Iterator[Outcome]:
    """Yield the outcomes of evenly spaced samples of an operator, in the order of the database."""
    import torch

    torch_dtype = getattr(torch, dtype)
    if torch_dtype not in op.dtypes or (gradients and not (op.supports_autograd and torch_dtype in op.backward_dtypes)):
        return
    torch.manual_seed(0)
    inputs = list(op.sample_inputs("cpu", torch_dtype, requires_grad=False))
    for index in sorted({round(position) for position in np.linspace(0, len(inputs) - 1, min(samples, len(inputs)))}):
        outcome = _outcome(op, index, inputs[index], gradients)
        yield outcome


def _outcome(op: Any, index: int, sample: Any, gradients: bool) -> Outcome:
    import torch

    function, tensors = _function_of(op, sample)
    if gradients:
        function, tensors = _gradient_of(function, tensors)
    try:
        expected = [_array(tensor) for tensor in _tensors_in(function(*tensors))]
        program = _recorded(function, tensors) if gradients else torch.export.export(_module(function), tuple(tensors))
    except Exception as error:
        return Outcome(title(op), index, "not run", _first_line(error))
    if not expected or not tensors:
        return Outcome(title(op), index, "not run", "the sample has no tensor among its arguments or results")
    try:
        return Outcome(title(op), index, *_verdict(program, tensors, expected))
    except MeshgenError as error:
        return Outcome(title(op), index, "refused", error.diagnostics[0].message)
    except Exception as error:
        return Outcome(title(op), index, "crashed", _first_line(error))


def _verdict(program: Any, tensors: Sequence[Any], expected: list[Array]) -> tuple[str, str, str, str]:
    """Run a program on one device, then on two. Return verdict and message of the first run, then of the second."""
    module, signature = read(program, args=tuple(tensors) if is_module(program) else None)
    operands = iter(tensors)
    arguments = [
        np.asarray(signature.weights[value.name]) if value.name in signature.weights else plain_array(next(operands))
        for value in module.graph.inputs
    ]
    text = _difference(evaluate(module.graph, arguments), expected)
    if text:
        return "differs", text, "not run", ""
    specs = [mg.P("d") if array.ndim and array.shape[0] > 1 else None for array in arguments]
    if not any(specs):
        return "same", "", "not run", ""
    try:
        results = mg.compile(module, {"d": 2}, in_specs=specs, target="cpu")(*arguments)
    except MeshgenError as error:
        return "same", "", "refused", error.diagnostics[0].message
    except Exception as error:
        return "same", "", "crashed", _first_line(error)
    text = _difference(list(results) if isinstance(results, tuple | list) else [results], expected)
    return "same", "", "differs" if text else "same", text


def _function_of(op: Any, sample: Any) -> tuple[Function, list[Any]]:
    """Return a function that calls the operator on the tensors of `sample`, and these tensors."""
    import torch

    leaves, tree = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]

    def call(*tensors: Any) -> Any:
        rest = iter(tensors)
        filled = [next(rest) if is_operand else leaf for is_operand, leaf in zip(is_tensor, leaves, strict=True)]
        first, args, kwargs = torch.utils._pytree.tree_unflatten(filled, tree)
        return op.op(first, *args, **kwargs)

    return call, [leaf.detach() for leaf, is_operand in zip(leaves, is_tensor, strict=True) if is_operand]


def _gradient_of(function: Function, tensors: Sequence[Any]) -> tuple[Function, list[Any]]:
    """Return a function that computes the gradients of `function`, and its operands: `tensors` and random cotangents."""
    import torch

    def has_gradient(tensor: Any) -> bool:
        return isinstance(tensor, torch.Tensor) and (tensor.is_floating_point() or tensor.is_complex())

    float_flags = [has_gradient(tensor) for tensor in tensors]
    floats = [tensor for tensor, is_float in zip(tensors, float_flags, strict=True) if is_float]
    nonfloats = [tensor for tensor, is_float in zip(tensors, float_flags, strict=True) if not is_float]

    def results(floats: Sequence[Any], nonfloats: Sequence[Any]) -> list[Any]:
        first, second = iter(floats), iter(nonfloats)
        result = function(*(next(first if is_float else second) for is_float in float_flags))
        return [tensor for tensor in torch.utils._pytree.tree_leaves(result) if has_gradient(tensor)]

    like = []
    # if the function raises an exception, it raises the same one later, where its results are computed
    with suppress(Exception):
        like = [torch.randn_like(tensor) for tensor in results(floats, nonfloats)]

    def gradients(*given: Any) -> Any:
        inside, rest = given[: len(floats)], given[len(floats) : len(tensors)]
        _, vjp = torch.func.vjp(lambda *xs: results(xs, rest), *inside)
        return vjp(list(given[len(tensors) :]))

    return gradients, [*floats, *nonfloats, *like]


def _recorded(function: Function, tensors: Sequence[Any]) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(*tensors)


def _module(function: Function) -> Any:
    import torch

    return type("Call", (torch.nn.Module,), {"forward": lambda _, *tensors: function(*tensors)})()


def _tensors_in(result: Any) -> list[Any]:
    import torch

    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _array(tensor: Any) -> Array:
    return plain_array(tensor.resolve_conj().resolve_neg())


def _difference(results: Sequence[Any], expected: Sequence[Array]) -> str:
    """Return a description of the differences, or "" if all results are equal within the tolerances of their dtypes."""
    if len(results) < len(expected):
        return f"{len(results)} results instead of {len(expected)}"
    return "; ".join(text for pair in zip(results, expected, strict=False) if (text := difference_of_one(*pair)))


def difference_of_one(result: Any, expected: Array, least: float = 0.0) -> str:
    """Return how a result differs from `expected`, or "". The relative tolerance is the larger of `least` and the
    tolerance of the dtype.
    """
    result = np.asarray(result)
    if (result.shape, result.dtype) != (expected.shape, expected.dtype):
        return f"{result.dtype}{list(result.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if result.dtype.kind in "iub":
        return "" if np.array_equal(result, expected) else "whole numbers differ"
    kind = result.dtype.kind
    is_wide = kind in RELATIVE and result.dtype.itemsize > 2
    relative = max(RELATIVE[kind] if is_wide else 4 * float(ml_dtypes.finfo(result.dtype).eps), least)
    wide = np.complex128 if kind == "c" else np.float64
    left, right = result.astype(wide), expected.astype(wide)
    finite = np.abs(right[np.isfinite(right)])
    largest = float(finite.max(initial=0.0))
    absolute = max(relative * min(1.0, largest), relative / 100 * largest, least * max(1.0, largest))
    if np.allclose(left, right, relative, absolute, equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        return f"differs by {np.nanmax(np.abs(left - right), initial=0):.3g}"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160]


def reason(outcome: Outcome) -> str:
    """Return why a sample is refused: a documented limit, or else the error message without numbers and names of
    values.
    """
    text = outcome.text if outcome.verdict == "refused" else outcome.split_text
    for why, pattern in DOCUMENTED.items():
        if re.search(pattern, text):
            return why
    return re.sub(
        r"'[^']*' was read", "a result was read", re.sub(r"\b\d+\b", "n", re.sub(r"\[[^\]]*\]|\([^)]*\)", "[..]", text))
    )


def is_tie(op: str, dtype: str) -> bool:
    return dtype not in ("float32", "float64") and op in TIED


def summary(all_outcomes: Sequence[Outcome], heading: str) -> str:
    """Return the numbers of samples and operators by verdict as a Markdown table. Below it are the refused and the
    wrong samples, by reason.
    """
    run = [outcome for outcome in all_outcomes if outcome.verdict != "not run"]
    by_op = defaultdict[str, set[str]](set)
    for outcome in run:
        by_op[outcome.op].add(outcome.verdict)
    right_in_all = sum(verdicts == {"same"} for verdicts in by_op.values())
    right_in_some = sum("same" in verdicts for verdicts in by_op.values()) - right_in_all
    rows = [
        f"## {heading}",
        "",
        "| | same | refused | crashed | differs | all |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, verdicts in (
        ("samples", [e.verdict for e in run]),
        ("split over 2", [e.split for e in run if e.split != "not run"]),
    ):
        counts = Counter(verdicts)
        rows.append(
            f"| {name} | {counts['same']} | {counts['refused']} | {counts['crashed']} | {counts['differs']} | {len(verdicts)} |"
        )
    share = f"{100 * right_in_all / max(len(by_op), 1):.1f} %"
    rows += [
        "",
        f"Of {len(by_op)} operators {right_in_all} ({share}) are right in all samples, {right_in_some} in some; of {len(all_outcomes) - len(run)} samples there is no program or no result of torch's.",
    ]
    return "\n".join([*rows, *_listed(run)])


def _listed(run: Sequence[Outcome]) -> Iterator[str]:
    """Yield a line for each reason of refusals, and a line for each sample that is wrong or crashes."""
    refused = defaultdict[str, list[str]](list)
    for outcome in run:
        if "refused" in (outcome.verdict, outcome.split):
            refused[reason(outcome)].append(outcome.op)
    if refused:
        yield from ("", "| samples refused | reason | operators |", "| --- | --- | --- |")
    for why, ops in sorted(refused.items(), key=lambda row: (-len(row[1]), row[0])):
        yield f"| {len(ops)} | {why.replace('|', '/')} | {', '.join(f'`{op}`' for op in sorted(set(ops)))} |"
    bad = [outcome for outcome in run if {outcome.verdict, outcome.split} & {"crashed", "differs"}]
    if bad:
        yield ""
    for outcome in bad:
        yield f"- `{outcome.op}`, sample {outcome.sample}: {outcome.verdict}; {outcome.text or outcome.split_text}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.torch_ops", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of operators")
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "int64", "bfloat16", "complex64"])
    parser.add_argument("--samples", type=int, default=3, help="samples of each operator")
    parser.add_argument("--gradients", action="store_true", help="record gradients with make_fx")
    parser.add_argument("--verbose", action="store_true", help="print each outcome that is not `same`")
    return parser


def main() -> int:
    options = _parser().parse_args()
    warnings.simplefilter("ignore")
    all_outcomes: list[Outcome] = []
    for op in operators(options.names):
        if is_tie(title(op), options.dtype):
            continue
        for outcome in outcomes(op, options.dtype, options.samples, options.gradients):
            all_outcomes.append(outcome)
            if options.verbose and (outcome.verdict != "same" or outcome.split not in ("same", "not run")):
                sys.stderr.write(
                    f"{outcome.op} {outcome.sample}: {outcome.verdict} {outcome.text} / {outcome.split} {outcome.split_text}\n"
                )
    heading = "gradients" if options.gradients else "forward"
    sys.stdout.write(summary(all_outcomes, f"{heading}, {options.dtype}, {options.samples} samples an operator") + "\n")
    return int(any({outcome.verdict, outcome.split} & {"crashed", "differs"} for outcome in all_outcomes))


if __name__ == "__main__":
    sys.exit(main())
