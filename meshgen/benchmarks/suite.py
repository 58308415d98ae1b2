"""What a suite is: its options, its records one after the other, and the titles of their fields."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from meshgen.benchmarks.records import Record

Take: TypeAlias = Callable[[Record], object]  # is given each record as soon as it is there
Options: TypeAlias = Any  # an argparse.ArgumentGroup, or the parser itself


@dataclass(frozen=True)
class Suite:
    """One of `meshgen bench`.

    Attributes:
        purpose: what it measures, in one line.
        titles: of the fields that tables show, in their order.
        add_options: to a group of the command's options.
        run: hands over all records; returns what else is to be said of the run (its facts), or None in a process whose records
            another one writes. Raises MeshgenError.
    """

    purpose: str
    titles: Mapping[str, str]
    add_options: Callable[[Options], None]
    run: Callable[[argparse.Namespace, Take], Mapping[str, Any] | None]


def no_options(group: Options) -> None:
    """Of a suite that has none of its own."""
