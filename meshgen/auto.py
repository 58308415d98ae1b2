"""The Python interface of the sharding search: `search` finds the best shardings of arguments, `mutate` changes one
op's sharding.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshgen.api import planning, read_with
from meshgen.calls.callers import at_callers_line
from meshgen.codegen.targets import resolve_target
from meshgen.compiled.executable import Executable
from meshgen.frontend.arguments import Args
from meshgen.frontend.donate import Donate
from meshgen.frontend.specs import Specs
from meshgen.ir.graph import Module
from meshgen.machine.profiles import Machine
from meshgen.mesh import Meshes
from meshgen.options import CompileOptions
from meshgen.pipeline import Progress
from meshgen.search import mutate as mutation
from meshgen.search import search_loop
from meshgen.search.mutate import Option
from meshgen.search.result import Found
from meshgen.search.search_loop import SECONDS


@at_callers_line
def search(graph: Any, mesh: Meshes = None, *, args: Args = None, in_specs: Specs = None, out_specs: Specs = None,
           target: str | None = None, arguments: str = "local", memory_limit: int | None = None, skip: Sequence[str] = (),
           entry: str = "", donate: Donate = None, machine: str | Path | Machine | None = None, seconds: float = SECONDS,
           progress: Progress | None = None) -> Found:  # fmt: skip
    """Find the shardings of a program's arguments with the shortest step. Existing annotations are kept.

    The result's `specs` can be passed as `in_specs`, its `module` to `compile`. Its `sentences` describe the solution.
    Arguments not listed here have the same meaning as in `compile`.

    Args:
        memory_limit: limit of the step's memory in bytes per device.
        seconds: time limit, including reading the program. The first solution is always planned, even after the limit.
    Raises:
        CodegenError: MG0303, no solution fits into the memory.
        ProgramError, ShardingError, UsageError: the same errors as `compile`, and for programs on several meshes or
            with unknown sizes.
    """
    began = time.monotonic()
    chosen = CompileOptions(
        args=args, in_specs=in_specs, out_specs=out_specs, target=target, arguments=arguments, memory_limit=memory_limit,
        skip=skip, entry=entry, donate=donate, machine=machine,
    )  # fmt: skip
    module, signature = read_with(graph, mesh, chosen)
    options = replace(chosen.for_stages(), target=resolve_target(target, module.meshes or (module.mesh,)))
    seconds_left = seconds - (time.monotonic() - began)
    return search_loop.search(module, options, planning(signature), seconds=seconds_left, progress=progress)


@at_callers_line
def mutate(program: Executable | Module, op: str, option: Option) -> Module:
    """Return the unpropagated program in which the loops of one op have a new sharding. It can be passed to `compile`.

    Args:
        program: compiled, or a Module at stage import.
        op: the name of the op's result (`%h`), or the op's source line.
        option: the mesh axis, axes, or None for each loop (factor) of the op, in the order of the op's sharding rule.
    Raises:
        UsageError: MG0001, no op or several match.
    """
    return mutation.mutate(program.stages["import"] if isinstance(program, Executable) else program, op, option)
