"""Which objects are programs of PyTorch, by what they have (torch is not imported), and the error of one that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meshgen.errors import Diagnostic, UsageError
from meshgen.runtime.sessions.torch_files import is_archive


def unusable(text: str, hint: str) -> UsageError:
    """Return the error of a program or arguments that cannot be used, MG0001."""
    return UsageError(Diagnostic("MG0001", text, hint=hint))


def is_torch(program: Any) -> bool:
    """Whether this is a `torch.export.ExportedProgram`, a `torch.nn.Module`, or the path of a `.pt2` file."""
    if isinstance(program, str | Path):
        return len(str(program)) < 4096 and "\n" not in str(program) and is_archive(Path(program))
    return is_exported(program) or is_module(program)


def is_exported(program: Any) -> bool:
    """Whether this is a `torch.export.ExportedProgram`."""
    return hasattr(program, "graph_signature") and hasattr(program, "module_call_graph")


def is_module(program: Any) -> bool:
    """Whether this is a `torch.nn.Module`."""
    return any(each.__module__ == "torch.nn.modules.module" and each.__name__ == "Module" for each in type(program).__mro__)  # fmt: skip


def is_training_step(program: Any) -> bool:
    """Whether this is what `training_step` returns."""
    return (type(program).__module__, type(program).__name__) == ("meshgen.frontend.torch.training", "TrainingStep")
