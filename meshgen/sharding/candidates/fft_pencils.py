"""Candidates with multi-dim FFTs split into FFTs along one dim at a time (`rewrites/fft_to_pencils.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshgen.cost_model.model import DEFAULT
from meshgen.sharding.candidates.search import Candidate, Search
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved, solve_as_written
from meshgen.sharding.rewrites.fft_to_pencils import fft_to_pencils
from meshgen.sharding.rewrites.program_cost import step_seconds

NAME = "pencils"


def pencils(search: Search, solved: Solved) -> Iterator[Candidate]:
    """Yield the program with each multi-dim FFT split into FFTs along one dim, after all earlier generators have
    improved it.
    """
    if not search.context.runs(fft_to_pencils) or not any(_long_transforms(solved)):
        return
    with search.context.timed(fft_to_pencils):
        module = fft_to_pencils(solved.module, search.context)
    if module is not solved.module and not (best := search.best(solve_as_written(module), before=NAME)).faults:
        yield Candidate(best, (fft_to_pencils,))


def choose_pencils(search: Search, solved: Solved, candidates: Iterable[Candidate]) -> Solved:
    """Return the candidate if its predicted step is clearly shorter than that of `solved`, or else `solved`.

    Launches and latencies decide as much as bytes do, so both programs are planned up to their schedule.
    """
    for candidate in candidates:
        with search.context.timed(fft_to_pencils) as record:
            programs = search.written(solved), search.written(candidate.solved)
            before, after = (step_seconds(program, search.context.trial()) for program in programs)
            is_taken = after < DEFAULT.rewriting.worth * before
            record.note(kept=is_taken, before=before, after=after, unit="s")
        if is_taken:
            search.context.changed(fft_to_pencils.name, candidate.solved.module)
            return candidate.solved
    return solved


def _long_transforms(solved: Solved) -> Iterator[Site]:
    """Yield the FFTs that all devices of an axis repeat, and that take longer than the exchanges of an FFT split over
    the axis.
    """
    if not any(site.node.op == "fft" for site in solved.sites):
        return
    for indices in solved.axes.repeated(solved.decisions).values():
        for site in map(solved.sites.__getitem__, indices):
            if site.node.op == "fft" and site.seconds > DEFAULT.search.repeated_seconds * site.times:
                yield site
