"""`mlir-opt` of LLVM 22, if it is installed (Debian: mlir-22-tools)."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache

import pytest

VERSION = 22


@cache
def _program() -> str | None:
    for name in (f"mlir-opt-{VERSION}", "mlir-opt"):
        path = shutil.which(name)
        if (
            path
            and f"LLVM version {VERSION}." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        ):
            return path
    return None


def mlir_opt(text: str, *options: str) -> str:
    """Return what mlir-opt prints for `text`. Fails if it rejects the text, and skips the test if it is not installed."""
    program = _program()
    if program is None:
        pytest.skip(f"mlir-opt of LLVM {VERSION} is not on PATH (Debian: mlir-{VERSION}-tools)")
    process = subprocess.run([program, *options], input=text, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stdout


def partitioned(text: str) -> str:
    """Return the per-device program that upstream's partition pass generates."""
    return mlir_opt(text, "--pass-pipeline=builtin.module(func.func(shard-partition))")


def local_types(text: str) -> list[str]:
    """Return the per-device argument types of the public function in `text`."""
    signature = re.search(r"func\.func public @\w+\((.*?)\) ->", text)
    assert signature
    return re.findall(r"tensor<[^>]*>", signature[1])
