"""Describe in words how a search sharded the arguments of a program.

One sentence covers all arguments with similar names and the same sharding:

    32 arguments like layers.*.wq, bf16[4096,4096]: by columns over tp
    32 arguments like layers.*.wo, bf16[4096,4096]: by rows over tp
    x, bf16[8,2048,4096]: dim 0 over dp
    32 arguments like layers.*.scale, f32[4096]: replicated
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from meshgen.ir.graph import TensorType, Value
from meshgen.spec import Sharding

MATRIX = ("rows", "columns")


def sentences(inputs: Sequence[Value], shardings: Mapping[str, Sharding]) -> list[str]:
    """Return a sentence per group of arguments, in program order.

    Args:
        shardings: by the name of the argument.
    """
    groups: dict[tuple[str, str, str], list[str]] = {}
    for value, name in zip(inputs, shardings, strict=True):
        way = way_of(shardings[name], value.type)
        groups.setdefault((pattern_of(name), str(value.type), way), []).append(name)
    return [_sentence(pattern, kind, way, names) for (pattern, kind, way), names in groups.items()]


def pattern_of(name: str) -> str:
    """Return the name with `*` for each layer number: `layers.*.w1` for `layers.3.w1`, and `arg*` for `arg3`."""
    return re.sub(r"(?<![A-Za-z])\d+|(?<=\barg)\d+", "*", name)


def way_of(sharding: Sharding, kind: TensorType) -> str:
    """Describe a sharding, for example `by columns over tp`. Dims are numbered unless the value is a matrix."""
    words = MATRIX if kind.rank == 2 else [f"dim {dim}" for dim in range(kind.rank)]
    parts = [f"{word} over {' and '.join(axes)}" for word, axes in zip(words, sharding.dims, strict=True) if axes]
    if not parts:
        return "replicated"
    return ("by " if kind.rank == 2 else "") + ", ".join(parts)


def _sentence(pattern: str, kind: str, way: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"{names[0]}, {kind}: {way}"
    return f"{len(names)} arguments like {pattern}, {kind}: {way}"
