"""Interfaces to the fields of a `triton_source.KernelSource` that building and packaging read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Source(Protocol):
    """Interface to the fields of a kernel source that building needs."""

    @property
    def text(self) -> str: ...
    @property
    def entry(self) -> str: ...
    @property
    def params(self) -> Sequence[tuple[str, Any]]: ...
    @property
    def constants(self) -> Mapping[str, Any]: ...
    @property
    def num_warps(self) -> int: ...
    @property
    def num_stages(self) -> int: ...


class LaunchedSource(Source, Protocol):
    """Interface to the fields of a kernel source that building and launching need."""

    @property
    def grid(self) -> Sequence[int]: ...
    @property
    def flops(self) -> float: ...
    @property
    def bytes(self) -> float: ...
    @property
    def template(self) -> str: ...
