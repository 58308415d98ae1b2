"""`python -m bench.torch_ops [NAME ...]`: the samples of PyTorch's OpInfo database against the reference engine, and the score.

Each sample is a call of one operator with arguments that PyTorch's own tests use. The call, or with `--gradients` the record that
`make_fx` makes of its `torch.func.vjp`, is imported; its results are compared with those of torch, on one device and with the first
dim of each tensor split over two. NAMES choose operators by parts of their names.
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
from meshgen.frontend.torch.kinds import is_module
from meshgen.ops.evaluate.evaluator import evaluate

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

# Operators whose results a comparison cannot judge, by their names in the database, and why.
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
# Of 16-bit floats and integers, a rounding or the order of equal elements decides between results that are far apart.
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
# Refusals that are documented limits, by what the message says.
DOCUMENTED = {
    "the size of the result is data": r"the size of .* is data|data-dependent|Could not guard",
    "a number of Python is made of a tensor": r"converts a tensor, which is data, to a Python number",
    "random numbers are drawn": r"draws random numbers",
    "torch exports no such program": r"torch\.export",
}
RELATIVE = {
    "f": 1e-4,
    "c": 1e-4,
}  # of torch's own errors: sums in another order, functions of 4 ulp, small matrices that are inverted


@dataclass(frozen=True)
class Outcome:
    """How a sample went, on one device and split: `same`, `refused`, `crashed`, `differs`, or `not run` where torch cannot run it."""

    op: str
    sample: int
    verdict: str
    text: str = ""
    split: str = "not run"
    split_text: str = ""


def operators(names: Sequence[str]) -> list[Any]:
    """The operators of the database whose names contain one of these, without those that cannot be judged."""
    from torch.testing._internal.common_methods_invocations import op_db

    excluded = {name for group in EXCLUDED.values() for name in group}
    chosen = [each for each in op_db if not names or any(name in title(each) for name in names)]
    return [each for each in chosen if title(each) not in excluded]


def title(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def outcomes(op: Any, dtype: str, samples: int, gradients: bool) -> Iterator[Outcome]:
    """The outcomes of samples of an operator that are evenly apart in the order of the database."""
    import torch

    kind = getattr(torch, dtype)
    if kind not in op.dtypes or (gradients and not (op.supports_autograd and kind in op.backward_dtypes)):
        return
    torch.manual_seed(0)
    given = list(op.sample_inputs("cpu", kind, requires_grad=False))
    for number in sorted({round(each) for each in np.linspace(0, len(given) - 1, min(samples, len(given)))}):
        outcome = _outcome(op, number, given[number], gradients)
        yield outcome


def _outcome(op: Any, number: int, sample: Any, gradients: bool) -> Outcome:
    import torch

    function, tensors = _function_of(op, sample)
    if gradients:
        function, tensors = _gradient_of(function, tensors)
    try:
        wanted = [_array(each) for each in _tensors_in(function(*tensors))]
        program = _recorded(function, tensors) if gradients else torch.export.export(_module(function), tuple(tensors))
    except Exception as error:
        return Outcome(title(op), number, "not run", _first_line(error))
    if not wanted or not tensors:
        return Outcome(title(op), number, "not run", "the sample has no tensor among its arguments or results")
    try:
        return Outcome(title(op), number, *_verdict(program, tensors, wanted))
    except MeshgenError as error:
        return Outcome(title(op), number, "refused", error.diagnostics[0].message)
    except Exception as error:
        return Outcome(title(op), number, "crashed", _first_line(error))


def _verdict(program: Any, tensors: Sequence[Any], wanted: list[Array]) -> tuple[str, str, str, str]:
    """The verdict on one device and what was said, and the same of two."""
    module, signature = read(program, args=tuple(tensors) if is_module(program) else None)
    given = iter(tensors)
    arguments = [
        np.asarray(signature.weights[value.name]) if value.name in signature.weights else plain_array(next(given))
        for value in module.graph.inputs
    ]
    text = _difference(evaluate(module.graph, arguments), wanted)
    if text:
        return "differs", text, "not run", ""
    specs = [mg.P("d") if each.ndim and each.shape[0] > 1 else None for each in arguments]
    if not any(specs):
        return "same", "", "not run", ""
    try:
        results = mg.compile(module, {"d": 2}, in_specs=specs, target="cpu")(*arguments)
    except MeshgenError as error:
        return "same", "", "refused", error.diagnostics[0].message
    except Exception as error:
        return "same", "", "crashed", _first_line(error)
    text = _difference(list(results) if isinstance(results, tuple | list) else [results], wanted)
    return "same", "", "differs" if text else "same", text


def _function_of(op: Any, sample: Any) -> tuple[Function, list[Any]]:
    """A function of the tensors of a sample that calls the operator, and these tensors."""
    import torch

    leaves, tree = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    is_tensor = [isinstance(each, torch.Tensor) for each in leaves]

    def call(*tensors: Any) -> Any:
        rest = iter(tensors)
        filled = [next(rest) if own else each for own, each in zip(is_tensor, leaves, strict=True)]
        first, args, kwargs = torch.utils._pytree.tree_unflatten(filled, tree)
        return op.op(first, *args, **kwargs)

    return call, [each.detach() for each, own in zip(leaves, is_tensor, strict=True) if own]


def _gradient_of(function: Function, tensors: Sequence[Any]) -> tuple[Function, list[Any]]:
    """The gradients of a function towards its tensors of floats, for cotangents that are drawn here."""
    import torch

    def has_gradient(each: Any) -> bool:
        return isinstance(each, torch.Tensor) and (each.is_floating_point() or each.is_complex())

    own = [has_gradient(each) for each in tensors]
    floats = [each for each, is_float in zip(tensors, own, strict=True) if is_float]
    others = [each for each, is_float in zip(tensors, own, strict=True) if not is_float]

    def results(floats: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        first, second = iter(floats), iter(others)
        found = function(*(next(first if is_float else second) for is_float in own))
        return [each for each in torch.utils._pytree.tree_leaves(found) if has_gradient(each)]

    like = []
    with suppress(Exception):  # what the function raises, it raises again where its results are computed
        like = [torch.randn_like(each) for each in results(floats, others)]

    def gradients(*given: Any) -> Any:
        inside, rest = given[: len(floats)], given[len(floats) : len(tensors)]
        _, vjp = torch.func.vjp(lambda *xs: results(xs, rest), *inside)
        return vjp(list(given[len(tensors) :]))

    return gradients, [*floats, *others, *like]


def _recorded(function: Function, tensors: Sequence[Any]) -> Any:
    from torch.fx.experimental.proxy_tensor import make_fx

    return make_fx(function)(*tensors)


def _module(function: Function) -> Any:
    import torch

    return type("Call", (torch.nn.Module,), {"forward": lambda _, *tensors: function(*tensors)})()


def _tensors_in(result: Any) -> list[Any]:
    import torch

    return [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]


def _array(given: Any) -> Array:
    return plain_array(given.resolve_conj().resolve_neg())


def _difference(results: Sequence[Any], wanted: Sequence[Array]) -> str:
    """How the results differ; empty where all are the same within the tolerance of their types."""
    if len(results) < len(wanted):
        return f"{len(results)} results in place of {len(wanted)}"
    return "; ".join(text for each in zip(results, wanted, strict=False) if (text := difference_of_one(*each)))


def difference_of_one(found: Any, wanted: Array, least: float = 0.0) -> str:
    """How an array differs from another one; empty within a relative error that its type determines, or of `least` of the largest element."""
    found = np.asarray(found)
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return f"{found.dtype}{list(found.shape)} in place of {wanted.dtype}{list(wanted.shape)}"
    if found.dtype.kind in "iub":
        return "" if np.array_equal(found, wanted) else "whole numbers differ"
    kind = found.dtype.kind
    relative = (
        RELATIVE[kind] if kind in RELATIVE and found.dtype.itemsize > 2 else 4 * float(ml_dtypes.finfo(found.dtype).eps)
    )
    relative = max(relative, least)
    wide = np.complex128 if kind == "c" else np.float64
    left, right = found.astype(wide), wanted.astype(wide)
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
    """Why a sample is refused: a documented limit, or what was said, without numbers and names of values."""
    text = outcome.text if outcome.verdict == "refused" else outcome.split_text
    for why, pattern in DOCUMENTED.items():
        if re.search(pattern, text):
            return why
    return re.sub(
        r"'[^']*' was read", "a result was read", re.sub(r"\b\d+\b", "n", re.sub(r"\[[^\]]*\]|\([^)]*\)", "[..]", text))
    )


def is_tie(op: str, dtype: str) -> bool:
    return dtype not in ("float32", "float64") and op in TIED


def summary(found: Sequence[Outcome], heading: str) -> str:
    """Counts of samples and operators as a table of Markdown, then what is not right, by reason."""
    run = [each for each in found if each.verdict != "not run"]
    by_op = defaultdict[str, set[str]](set)
    for each in run:
        by_op[each.op].add(each.verdict)
    whole = sum(verdicts == {"same"} for verdicts in by_op.values())
    some = sum("same" in verdicts for verdicts in by_op.values()) - whole
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
    share = f"{100 * whole / max(len(by_op), 1):.1f} %"
    rows += [
        "",
        f"Of {len(by_op)} operators {whole} ({share}) are right in all samples, {some} in some; of {len(found) - len(run)} samples there is no program or no result of torch's.",
    ]
    return "\n".join([*rows, *_listed(run)])


def _listed(run: Sequence[Outcome]) -> Iterator[str]:
    """Every refusal by its reason, and every sample that is wrong or crashes."""
    refused = defaultdict[str, list[str]](list)
    for each in run:
        if "refused" in (each.verdict, each.split):
            refused[reason(each)].append(each.op)
    if refused:
        yield from ("", "| samples refused | reason | operators |", "| --- | --- | --- |")
    for why, ops in sorted(refused.items(), key=lambda row: (-len(row[1]), row[0])):
        yield f"| {len(ops)} | {why.replace('|', '/')} | {', '.join(f'`{op}`' for op in sorted(set(ops)))} |"
    bad = [each for each in run if {each.verdict, each.split} & {"crashed", "differs"}]
    if bad:
        yield ""
    for each in bad:
        yield f"- `{each.op}`, sample {each.sample}: {each.verdict}; {each.text or each.split_text}"


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
    found: list[Outcome] = []
    for op in operators(options.names):
        if is_tie(title(op), options.dtype):
            continue
        for each in outcomes(op, options.dtype, options.samples, options.gradients):
            found.append(each)
            if options.verbose and (each.verdict != "same" or each.split not in ("same", "not run")):
                sys.stderr.write(
                    f"{each.op} {each.sample}: {each.verdict} {each.text} / {each.split} {each.split_text}\n"
                )
    what = "gradients" if options.gradients else "forward"
    sys.stdout.write(summary(found, f"{what}, {options.dtype}, {options.samples} samples an operator") + "\n")
    return int(any({each.verdict, each.split} & {"crashed", "differs"} for each in found))


if __name__ == "__main__":
    sys.exit(main())
