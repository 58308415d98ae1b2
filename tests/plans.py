"""Plans of program files for simulated ranks. Tests share these plans and must not change them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from meshgen import api
from meshgen.compiled.executable import Executable


@cache
def plan_of(path: Path) -> Executable:
    return api.plan(path, target="cpu")
