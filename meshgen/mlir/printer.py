"""The printer of MLIR text: xDSL's, which calls values by the names they have in the graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO

from xdsl.ir import SSAValue
from xdsl.printer import Printer

_NAME = re.compile(r"[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*")


class TextPrinter(Printer):
    """Prints to `text`. A name that is taken already in the function gets a suffix, a number the next free one."""

    def __init__(self, names: Mapping[SSAValue, str]) -> None:
        self.text = StringIO()
        super().__init__(stream=self.text)
        self._wanted = names
        self._given: dict[SSAValue, str] = {}
        self._taken: list[set[str]] = [set()]
        self._numbers = [0]
        self._suffixes: list[dict[str, int]] = [{}]

    def enter_scope(self) -> None:
        """Names of a function do not meet those of another."""
        super().enter_scope()
        self._taken.append(set())
        self._numbers.append(0)
        self._suffixes.append({})

    def exit_scope(self) -> None:
        super().exit_scope()
        self._taken.pop()
        self._numbers.pop()
        self._suffixes.pop()

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._given.get(value)
        if name is None:
            name = self._given[value] = self._new_name(self._preferred_name(value))
        self.print_string(f"%{name}")
        return name

    def share_name(self, value: SSAValue, other: SSAValue) -> None:
        """Let `other`, which has no name yet, print as `value` does."""
        if value not in self._given:
            self._given[value] = self._new_name(self._preferred_name(value))
        self._given[other] = self._given[value]

    def _preferred_name(self, value: SSAValue) -> str:
        return self._wanted.get(value, "") or value.name_hint or ""

    def _new_name(self, wanted: str) -> str:
        taken = self._taken[-1]
        if not wanted or not _NAME.fullmatch(wanted) or (wanted.isdecimal() and wanted in taken):
            wanted = self._free_number()
        elif wanted in taken:
            wanted = self._suffixed(wanted)
        taken.add(wanted)
        return wanted

    def _free_number(self) -> str:
        while str(self._numbers[-1]) in self._taken[-1]:
            self._numbers[-1] += 1
        return str(self._numbers[-1])

    def _suffixed(self, wanted: str) -> str:
        stem = re.sub(r"_\d+$", "", wanted) or wanted
        suffixes = self._suffixes[-1]
        while True:
            number = suffixes[stem] = suffixes.get(stem, -1) + 1
            if (name := f"{stem}_{number}") not in self._taken[-1]:
                return name
