"""Wide programs, in which many ops share an operand or many results are one value: planning work grows linearly with
their size.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from meshgen import api
from meshgen.sharding.optimizations.collective_cse import collective_cse
from tests.counting import steps

FEW, MANY = 250, 1000
ROW = "tensor<4x8xf32>"


def slices(count: int) -> str:
    operand_type, row = f"tensor<{count}x8xf32>", "tensor<1x8xf32>"
    lines = [f" %s{i} = stablehlo.slice %x [{i}:{i + 1}, 0:8] : ({operand_type}) -> {row}" for i in range(count)]
    lines += [f" %a{i + 1} = stablehlo.add %{f'a{i}' if i else 's0'}, %s{i + 1} : {row}" for i in range(count - 1)]
    return (
        f"func.func @main(%x: {operand_type}) -> {row} {{\n" + "\n".join(lines) + f"\n return %a{count - 1} : {row}\n}}"
    )


def results(count: int) -> str:
    types = ", ".join([ROW] * count)
    return f"func.func @main(%x: {ROW}) -> ({types}) {{\n return {', '.join(['%x'] * count)} : {types}\n}}"


def concatenation(count: int) -> str:
    result_type = f"tensor<{4 * count}x8xf32>"
    return f"""func.func @main(%x: {ROW}) -> {result_type} {{
 %0 = stablehlo.concatenate {", ".join(["%x"] * count)}, dim = 0 : ({", ".join([ROW] * count)}) -> {result_type}
 return %0 : {result_type}
}}"""


@pytest.mark.parametrize("program", [results, concatenation])
def test_planning_work_of_wide_program_is_linear(program: Callable[[int], str]) -> None:
    def planned(count: int) -> int:
        return steps(lambda: api.lower(program(count), {"a": 2}, stage="partition"))

    planned(FEW)  # the first plan imports modules and fills caches
    few, many = planned(FEW), planned(MANY)
    assert many < 1.4 * MANY / FEW * few


def test_collective_cse_work_of_shared_operand_is_linear() -> None:
    few, many = (api.lower(slices(count), {"a": 2}, stage="materialize") for count in (FEW // 2, MANY // 2))
    assert steps(lambda: collective_cse(many)) < 1.4 * MANY / FEW * steps(lambda: collective_cse(few))
