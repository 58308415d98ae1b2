"""Write the page of the Python interface: the public names of `meshgen` by topic, with signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from typing import Any

import meshgen

HEAD = """This page lists the names of `import meshgen as mg`, except the functions for traced programs, which [functions.md](functions.md) lists. All other names are
internal and change without notice ([compatibility.md](compatibility.md)). Every error is a `mg.MeshgenError` with a number of [diagnostics.md](diagnostics.md).
"""
TOPICS = {
    "Meshes and shardings": ("make_mesh", "Mesh", "P", "Sharding", "show"),
    "Programs": ("spec", "annotate", "manual", "op_rule", "from_jax", "trace", "Tensor"),
    "Compiling": ("compile", "Executable", "lower", "advise"),
    "Search": ("search", "mutate"),
    "Modules": ("load", "LoadedModule", "replan", "Session", "ShardedArray", "simulate"),
    "Faults": ("MeshgenError",),
}
# classes of objects that functions return and users do not create themselves
RETURNED = {"LoadedModule": "meshgen.runtime.module"}
METHODS_ELSEWHERE = {"Tensor": "[functions.md](functions.md#methods-of-tensors) lists its methods."}
_SECTIONS = ("Args", "Attributes", "Returns", "Raises")


def api_page(note: str) -> str:
    """Return the page with `note` below the title. Public names without a topic come last."""
    listed = {name for names in TOPICS.values() for name in names}
    topics = TOPICS | {"More": tuple(name for name in meshgen.__all__ if name not in listed)}
    parts = [f"# Python interface\n\n{note}\n{HEAD}"]
    for topic, names in topics.items():
        if names:
            parts += [f"## {topic}\n", *map(_entry, names)]
    return "\n".join(parts)


def _entry(name: str) -> str:
    item = getattr(import_module(RETURNED[name]), name) if name in RETURNED else getattr(meshgen, name)
    shown = name if inspect.isclass(item) else f"{name}{_parameters(item)}"
    lines = [
        f"### {name}\n",
        f"```text\n{'' if name in RETURNED else 'mg.'}{shown}\n```\n",
        described(inspect.getdoc(item) or ""),
    ]
    if inspect.isclass(item):
        lines.append(METHODS_ELSEWHERE.get(name) or _methods(item))
    return "\n".join(lines) + "\n"


def _parameters(function: Any) -> str:
    """Return the parameters with their defaults, without types."""
    signature = inspect.signature(function)
    untyped = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(untyped))


def described(text: str) -> str:
    """Return a docstring as Markdown, with its sections (`Args:`, `Raises:`, ...) as lists."""
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        if line.rstrip(":") in _SECTIONS and line.endswith(":"):
            section = line.rstrip(":")
            lines += ["", f"**{section}**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, rest = line.strip().partition(": ")
            is_name = colon and re.fullmatch(r"[\w*]+", name)
            lines.append(f"- `{name}`: {rest}" if is_name else f"- {line.strip()}")
        elif section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            section = section if not line else ""
            lines.append(line)
    return "\n".join(lines).strip() + "\n"


def _methods(cls: type) -> str:
    """Return a Markdown table of the public methods and properties of `cls` that have a docstring."""
    rows = [f"| `{shown}` | {first} |" for shown, first in _members(cls)]
    return "\n".join(["| member | meaning |\n| --- | --- |", *rows, ""]) if rows else ""


def _members(cls: type) -> Iterator[tuple[str, str]]:
    bases = [base for base in reversed(cls.__mro__) if base.__module__.startswith("meshgen")]
    for name in dict.fromkeys(name for base in bases for name in vars(base)):
        member = inspect.getattr_static(cls, name)
        function = getattr(member, "__func__", member)
        is_member = inspect.isfunction(function) or isinstance(member, (property, cached_property))
        text = inspect.getdoc(member) or ""
        if not is_member or not text or (name.startswith("_") and name != "__call__"):
            continue
        shown = f"{name}{_parameters(function)}" if inspect.isfunction(function) else name
        yield _cell(shown.replace("(self, ", "(").replace("(self)", "()")), _cell(text.split("\n")[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
