"""The same program with transforms along one dim at a time (`rewrites/fft_to_pencils.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.compare import step_seconds
from meshgen.sharding.rewrites.fft_to_pencils import fft_to_pencils

NAME = "pencils"


def pencils(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the best program with transforms in pencils; all other generators are tried on it."""
    if not search.context.runs(fft_to_pencils) or not any(_long_transforms(solved)):
        return
    with search.context.timed(fft_to_pencils):
        module = fft_to_pencils(solved.module, search.context)
    if module is not solved.module and not (best := search.best(solve_as_written(module), before=NAME)).faults:
        yield Candidate(best, (fft_to_pencils,))


def choose_pencils(search: Search, solved: Solved, candidates: Iterable[Candidate]) -> Solved:
    """Return the candidate if its predicted step is clearly shorter.

    Launches and latencies decide as much as bytes do, so both programs are planned to the end.
    """
    for each in candidates:
        with search.context.timed(fft_to_pencils) as record:
            programs = search.written(solved), search.written(each.solved)
            before, after = (step_seconds(program, search.context.trial()) for program in programs)
            is_taken = after < DEFAULT.rewriting.worth * before
            record.note(kept=is_taken, before=before, after=after, unit="s")
        if is_taken:
            search.context.changed(fft_to_pencils.name, each.solved.module)
            return each.solved
    return solved


def _long_transforms(solved: Solved) -> Iterator[Site]:
    """The transforms that all devices of an axis repeat and of which a run takes longer than the exchanges that a split one needs."""
    if not any(site.node.op == "fft" for site in solved.sites):
        return
    for numbers in solved.axes.repeated(solved.decisions).values():
        for site in map(solved.sites.__getitem__, numbers):
            if site.node.op == "fft" and site.seconds > DEFAULT.search.repeated_seconds * site.times:
                yield site
