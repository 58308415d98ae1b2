"""Planning takes work that grows as the program does, also where operations share an operand and results a value."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meshgen import api
from meshgen.sharding.optimizations.collective_cse import collective_cse
from tests.counting import steps

FEW, MANY = 250, 1000
ROW = "tensor<4x8xf32>"


def slices(count: int) -> str:
    kind, row = f"tensor<{count}x8xf32>", "tensor<1x8xf32>"
    lines = [f" %s{i} = stablehlo.slice %x [{i}:{i + 1}, 0:8] : ({kind}) -> {row}" for i in range(count)]
    lines += [f" %a{i + 1} = stablehlo.add %{f'a{i}' if i else 's0'}, %s{i + 1} : {row}" for i in range(count - 1)]
    return f"func.func @main(%x: {kind}) -> {row} {{\n" + "\n".join(lines) + f"\n return %a{count - 1} : {row}\n}}"


def results(count: int) -> str:
    kinds = ", ".join([ROW] * count)
    return f"func.func @main(%x: {ROW}) -> ({kinds}) {{\n return {', '.join(['%x'] * count)} : {kinds}\n}}"


def concatenation(count: int) -> str:
    kind = f"tensor<{4 * count}x8xf32>"
    return f"""func.func @main(%x: {ROW}) -> {kind} {{
 %0 = stablehlo.concatenate {", ".join(["%x"] * count)}, dim = 0 : ({", ".join([ROW] * count)}) -> {kind}
 return %0 : {kind}
}}"""


@pytest.mark.parametrize("program", [results, concatenation])
def test_the_work_of_planning_a_wide_program_is_linear(program: Callable[[int], str]) -> None:
    def planned(count: int) -> int:
        return steps(lambda: api.lower(program(count), {"a": 2}, stage="partition"))

    planned(FEW)  # imports, and what is made once
    few, many = planned(FEW), planned(MANY)
    assert many < 1.4 * MANY / FEW * few


def test_operations_that_share_an_operand_are_not_compared_in_pairs() -> None:
    few, many = (api.lower(slices(count), {"a": 2}, stage="materialize") for count in (FEW // 2, MANY // 2))
    assert steps(lambda: collective_cse(many)) < 1.4 * MANY / FEW * steps(lambda: collective_cse(few))
