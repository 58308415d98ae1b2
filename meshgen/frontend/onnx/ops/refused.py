"""Operators that cannot be supported, and why."""

from __future__ import annotations

_RANDOM = "it draws new random numbers in each run, which a module does not: pass them as an input"
_STRINGS = "it is about strings, which have no tensors of numbers"
_COUNTED = "how many elements its result has is data"
_REASONS = {
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"), _RANDOM),
    **dict.fromkeys(("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer"), _STRINGS),
    "NonMaxSuppression": _COUNTED,
    "ImageDecoder": "it decodes files",
}  # fmt: skip


def reason(domain: str, name: str) -> str | None:
    """Why an operator cannot be supported; None for those that have no entry yet."""
    return _REASONS.get(name) if not domain else None
