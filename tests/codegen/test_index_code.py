"""Tests of index code: the text and the structure of an expression have the same value.

Addresses cannot be computed by plain text, which has no structure to prove bounds from.
"""

from __future__ import annotations

import numpy as np
import pytest
from code_of_text import code_of

from meshgen.codegen.emit.writer import Writer
from meshgen.codegen.expr import variable
from meshgen.codegen.index_code import (
    Advance,
    Condition,
    Int,
    Let,
    Loop,
    all_of,
    clamped,
    integer,
    lanes,
    moved,
    program_id,
    summands,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((integer("a") + 3) * "b", "(a + 3) * b"),
        (integer("a") + integer("b") * 3 % 5, "a + b * 3 % 5"),
        (integer("a") - (integer("b") - 1), "a - (b - 1)"),
        (integer("a") // (integer("b") * 2), "a // (b * 2)"),
        (2 * integer("a") + integer(-3), "2 * a + -3"),
        (integer(variable("i", 8) // 2 + 1) * 4, "((i // 2) + 1) * 4"),
        ((integer("m") + lanes("BLOCK").to("tl.int64")).turned("[:, None]"), "(m + tl.arange(0, BLOCK).to(tl.int64))[:, None]"),
        (clamped(integer("x").to("tl.int32"), 0, 6), "tl.minimum(tl.maximum(x.to(tl.int32), 0), 6)"),
        (moved(integer("x_ptr"), integer("a") * 3 + integer("b").bracketed()), "x_ptr + a * 3 + (b)"),
        (program_id() - 4, "tl.program_id(0) - 4"),
    ],
)  # fmt: skip
def test_index_expression_is_rendered_with_precedence(value: Int, text: str) -> None:
    assert str(value) == text


def random_int(rng: np.random.Generator, depth: int) -> Int:
    if not depth or rng.random() < 0.2:
        return integer(["a", "b", "c", int(rng.integers(-3, 9))][rng.integers(4)])
    left, right = random_int(rng, depth - 1), random_int(rng, depth - 1)
    return [lambda: left + right, lambda: left - right, lambda: left * right, lambda: left % 5, lambda: left // 3,
            lambda: left.bracketed()][rng.integers(6)]()  # fmt: skip


def value_of(value: Int, values: dict[str, int]) -> int:
    """Evaluate an expression from its structure, not from its text."""
    if value.op in ("name", "number"):
        return values.get(value.args[0], value.args[0])
    left, right = (value_of(side, values) for side in value.args)
    return {"+": left + right, "-": left - right, "*": left * right, "//": left // (right or 1), "%": left % (right or 1)}[value.op]  # fmt: skip


def test_index_text_and_structure_have_equal_values() -> None:
    rng = np.random.default_rng(1)
    names = {"a": 7, "b": -2, "c": 11}
    for _ in range(300):
        value = random_int(rng, 4)
        assert eval(value.text, dict(names)) == value_of(value, names), value.text
        total = sum(sign * value_of(part, names) for sign, part in summands(value))
        assert total == value_of(value, names), value.text


def test_joined_conditions_keep_their_comparisons() -> None:
    inside, non_negative = integer("i").below(9), integer("i").compared(">=", 0)
    condition = all_of([inside, non_negative, "taken", inside])
    assert condition == "(i < 9) & (i >= 0) & (taken)"
    assert isinstance(condition, Condition) and len(condition.comparisons) == 2 and condition.names == ("taken",)


def test_writer_emits_text_and_index_code_together() -> None:
    writer = Writer(is_wide=False, checked=frozenset())
    writer.let("p", moved(integer("x_ptr"), program_id() * 64))
    writer.loop("k", 0, 640, 32)
    writer.loaded("x", integer("p"), integer("k").below(600), "0.0")
    writer.advance("p", integer(32))
    writer.close()
    writer.loop("empty", 0, 4)
    writer.close()
    assert writer.lines == [
        "    p = x_ptr + tl.program_id(0) * 64",
        "    for k in range(0, 640, 32):",
        "        x = tl.load(p, mask=k < 600, other=0.0)",
        "        p += 32",
    ]
    let, loop = writer.code
    assert isinstance(let, Let) and isinstance(loop, Loop) and loop.body[-1] == Advance("p", integer(32))
    assert len(code_of("def kernel():\n" + "\n".join(writer.lines))) == 2


@pytest.mark.parametrize("line", ["x = tl.load(x_ptr + i)", "tl.store(x_ptr, 1)", "i = 3", "i += 1", "y, i = both(y)"])
def test_writer_rejects_address_computation_as_plain_text(line: str) -> None:
    writer = Writer(is_wide=False, checked=frozenset())
    writer.let("i", lanes(64))
    with pytest.raises(AssertionError, match="index code"):
        writer.write(line)
