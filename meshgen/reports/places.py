"""How a module was planned, so that it can be planned and explained again: its options, and the places of its operations.

Texts of stages have no places, so that they do not depend on the directory. A module's report has them beside: each distinct place
once, and its number for every operation of stage `import`, in the order of the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from meshgen.errors import Diagnostic, Location, UsageError, file_name
from meshgen.ir.graph import Module, Node, Value
from meshgen.ir.regions import all_nodes
from meshgen.pipeline import Options
from meshgen.reports.interface import Compiled
from meshgen.runtime.module_file.json_values import each_of, get, optional, read_count, read_table, read_text, shown

if TYPE_CHECKING:  # compiling a program loads no module
    from meshgen.runtime.module import LoadedModule

_Placed = TypeVar("_Placed")
FIGURES = ("step_seconds", "ring_bytes", "peak_memory_bytes")  # by which a module and its plan are compared


def packaged_record(executable: Compiled) -> dict[str, Any]:
    """The report of a module: the program's record without the times of this compilation, and how it was planned."""
    options, module = executable.options, next(iter(executable.stages.values()))
    record = {key: value for key, value in executable.record().items() if key != "seconds"}  # the same bytes every time
    choices = {
        "arguments": options.arguments,
        "target": options.target,
        "skip": list(options.skip),
        "memory_limit": options.memory_limit,
    }
    return record | {"planned": choices | places_record(module)}


def places_record(module: Module) -> dict[str, Any]:
    """`places`: file (its base name), line, column and scope; `inputs` and `nodes`: of each its place, -1 without one.

    `unnamed` are the nodes whose results have no names, which a text numbers.
    """
    known: dict[Location, int] = {}

    def numbered(found: Iterable[Value | Node]) -> list[int]:
        return [-1 if each.loc is None else known.setdefault(each.loc, len(known)) for each in found]

    nodes = list(all_nodes(module.graph))
    numbers = {"inputs": numbered(module.graph.inputs), "nodes": numbered(nodes)}
    numbers["unnamed"] = [number for number, node in enumerate(nodes) if not any(each.name for each in node.results)]
    places = [[file_name(place.file), place.line, place.column, place.scope] for place in known]
    return {"places": places} | numbers


def program_of(loaded: LoadedModule, path: str) -> tuple[Module, Options]:
    """The program that a module was compiled from, with the places of its operations, and the options it was planned with.

    Raises UsageError MG0002 for a module without the text of its program, ModuleError MG0502 for malformed options and places.
    """
    from meshgen.mlir.text import parse_text
    from meshgen.runtime.validation.checked import reading

    stages = loaded.stages
    if not stages:
        hint = "compile it again: this module was written without its stages"
        raise UsageError(Diagnostic("MG0002", f"'{path}' does not have the text of its program", hint=hint))
    module = parse_text(next(iter(stages.values())), path)
    with reading(Path(path)):
        chosen = _checked({} if _has_open_sizes(loaded) else loaded.planned)
    module = _placed(module, chosen)
    options = Options(
        target=chosen.get("target") or ("cpu" if _has_open_sizes(loaded) else loaded.target),
        arguments=chosen.get("arguments", "local"),
        skip=tuple(chosen.get("skip", ())),
        memory_limit=chosen.get("memory_limit"),
    )
    return module, options


def _checked(planned: Any) -> dict[str, Any]:
    """What a module's file says of how it was planned. Raises ValueError for values of another kind."""
    chosen = read_table(planned)
    return {name: get(chosen, name, read) for name, read in _READERS.items() if name in chosen}


def _location(value: Any) -> Location:
    """A place: file, line, column and scope."""
    if not isinstance(value, list) or len(value) != 4:
        raise ValueError(f"expected a file, line, column and scope, got {shown(value)}")
    file, line, column, scope = value
    return Location(read_text(file), read_count(line), read_count(column), read_text(scope))


_numbers = partial(each_of, read=lambda value: value if value == -1 else read_count(value))
_READERS: dict[str, Callable[[Any], Any]] = {
    "arguments": read_text,
    "target": read_text,
    "skip": partial(each_of, read=read_text),
    "memory_limit": optional(read_count),
    "places": partial(each_of, read=_location),
    "inputs": _numbers,
    "nodes": _numbers,
    "unnamed": partial(each_of, read=read_count),
}


def _has_open_sizes(loaded: LoadedModule) -> bool:
    from meshgen.runtime.open_module import OpenModule

    return isinstance(loaded, OpenModule)


def _placed(module: Module, chosen: Mapping[str, Any]) -> Module:
    """Gives inputs, their annotations and operations their places; none to those of a text that has another number of them.

    Results that had no names in the program lose the numbers of the text.
    """
    known, unnamed = chosen.get("places", ()), {*chosen.get("unnamed", ())}
    for number, (node, loc) in enumerate(_paired(list(all_nodes(module.graph)), chosen.get("nodes", ()), known)):
        node.loc = loc
        for value in node.results:
            value.loc = loc
            value.name = "" if number in unnamed else value.name
    for value, loc in _paired(module.graph.inputs, chosen.get("inputs", ()), known):
        value.loc = loc
    ends = itertools.zip_longest(module.in_annotations, module.graph.inputs)
    return replace(module, in_annotations=[each and replace(each, loc=value.loc) for each, value in ends])


def _paired(
    found: Sequence[_Placed], numbers: Sequence[int], known: Sequence[Location]
) -> Iterator[tuple[_Placed, Location | None]]:
    if len(found) == len(numbers):
        yield from (
            (each, known[number] if 0 <= number < len(known) else None)
            for each, number in zip(found, numbers, strict=True)
        )


def differences(loaded: LoadedModule, executable: Compiled) -> list[str]:
    """The figures in which a module differs from its program as planned now, by this version of meshgen."""
    if _has_open_sizes(loaded):
        return []
    then, now = loaded.record(), executable.record()
    return [name for name in FIGURES if name in then and then[name] != now[name]]
