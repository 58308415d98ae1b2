"""The interface of a suite: its options, a function that yields its records, and the titles of their fields."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from meshgen.benchmarks.records import Record

Take: TypeAlias = Callable[[Record], object]  # called with each record as soon as it is measured
Options: TypeAlias = Any  # an argparse.ArgumentGroup or an argparse.ArgumentParser


@dataclass(frozen=True)
class Suite:
    """A suite of `meshgen bench`.

    Attributes:
        purpose: what the suite measures, in one line.
        titles: titles of the fields in tables, in the order of the columns.
        add_options: adds the suite's options to a group of the command line.
        run: passes each record to `Take` and returns the facts of the run. Returns None in a process whose records
        another process
            writes. Raises MeshgenError.
    """

    purpose: str
    titles: Mapping[str, str]
    add_options: Callable[[Options], None]
    run: Callable[[argparse.Namespace, Take], Mapping[str, Any] | None]


def no_options(group: Options) -> None:
    """Add no options: for suites without options."""
