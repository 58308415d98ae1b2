"""Operations that xDSL defines when a text first has one of them.

A program has few of the 175 operations of StableHLO and CHLO. Defining only these saves 10 ms of CPU time (2 %) of
`meshgen compile examples/transformer_block.mlir --target cpu`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from xdsl.context import Context
from xdsl.ir import Operation


class LateOperation:
    """An operation `name` ("dialect.mnemonic") that `make` defines on first use. `base` is the class of its form."""

    def __init__(self, name: str, base: Any, make: Callable[[], type[Operation]]) -> None:
        self.name = name
        self.base = base
        self._make = make

    @cached_property
    def kind(self) -> type[Operation]:
        return self._make()

    def create(self, **given: Any) -> Operation:
        """Create an instance; the arguments are those of xDSL's `Operation.create`."""
        return self.kind.create(**given)


class LateContext(Context):
    """A context of xDSL that also looks up late operations."""

    def __init__(self) -> None:
        super().__init__()
        self._late: dict[str, LateOperation] = {}

    def load_late(self, operation: LateOperation) -> None:
        self._late[operation.name] = operation

    @property
    def loaded_ops(self) -> Iterable[type[Operation]]:
        return [*super().loaded_ops, *(each.kind for each in self._late.values())]

    def _get_known_op(self, name: str) -> type[Operation] | None:
        late = self._late.get(name)
        return late.kind if late else super()._get_known_op(name)
