"""Predicates that recognize PyTorch programs without importing torch, and the error for unusable programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from meshgen.errors import Diagnostic, UsageError
from meshgen.runtime.sessions.torch_files import is_archive


def unusable(text: str, hint: str) -> UsageError:
    """Return a UsageError MG0001 for a program or arguments that cannot be imported."""
    return UsageError(Diagnostic("MG0001", text, hint=hint))


def is_torch(program: Any) -> bool:
    """Whether `program` is a `torch.export.ExportedProgram`, a `torch.nn.Module`, or the path of a `.pt2` file."""
    if isinstance(program, str | Path):
        return len(str(program)) < 4096 and "\n" not in str(program) and is_archive(Path(program))
    return is_exported(program) or is_module(program)


def is_exported(program: Any) -> bool:
    """Whether `program` is a `torch.export.ExportedProgram`."""
    return hasattr(program, "graph_signature") and hasattr(program, "module_call_graph")


def is_module(program: Any) -> bool:
    """Whether `program` is a `torch.nn.Module`."""
    return any(cls.__module__ == "torch.nn.modules.module" and cls.__name__ == "Module" for cls in type(program).__mro__)  # fmt: skip


def is_training_step(program: Any) -> bool:
    """Whether `program` was returned by `training_step`."""
    return (type(program).__module__, type(program).__name__) == ("meshgen.frontend.torch.training", "TrainingStep")
