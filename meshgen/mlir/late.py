"""Operations that xDSL defines when a program first has one of them.

To define one takes as long as reading several lines of a program, and a program has few of StableHLO's and CHLO's two hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from xdsl.context import Context
from xdsl.ir import Operation


class LateOperation:
    """The operation `name` ("dialect.mnemonic"), which `make` defines; `base` is the class of its form."""

    def __init__(self, name: str, base: Any, make: Callable[[], type[Operation]]) -> None:
        self.name = name
        self.base = base
        self._make = make

    @cached_property
    def kind(self) -> type[Operation]:
        return self._make()

    def create(self, **given: Any) -> Operation:
        """One of its operations; the arguments are those of xDSL's `Operation.create`."""
        return self.kind.create(**given)


class LateContext(Context):
    """xDSL's context, which knows late operations too."""

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
