"""The printer of MLIR text: xDSL's, which calls values by the names they have in the graph."""

from __future__ import annotations

import re
from functools import lru_cache

from xdsl.dialects import func
from xdsl.ir import Block, SSAValue

from meshgen.ir.graph import Node, Value
from meshgen.mlir.exporter import Exporter
from meshgen.mlir.lines import Pattern, Patterns, QuickPrinter, quoted

_NAME = re.compile(r"[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*")


@lru_cache(1 << 12)
def _reason(why: str) -> str:
    """As it is written; layers have the same ones."""
    return quoted(why.encode())


class TextPrinter(QuickPrinter):
    """Prints what `export_module` makes to `text`; the nodes of functions are converted on the way.

    A name that is taken already in the function gets a suffix, a number the next free one.
    """

    def __init__(self, exporter: Exporter, patterns: Patterns) -> None:
        self._exporter = exporter
        self._patterns = patterns
        super().__init__(self._patterns.types)
        self._given: list[dict[SSAValue | Value, str]] = [{}]
        self._taken: list[set[str]] = [set()]
        self._numbers = [0]
        self._suffixes: list[dict[str, int]] = [{}]

    def enter_scope(self) -> None:
        """Names of a function do not meet those of another."""
        super().enter_scope()
        self._given.append(dict(self._given[-1]))
        self._taken.append(set())
        self._numbers.append(0)
        self._suffixes.append({})

    def exit_scope(self) -> None:
        super().exit_scope()
        self._given.pop()
        self._taken.pop()
        self._numbers.pop()
        self._suffixes.pop()

    def print_block(self, block: Block, print_block_args: bool = True, print_block_terminator: bool = True) -> None:
        """Of the body of a function its nodes are printed."""
        if (body := self._exporter.bodies.get(block)) is None:
            super().print_block(block, print_block_args, print_block_terminator)
            return
        graph, exporter = body
        place = self._patterns.place(exporter.module)
        with self.indented():
            new_line = "\n" + " " * (self._indent * self.indent_num_spaces)
            for node in graph.nodes:
                if (pattern := self._patterns.of(node, place, exporter)) is not None:
                    self.text.write(new_line)
                    lines = pattern.lines % self._filled(pattern, node)
                    self.text.write(lines.replace("\n", new_line) if "\n" in lines else lines)
                else:
                    self._print_converted(exporter, node)
            self._print_new_line()
            self.print_op(func.ReturnOp(*map(exporter.ssa, graph.outputs)))

    def _filled(self, pattern: Pattern, node: Node) -> tuple[str, ...]:
        """What stands in the holes of a pattern. Names are given in the order in which they are printed."""
        values, given = [*node.operands, *node.results], self._given[-1]
        if pattern.own is not None:
            return tuple([given.get(value) or self._name(value) for value in map(values.__getitem__, pattern.own)])
        inner = len(values)
        names: dict[int, str] = {}
        found: list[str] = []
        for hole in pattern.holes:
            if hole is None:
                found.append(self._reasons(node))
            elif not isinstance(hole, int):
                found.append(hole(node.notes))
            elif hole < inner:
                value = values[hole]
                found.append(given[value] if value in given else self._name(value))
            else:
                if hole not in names:
                    names[hole] = self._new_name(pattern.inner[hole - inner])
                found.append(names[hole])
        return tuple(found)

    def _print_converted(self, exporter: Exporter, node: Node) -> None:
        """Print a node that has no pattern."""
        operations = exporter.operations(node)
        for value, ssa in zip(node.results, operations[-1].results, strict=True):
            exporter.stand_for(value, ssa)
        for operation in operations:
            self._print_new_line()
            self.print_op(operation)

    def _reasons(self, node: Node) -> str:
        return ", ".join([_reason(why) for why in node.sharding.why]) if node.sharding else ""

    def print_ssa_value(self, value: SSAValue) -> str:
        name = self._name(self._exporter.stands_for.get(value, value))
        self.print_string(f"%{name}")
        return name

    def share_name(self, value: SSAValue, other: SSAValue) -> None:
        """Let `other`, which has no name yet, print as `value` does."""
        self._given[-1][other] = self._name(value)

    def _name(self, value: SSAValue | Value) -> str:
        if (name := self._given[-1].get(value)) is None:
            name = self._given[-1][value] = self._new_name(self._preferred_name(value))
        return name

    def _preferred_name(self, value: SSAValue | Value) -> str:
        if isinstance(value, Value):
            return value.name
        return self._exporter.names.get(value, "") or value.name_hint or ""

    def _new_name(self, wanted: str) -> str:
        taken = self._taken[-1]
        if wanted in taken if wanted.isdecimal() and wanted.isascii() else not _NAME.fullmatch(wanted):
            wanted = self._free_number()
        elif wanted in taken:
            wanted = self._suffixed(wanted)
        taken.add(wanted)
        return wanted

    def _free_number(self) -> str:
        while (name := str(self._numbers[-1])) in self._taken[-1]:
            self._numbers[-1] += 1
        return name

    def _suffixed(self, wanted: str) -> str:
        stem = re.sub(r"_\d+$", "", wanted) or wanted
        suffixes = self._suffixes[-1]
        while True:
            number = suffixes[stem] = suffixes.get(stem, -1) + 1
            if (name := f"{stem}_{number}") not in self._taken[-1]:
                return name
