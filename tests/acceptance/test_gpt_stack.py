"""A stack of GPT layers: repeated layers share kernels, and time per operation does not grow with the number of layers."""

from __future__ import annotations

import re
import time
from functools import cache
from pathlib import Path

import pytest

from meshgen import api
from meshgen.cli import main
from meshgen.executable import Executable
from meshgen.runtime.module import load
from tests.acceptance.cases import needs_cases, realistic

pytestmark = needs_cases
LAYERS, LAYER_ARGUMENTS = 8, 12
MAX_KERNELS = 15
MAX_GROWTH = 1.3
NUMBERED = re.compile(r"%(?!arg0\b)(arg|cst_|c_|)(\d+)\b")  # argument 0 is the embedding, which all layers share


@cache
def stack(layers: int) -> str:
    """The program with more layers: a layer's lines again and again, with its values and arguments renumbered.

    Line for line, layer k is layer k - 1 with every number of a kind raised by the same amount; the copies and
    what follows them go on so.
    """
    lines = realistic("gpt_stack_8l_2x4").read_text().splitlines()
    starts = [n for n, line in enumerate(lines) if "call @_where_0" in line]
    assert len(starts) == LAYERS
    period, extra = starts[2] - starts[1], layers - LAYERS
    step = _steps(lines[starts[1]], lines[starts[1] : starts[2]], lines[starts[2] : starts[3]])
    end = next(n for n, line in enumerate(lines) if n > starts[-1] and line.strip().startswith("return"))
    layer = lines[starts[1] : starts[1] + period]
    copies = [_raised(line, step, k) for k in range(1, extra + 1) for line in layer]
    head, tail = lines[: starts[2]], lines[starts[2] : end + 1]
    head = [*head[:2], _signature(head[2], layers), *(_with_last_arguments(line, extra) for line in head[3:])]
    return "\n".join([*head, *copies, *(_raised(line, step, extra) for line in tail), *lines[end + 1 :]]) + "\n"


def _steps(first: str, layer: list[str], after: list[str]) -> dict[str, int]:
    """By how much the numbers of each kind grow from one layer to the next; the rest of the text is the same."""
    found: dict[str, int] = {"arg": LAYER_ARGUMENTS}
    for one, two in zip(layer, after, strict=True):
        assert NUMBERED.sub("%", one) == NUMBERED.sub("%", two)
        for left, right in zip(NUMBERED.finditer(one), NUMBERED.finditer(two), strict=True):
            assert int(right[2]) - int(left[2]) == found.setdefault(left[1], int(right[2]) - int(left[2])), one
    return found


def _raised(line: str, step: dict[str, int], times: int) -> str:
    return NUMBERED.sub(lambda m: f"%{m[1]}{int(m[2]) + step[m[1]] * times}", line)


def _with_last_arguments(line: str, extra: int) -> str:
    """A line before the copies, whose layers keep their arguments."""
    first = 1 + LAYERS * LAYER_ARGUMENTS
    return re.sub(r"%arg(\d+)", lambda m: f"%arg{int(m[1]) + LAYER_ARGUMENTS * extra * (int(m[1]) >= first)}", line)


def _signature(line: str, layers: int) -> str:
    """The arguments with those of the first layer for every new one, and the last ones behind them."""
    begin, end = line.index("(") + 1, line.index(") -> (")
    arguments = re.split(r", (?=%arg\d+:)", line[begin:end])
    layer = arguments[1 : 1 + LAYER_ARGUMENTS]
    rest = arguments[1 + LAYERS * LAYER_ARGUMENTS :]
    every = [arguments[0], *layer * layers, *rest]
    named = [re.sub(r"^%arg\d+", f"%arg{n}", text) for n, text in enumerate(every)]
    return line[:begin] + ", ".join(named) + line[end:]


def seconds_per_op(layers: int) -> tuple[float, Executable]:
    """The faster of two plans, over the operations of the imported program."""
    best = float("inf")
    for _ in range(2):
        begin = time.process_time()  # the machine may be busy with something else
        executable = api.plan(stack(layers), target="cpu")
        best = min(best, time.process_time() - begin)
    return best / len(executable.stages["import"].graph.nodes), executable


def unnumbered_sources(executable: Executable) -> list[str]:
    """The kernels' sources; the last arguments and values have other numbers where there are more layers."""
    return sorted(re.sub(r"\b(arg|v)\d+", r"\1", source.text) for source in executable.sources.values())


def test_repeated_layers_share_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "stack.mgx"
    assert main(["compile", str(realistic("gpt_stack_8l_2x4")), "--target", "cpu", "-o", str(module)]) == 0
    kernels = load(module).manifest.kernels
    assert 0 < len(kernels) <= MAX_KERNELS, list(kernels)
    assert all(load(module).source(name) for name in kernels)
    assert f"{len(kernels)} distinct" in capsys.readouterr().out


def test_time_per_op_and_kernels_do_not_grow_with_layers() -> None:
    few, of_eight = seconds_per_op(LAYERS)
    many, of_many = seconds_per_op(4 * LAYERS)
    nodes = [len(e.stages["import"].graph.nodes) for e in (of_eight, of_many)]
    assert nodes[1] > 3.8 * nodes[0]  # all but the embedding and the head is four times as much
    assert 0 < len(of_many.fused.kernels) == len(of_eight.fused.kernels) <= MAX_KERNELS
    assert unnumbered_sources(of_many) == unnumbered_sources(of_eight)
    per_layer = of_many.comms.counts["all_reduce"] - of_eight.comms.counts["all_reduce"]
    assert per_layer == 2 * 3 * LAYERS
    assert many <= MAX_GROWTH * few, f"{many * 1e3:.2f} ms per op, with {LAYERS} layers {few * 1e3:.2f} ms"
