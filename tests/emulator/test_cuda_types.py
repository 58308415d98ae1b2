"""The emulated driver's names, numbers and functions are those of cuda-bindings, where that is installed."""

from __future__ import annotations

import inspect
from enum import IntEnum
from typing import Any

import pytest

from meshgen.emulator.cuda import types as cuda_types
from meshgen.emulator.cuda.driver import EmulatedDriver

ENUMS = [
    kind
    for kind in vars(cuda_types).values()
    if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
]
FUNCTIONS = sorted(name for name in dir(EmulatedDriver) if name.startswith("cu"))


@pytest.fixture(scope="module")
def driver() -> Any:
    return pytest.importorskip("cuda.bindings.driver")


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_numbers_are_nvidias(enum: type[IntEnum], driver: Any) -> None:
    theirs = getattr(driver, enum.__name__)
    assert {member.name: int(member) for member in enum} == {m.name: int(getattr(theirs, m.name)) for m in enum}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_are_nvidias(name: str, driver: Any) -> None:
    """The same names in the same order. The C wrappers say them in the first line of their text."""
    own = [p for p in inspect.signature(getattr(EmulatedDriver, name)).parameters if p != "self"]
    head = (getattr(driver, name).__doc__ or "").splitlines()[0]
    inside = head[head.index("(") + 1 : head.rindex(")")]
    theirs = [part.split("=")[0].split(":")[0].split()[-1].lstrip("*") for part in inside.split(",") if part.strip()]
    assert [name.lower() for name in own] == [name.lower() for name in theirs]


def test_boxes_have_nvidias_fields(driver: Any) -> None:
    assert set(vars(cuda_types.CUDA_MEMCPY3D())) <= set(dir(driver.CUDA_MEMCPY3D()))
