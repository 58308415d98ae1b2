"""`python -m bench.onnx_nodes [NAME ...]`: the node tests of the installed `onnx` package against the reference engine, and the score.

Each case is a model of one operator with operands and results. Operands that decide shapes, which the tests pass as inputs, are given
as constants where the importer asks for that. Results are compared with the tolerances of the suite, or those of the type.
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

# What is refused, by the names of cases, and why.
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
    """How a case went: `same`, `refused` or `differs`, and what was said. `has_constants`: operands had to be constants."""

    name: str
    verdict: str
    text: str = ""
    module: Module | None = None
    arguments: tuple[Array, ...] = ()
    has_constants: bool = False


def cases() -> list[Any]:
    """The cases of the package, which are made when they are asked for."""
    onnx_package()
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [case for case in load_model_tests(kind="node") if case.model is not None]


def run(case: Any) -> Outcome:
    """Import a case and compare its results."""
    onnx = onnx_package()
    given, wanted = ([_array(each, onnx) for each in column] for column in case.data_sets[0])
    names = [each.name for each in case.model.graph.input]
    held = dict(zip(names, given, strict=False))
    try:
        module, signature = _imported(case.model, held)
    except MeshgenError as error:
        return Outcome(case.name, "refused", error.diagnostics[0].message)
    arguments = tuple(_argument(value.name, held, signature) for value in module.graph.inputs)
    found = evaluate(module.graph, arguments)
    texts = [text for each in zip(found, wanted, strict=True) if (text := _difference(*each, case.rtol, case.atol))]
    has_constants = any(name not in signature.nodes for name in held)
    return Outcome(case.name, "differs" if texts else "same", "; ".join(texts), module, arguments, has_constants)


def _array(given: Any, onnx: Any) -> Any:
    """An operand or result of a case; sequences and optional values as they are."""
    if isinstance(given, onnx.TensorProto):
        return onnx.numpy_helper.to_array(given)
    return np.asarray(given) if isinstance(given, (np.ndarray, np.generic)) else given


def _imported(model: Any, held: dict[str, Any]) -> tuple[Module, Signature]:
    """The module; with constants for all operands that can decide shapes, where one must be known."""
    shapes: dict[str, Any] = {name: each.shape for name, each in held.items() if isinstance(each, np.ndarray)}
    try:
        return read(model, args=shapes)
    except MeshgenError as error:
        whole = {name for name in shapes if held[name].dtype.kind in "iub" or not held[name].ndim or name in _SIZES}
        if not whole or not any("is data here" in each.message for each in error.diagnostics):
            raise
    return read(model, args=shapes | {name: constant(held[name]) for name in whole})


_SIZES = ("roi", "scales")  # operands of Resize, which are floats


def _argument(name: str, held: dict[str, Any], signature: Signature) -> Array:
    return held[name] if name in held else np.asarray(signature.weights[name])


def _difference(found: Array, wanted: Any, rtol: float, atol: float) -> str:
    """How a result differs; empty where it is the same within the tolerance of the suite, or 4 roundings of its type."""
    wanted = np.asarray(wanted)
    if (found.shape, found.dtype) != (wanted.shape, wanted.dtype):
        return f"{found.dtype}{list(found.shape)} in place of {wanted.dtype}{list(wanted.shape)}"
    if found.dtype.kind in "iub" or found.dtype.name.startswith(("int", "uint")):
        return "" if np.array_equal(found, wanted) else "whole numbers differ"
    rtol = max(rtol, 4 * float(ml_dtypes.finfo(found.dtype).eps))
    left, right = found.astype(np.float64), wanted.astype(np.float64)
    if np.allclose(left, right, rtol, max(atol, rtol * 1e-3), equal_nan=True):
        return ""
    with np.errstate(all="ignore"):
        return f"differs by {np.nanmax(np.abs(left - right), initial=0):.3g}"


def reason(name: str) -> str | None:
    """Why a case is refused; None for those that are not."""
    return next((why for why, words in REFUSED.items() if any(word in name for word in words)), None)


def outcomes(names: Sequence[str] = ()) -> Iterator[Outcome]:
    """The outcomes of all cases, or of those whose names contain one of these."""
    return (run(case) for case in cases() if not names or any(each in case.name for each in names))


def score(found: Sequence[Outcome]) -> str:
    """The numbers of outcomes, and why cases are refused."""
    verdicts = Counter(each.verdict for each in found)
    constants = sum(each.verdict == "same" and each.has_constants for each in found)
    lines = [
        f"{verdicts['same']} of {len(found)} node tests agree, {verdicts['refused']} are refused, {verdicts['differs']} differ",
        f"{constants} of those that agree need constants for operands, most of which decide shapes",
    ]
    reasons = Counter(reason(each.name) or "not expected" for each in found if each.verdict == "refused")
    return "\n".join([*lines, *(f"{count:5} {why}" for why, count in reasons.most_common())])


def main() -> int:
    found = list(outcomes(sys.argv[1:]))
    for each in found:
        if each.verdict == "differs" or (each.verdict == "refused" and reason(each.name) is None):
            sys.stdout.write(f"{each.name}: {each.verdict}: {each.text}\n")
    sys.stdout.write(score(found) + "\n")
    return int(any(each.verdict == "differs" for each in found))


if __name__ == "__main__":
    sys.exit(main())
