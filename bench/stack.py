"""A stack of as many GPT layers as one likes, over any mesh: the text of the 8-layer program, its layers copied."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "shared/cases/jax/gpt_stack_8l_2x4.shardy.mlir"
LAYERS, LAYER_ARGUMENTS = 8, 12
NUMBERED = re.compile(r"%(?!arg0\b)(arg|cst_|c_|)(\d+)\b")  # argument 0 is the embedding, which all layers share


def on_mesh(text: str, dp: int, tp: int) -> str:
    """The program over a mesh of other sizes."""
    return text.replace('<["dp"=2, "tp"=4]>', f'<["dp"={dp}, "tp"={tp}]>')


@cache
def stack(layers: int) -> str:
    """The program with more layers: a layer's lines again and again, with its values and arguments renumbered.

    Line for line, layer k is layer k - 1 with every number of a kind raised by the same amount; the copies and
    what follows them go on so.
    """
    lines = PROGRAM.read_text().splitlines()
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
