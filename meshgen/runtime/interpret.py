"""Execution of a module's Triton kernels on NumPy arrays with Triton's interpreter, without GPU and torch.

The interpreter patches `triton.language` while it runs, so a process can only interpret or compile one kernel at a
time. A compiler in the same process must hold `INTERPRETER_LOCK`. All patches are undone afterwards. The source of a
kernel is executed as Python, so the user must choose the interpreter explicitly.
"""

from __future__ import annotations

import importlib.util
import linecache
import threading
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshgen.errors import Diagnostic, MissingError, RuntimeFailure
from meshgen.ops.evaluate.common import Array
from meshgen.packages import install_line

INTERPRETER_LOCK = threading.RLock()


class InterpretedKernel:
    """A kernel for the interpreter. Its source is a Python module with a `triton.jit` function named `entry`."""

    def __init__(self, source_text: str, entry: str) -> None:
        """Load the source of a kernel.

        Raises:
            MissingError: MG0602, Triton is not installed.
            RuntimeFailure: MG0604, the source cannot be loaded.
        """
        self.entry = entry
        _require_triton(entry)
        file = f"<meshgen kernel {entry} {len(source_text)}:{zlib.crc32(source_text.encode()):08x}>"
        linecache.cache[file] = (len(source_text), None, source_text.splitlines(keepends=True), file)
        namespace: dict[str, Any] = {"__name__": "meshgen.interpreted", "__file__": file}
        with INTERPRETER_LOCK:
            try:
                exec(compile(source_text, file, "exec"), namespace)
                self._function = namespace[entry]
                self._names = [p.name for p in self._function.params if not p.is_constexpr]
                self._constants = [p.name for p in self._function.params if p.is_constexpr]
            except Exception as error:
                raise RuntimeFailure(
                    Diagnostic(
                        "MG0604", f"the source of kernel '{entry}' cannot be loaded ({type(error).__name__}: {error})"
                    )
                ) from error

    def launch(
        self, grid: Sequence[int], args: Sequence[Array | np.generic | int], constants: Mapping[str, Any]
    ) -> None:
        """Run all programs of the grid in order, and write results in place.

        Args:
            args: the parameters that are not `constexpr`, in order. A contiguous array is passed as a pointer to its
                first element, a NumPy scalar like an array without dims, and an int as an i32, or i64 if it is larger.
            constants: values of `constexpr` parameters; other names are ignored.
        Raises:
            RuntimeFailure: MG0604, the kernel failed, or accessed memory outside of the arguments.
        """
        from meshgen.runtime import interpret_triton

        if len(args) != len(self._names):
            raise RuntimeFailure(
                Diagnostic("MG0604", f"kernel '{self.entry}' takes {len(self._names)} arguments, got {len(args)}")
            )
        arguments = {
            n: np.asarray(a) if isinstance(a, np.generic) else a for n, a in zip(self._names, args, strict=True)
        }
        for name, arg in arguments.items():
            if isinstance(arg, np.ndarray) and not arg.flags.c_contiguous:
                raise RuntimeFailure(
                    Diagnostic("MG0604", f"kernel '{self.entry}': the array of '{name}' is not contiguous")
                )
        constexprs = {name: value for name, value in constants.items() if name in self._constants}
        shape = (*grid, 1, 1, 1)[:3]
        with INTERPRETER_LOCK, np.errstate(all="ignore"):
            interpret_triton.run(self._function, shape, arguments, constexprs)


def _require_triton(entry: str) -> None:
    if importlib.util.find_spec("triton") is None:
        raise MissingError(
            Diagnostic(
                "MG0602",
                f"kernel '{entry}': the interpreter needs Triton, which is not installed",
                hint=f"{install_line('triton')}, or run with --device reference",
            )
        )
