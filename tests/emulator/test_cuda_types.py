"""Tests that names, enum values and functions of the emulated driver match cuda-bindings, if it is installed."""

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
def test_enum_values_match_nvidia(enum: type[IntEnum], driver: Any) -> None:
    nvidia_enum = getattr(driver, enum.__name__)
    assert {member.name: int(member) for member in enum} == {m.name: int(getattr(nvidia_enum, m.name)) for m in enum}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_driver_parameters_match_nvidia(name: str, driver: Any) -> None:
    """Parameters have the same names in the same order. cuda-bindings lists them in the first line of each docstring."""
    emulated_parameters = [p for p in inspect.signature(getattr(EmulatedDriver, name)).parameters if p != "self"]
    head = (getattr(driver, name).__doc__ or "").splitlines()[0]
    inside = head[head.index("(") + 1 : head.rindex(")")]
    nvidia_parameters = [
        part.split("=")[0].split(":")[0].split()[-1].lstrip("*") for part in inside.split(",") if part.strip()
    ]
    assert [name.lower() for name in emulated_parameters] == [name.lower() for name in nvidia_parameters]


def test_memcpy3d_fields_match_nvidia(driver: Any) -> None:
    assert set(vars(cuda_types.CUDA_MEMCPY3D())) <= set(dir(driver.CUDA_MEMCPY3D()))
