"""Tests of control flow as jumps: the code generated for a plan, and how an engine executes it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass

import pytest

from meshgen.ir.op_names import CONTROL
from meshgen.runtime.control_flow import Choose, Enter, Frame, Issue, Jump, Move, Only, code_of, follow
from meshgen.runtime.plan import Item, Schedule


def item(op: str, *regions: Schedule, inputs: tuple[int, ...] = (0,), outputs: tuple[int, ...] = (1,)) -> Item:
    return Item(op, "", {"axes": ("x",)}, inputs, outputs, 0, regions=regions)


def plan(*items: Item, outputs: tuple[int, ...] = (7,)) -> Schedule:
    return Schedule(items, (), 0, (), outputs)


@dataclass(frozen=True)
class StandInFrame:
    """A stand-in for a frame: a plan and its ranks.

    The `path` of a region lists item and region indices, outermost first.
    """

    plan: Schedule
    ranks: tuple[int, ...] = (0, 1)
    path: str = ""

    def inside(self, index: int) -> list[StandInFrame]:
        regions = enumerate(self.plan.items[index].regions)
        return [
            StandInFrame(region, self.ranks, f"{self.path}{index}.{region_index} ") for region_index, region in regions
        ]

    def by_rank(self) -> list[StandInFrame]:
        return [StandInFrame(self.plan, (rank,), self.path) for rank in self.ranks]


class Chooser:
    """An engine that records the steps to execute, and chooses branches as prescribed."""

    def __init__(self, choices: Sequence[int]) -> None:
        self.done: list[str] = []
        self._choices = iter(choices)

    def enter(self, frame: StandInFrame) -> None:
        self.done.append(f"enter {frame.path}")

    def issue(self, place: int, step: Issue[StandInFrame]) -> Iterable[str]:
        self.done.append(f"issue {step.frame.path}{[*step.items]} on {[*step.frame.ranks]}")
        return [self.done[-1]]

    def move(self, place: int, step: Move[StandInFrame]) -> Iterable[str]:
        self.done.append(f"move {[*step.sources]} {step.source.path}to {[*step.targets]} {step.target.path}".strip())
        return ()

    def choice(self, step: Choose[StandInFrame]) -> Generator[str, None, int]:
        yield from ()
        return next(self._choices)


def decided(step: Item) -> bool:
    return step.op not in CONTROL


def executed_steps(step: Schedule, *choices: int) -> list[str]:
    chooser = Chooser(choices)
    list(follow(code_of(StandInFrame(step), decided), chooser))
    return chooser.done


CONDITION, BODY = plan(item("kernel"), outputs=(5,)), plan(item("all_reduce"), item("kernel"), outputs=(6,))
LOOP = plan(item("kernel"), item("while", CONDITION, BODY), item("kernel"))


def test_loop_is_lowered_to_jumps() -> None:
    code = code_of(StandInFrame(LOOP), decided)
    kinds = [Issue, Only, Move, Enter, Issue, Choose, Enter, Issue, Move, Jump, Issue]
    assert [type(step) for step in code] == kinds
    (only,) = (step for step in code if isinstance(step, Only))
    (choose,) = (step for step in code if isinstance(step, Choose))
    (jump,) = (step for step in code if isinstance(step, Jump))
    assert (only.target, choose.targets, jump.target) == (10, (10, 6), 3)


def test_loop_repeats_until_condition_is_false() -> None:
    iteration = [
        "enter 1.1 ",
        "issue 1.1 [0, 1] on [0, 1]",
        "move [6] 1.1 to [1]",
        "enter 1.0 ",
        "issue 1.0 [0] on [0, 1]",
    ]
    before = ["issue [0] on [0, 1]", "move [0] to [1]", "enter 1.0 ", "issue 1.0 [0] on [0, 1]"]
    assert executed_steps(LOOP, 0) == [*before, "issue [2] on [0, 1]"]
    assert executed_steps(LOOP, 1, 1, 0) == [*before, *iteration, *iteration, "issue [2] on [0, 1]"]


@pytest.mark.parametrize(("op", "choice", "region"), [("if", 1, 0), ("if", 0, 1), ("case", 0, 0), ("case", 1, 1), ("case", 2, 2), ("case", 3, 2), ("case", -1, 2)])  # fmt: skip
def test_branch_executes_selected_region(op: str, choice: int, region: int) -> None:
    regions = [BODY] * (2 if op == "if" else 3)
    done = executed_steps(plan(item(op, *regions)), choice)
    assert done == [f"enter 0.{region} ", f"issue 0.{region} [0, 1] on [0, 1]", f"move [6] 0.{region} to [1]"]


def test_loop_without_collectives_runs_independently_per_rank() -> None:
    done = executed_steps(
        plan(item("while", CONDITION, CONDITION)), 0, 1, 0
    )  # rank 0 runs no iteration, and rank 1 runs one
    assert [text for text in done if "issue" in text] == [
        "issue 0.0 [0] on [0]", "issue 0.0 [0] on [1]", "issue 0.1 [0] on [1]", "issue 0.0 [0] on [1]"
    ]  # fmt: skip


def test_code_of_selected_items_contains_only_them() -> None:
    frame: Frame = StandInFrame(LOOP)
    assert [type(step) for step in code_of(frame, decided, [2])] == [Issue]
