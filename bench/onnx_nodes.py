"""`python -m bench.onnx_nodes [NAME ...]`: node tests of the installed `onnx` package on the reference engine, with a
score.

Each case is a model of one operator, with operands and expected results. The package passes operands that decide shapes
at runtime. The bench makes them constants if the importer requires it. Results are compared with the tolerances of the
package or of the dtype.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.api import read
from meshgen.calls.signature import Signature
from meshgen.errors import MeshgenError
from meshgen.frontend.constants import constant
from meshgen.frontend.onnx.files import onnx_package
from meshgen.ir.graph import Module
from meshgen.ops.evaluate.evaluator import evaluate

Array = np.ndarray[Any, Any]

# Refused cases: the reason, and parts of the names of the cases that are refused for it.
REFUSED = {
    "random numbers of each run are not those of a module": ("bernoulli", "training_dropout"),
    "strings are no tensors of numbers": ("string", "strnorm", "regex", "tfidf", "label_encoder_string"),
    "how many elements a result has is data": ("nonmaxsuppression", "unique"),
    "files are not decoded": ("image_decoder",),
    "4-bit floats have no element type, and casts to scales of 8 bits no rounding of their own": (
        "FLOAT4E2M1", "float4e2m1", "cast_e8m0_FLOAT",
    ),
    "sequences and optional values cannot be inputs or results": (
        "sequence_insert", "sequence_map", "split_to_sequence", "identity_sequence", "identity_opt", "if_seq", "if_opt", "loop13_seq",
        "loop16_seq", "optional",
    ),
    "no entry in the table": (
        "adagrad", "adam", "momentum", "label_encoder_tensor", "tree_ensemble", "deform_conv", "melweightmatrix", "scan_sum",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The result of a case: `same`, `refused` or `differs`, with a message. `has_constants` says whether operands had
    to be constants for the importer.
    """

    name: str
    verdict: str
    text: str = ""
    module: Module | None = None
    arguments: tuple[Array, ...] = ()
    has_constants: bool = False


def cases() -> list[Any]:
    """Return the test cases of the `onnx` package, which creates them when they are requested."""
    onnx_package()
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in load_model_tests(kind="node") if case.model is not None]


def run(case: Any) -> Outcome:
    """Import a case and compare its results."""
    onnx = onnx_package()
    operands, expected = ([_array(entry, onnx) for entry in column] for column in case.data_sets[0])
    names = [entry.name for entry in case.model.graph.input]
    arrays = dict(zip(names, operands, strict=False))
    try:
        module, signature = _imported(case.model, arrays)
    except MeshgenError as error:
        return Outcome(case.name, "refused", error.diagnostics[0].message)
    arguments = tuple(_argument(value.name, arrays, signature) for value in module.graph.inputs)
    results = evaluate(module.graph, arguments)
    texts = [
        text for entry in zip(results, expected, strict=True) if (text := _difference(*entry, case.rtol, case.atol))
    ]
    has_constants = any(name not in signature.nodes for name in arrays)
    return Outcome(case.name, "differs" if texts else "same", "; ".join(texts), module, arguments, has_constants)


def _array(entry: Any, onnx: Any) -> Any:
    """Return an operand or result of a case as a NumPy array. Sequences and optional values are returned unchanged."""
    if isinstance(entry, onnx.TensorProto):
        return onnx.numpy_helper.to_array(entry)
    return np.asarray(entry) if isinstance(entry, (np.ndarray, np.generic)) else entry


def _imported(model: Any, arrays: dict[str, Any]) -> tuple[Module, Signature]:
    """Import the model. If the importer refuses because a shape depends on a runtime operand, import again with all
    operands that can decide shapes as constants.
    """
    shapes: dict[str, Any] = {name: array.shape for name, array in arrays.items() if isinstance(array, np.ndarray)}
    try:
        return read(model, args=shapes)
    except MeshgenError as error:
        constant_names = {
            name for name in shapes if arrays[name].dtype.kind in "iub" or not arrays[name].ndim or name in _SIZES
        }
        if not constant_names or not any("is data here" in array.message for array in error.diagnostics):
            raise
    return read(model, args=shapes | {name: constant(arrays[name]) for name in constant_names})


_SIZES = ("roi", "scales")  # float operands of Resize that decide shapes


def _argument(name: str, arrays: dict[str, Any], signature: Signature) -> Array:
    return arrays[name] if name in arrays else np.asarray(signature.weights[name])


def _difference(result: Array, expected: Any, rtol: float, atol: float) -> str:
    """Return a description of how a result differs, or "" if it does not. The tolerance is the larger of two: the
    package's own, and 4 roundings of the dtype.
    """
    expected = np.asarray(expected)
    if (result.shape, result.dtype) != (expected.shape, expected.dtype):
        return f"{result.dtype}{list(result.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if result.dtype.kind in "iub" or result.dtype.name.startswith(("int", "uint")):
        return "" if np.array_equal(result, expected) else "whole numbers differ"
    rtol = max(rtol, 4 * float(ml_dtypes.finfo(result.dtype).eps))
    left, right = result.astype(np.float64), expected.astype(np.float64)
    if np.allclose(left, right, rtol, max(atol, rtol * 1e-3), equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        return f"differs by {np.nanmax(np.abs(left - right), initial=0):.3g}"


def reason(name: str) -> str | None:
    """Return the listed reason for refusing a case, or None if no reason is listed."""
    return next((why for why, words in REFUSED.items() if any(word in name for word in words)), None)


def outcomes(names: Sequence[str] = ()) -> Iterator[Outcome]:
    """Return the outcomes of all cases, or of the cases whose names contain one of `names`."""
    return (run(case) for case in cases() if not names or any(part in case.name for part in names))


def score(all_outcomes: Sequence[Outcome]) -> str:
    """Return the number of cases by outcome, and the reasons of refusals."""
    verdicts = Counter(outcome.verdict for outcome in all_outcomes)
    constants = sum(outcome.verdict == "same" and outcome.has_constants for outcome in all_outcomes)
    lines = [
        f"{verdicts['same']} of {len(all_outcomes)} node tests agree, {verdicts['refused']} are refused, {verdicts['differs']} differ",
        f"{constants} of those that agree need constants for operands, most of which decide shapes",
    ]
    reasons = Counter(
        reason(outcome.name) or "not expected" for outcome in all_outcomes if outcome.verdict == "refused"
    )
    return "\n".join([*lines, *(f"{count:5} {why}" for why, count in reasons.most_common())])


def main() -> int:
    all_outcomes = list(outcomes(sys.argv[1:]))
    for outcome in all_outcomes:
        if outcome.verdict == "differs" or (outcome.verdict == "refused" and reason(outcome.name) is None):
            sys.stdout.write(f"{outcome.name}: {outcome.verdict}: {outcome.text}\n")
    sys.stdout.write(score(all_outcomes) + "\n")
    return int(any(outcome.verdict == "differs" for outcome in all_outcomes))


if __name__ == "__main__":
    sys.exit(main())
