"""Operators that meshgen cannot support, with the reasons for error messages."""

from __future__ import annotations

_RANDOM = "it draws new random numbers in each run, which a module does not: pass them as an input"
_STRINGS = "it operates on strings, which are not supported"
_COUNTED = "its result has a data-dependent size"
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
    """Return why an operator cannot be supported, and a hint for the user.

    Both are empty for an operator that could be supported but is not implemented.
    """
    if (domain, name) == ("ai.onnx.ml", "ZipMap"):
        return "it creates dicts of tensors", _WITHOUT_ZIPMAP
    return (_REASONS.get(name, "") if not domain else ""), ""
