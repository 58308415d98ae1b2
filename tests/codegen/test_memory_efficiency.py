"""Tests of the share of moved memory sectors that kernels use, for known access patterns."""

from __future__ import annotations

import pytest
from code_of_text import code_of

from meshgen.codegen.bounds.accesses import Given
from meshgen.codegen.memory_efficiency import Traffic, efficiency, traffic

FLAT = "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
TILE = "m = (tl.program_id(0) * 64 + tl.arange(0, 64))[:, None]\nn = tl.arange(0, 32)[None, :]\n"


def traffic_of(lines: str, width: float = 4, size: int = 2**20, programs: int = 4) -> list[Traffic]:
    """Return the traffic of each access of a kernel. Elements of `x_ptr` have `width` bytes, and BLOCK is 1024."""
    text = "def kernel(x_ptr, BLOCK):\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    return traffic(code_of(text), Given({"x_ptr": size}, {}, programs, {"BLOCK": 1024}), {"x_ptr": width})


@pytest.mark.parametrize(
    ("access", "width", "share"),
    [
        (FLAT + "tl.load(x_ptr + i)", 4, 1.0),
        (FLAT + "tl.load(x_ptr + i * 4)", 4, 0.25),
        (FLAT + "tl.load(x_ptr + i * 64)", 4, 0.125),
        (FLAT + "tl.load(x_ptr + i * 2)", 2, 0.5),
        (FLAT + "tl.load(x_ptr + i * 16)", 2, 0.0625),
        (FLAT + "tl.store(x_ptr + i, 1.0)", 1, 1.0),
        (FLAT + "tl.load(x_ptr + i, mask=i % 16 < 8, other=0)", 4, 1.0),  # complete sectors
        (FLAT + "tl.load(x_ptr + i, mask=i % 8 < 4, other=0)", 4, 0.5),
        (FLAT + "tl.load(x_ptr + i // 32)", 4, 1.0),  # lanes that share an element share its sector
        (TILE + "tl.load(x_ptr + m * 1000 + n)", 4, 1.0),
        (TILE + "tl.load(x_ptr + m * 1000 + n * 8)", 4, 0.125),
        (TILE + "tl.load(x_ptr + n * 4096 + m)", 4, 1.0),
        (TILE + "tl.load(x_ptr + n * 4096 + m * 1024)", 4, 0.125),
        (FLAT + "row = tl.load(x_ptr + i // 64)\ntl.load(x_ptr + row * 64 + i % 64)", 4, 1.0),
    ],
)
def test_sector_efficiency_depends_on_access_pattern(access: str, width: float, share: float) -> None:
    *_, last = traffic_of(access, width)
    assert last.efficiency == pytest.approx(share)


def test_traffic_counts_all_programs_and_iterations() -> None:
    (load,) = traffic_of(
        "for k in range(0, 640, 32):\n    tl.load(x_ptr + tl.program_id(0) * 640 + k + tl.arange(0, 32))", programs=10
    )
    assert load.wanted == load.moved == 10 * 640 * 4


def test_kernel_efficiency_is_weighted_by_moved_bytes() -> None:
    accesses = traffic_of(FLAT + "x = tl.load(x_ptr + i * 8)\ntl.store(x_ptr + i, x)")
    assert efficiency(accesses) == pytest.approx(2 / (8 + 1))
    assert efficiency([]) == 1.0
