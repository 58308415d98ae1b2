"""Operators that cannot be supported, and why."""

from __future__ import annotations

_RANDOM = "it draws new random numbers in each run, which a module does not: pass them as an input"
_STRINGS = "it is about strings, which have no tensors of numbers"
_COUNTED = "how many elements its result has is data"
_REASONS = {
    **dict.fromkeys(
        ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"), _RANDOM
    ),
    **dict.fromkeys(("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer"), _STRINGS),
    "NonMaxSuppression": _COUNTED,
    "ImageDecoder": "it decodes files",
}
_WITHOUT_ZIPMAP = "convert the classifier with zipmap=False (skl2onnx: options={'zipmap': False}): its scores are then a tensor"  # fmt: skip


def reason(domain: str, name: str) -> tuple[str, str]:
    """Why an operator cannot be supported, and the hint what to do; empty texts for operators that have no entry yet."""
    if (domain, name) == ("ai.onnx.ml", "ZipMap"):
        return "it makes dicts of tensors", _WITHOUT_ZIPMAP
    return (_REASONS.get(name, "") if not domain else ""), ""
