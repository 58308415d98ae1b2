"""Record the options and source locations of a module, so that its program can be planned and explained again.

The program texts in a module have no locations, so that they do not depend on the directory. The module's report has
each distinct location once, and the index of a location for every op of stage `import`, in text order.
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
from meshgen.runtime.module_file.json_values import get, optional, read_count, read_list, read_table, read_text, shown

if TYPE_CHECKING:  # type checking only: loading a module is not needed to compile a program
    from meshgen.runtime.module import LoadedModule

_Located = TypeVar("_Located")
# the figures by which a module is compared with a new plan of its program
FIGURES = ("step_seconds", "ring_bytes", "peak_memory_bytes")


def packaged_record(executable: Compiled) -> dict[str, Any]:
    """Return the report of a module: the program's record without wall times, and how it was planned."""
    options, module = executable.options, next(iter(executable.stages.values()))
    # without wall times, which would make the bytes of a module differ between compilations
    record = {key: value for key, value in executable.record().items() if key != "seconds"}
    choices = {
        "arguments": options.arguments,
        "target": options.target,
        "skip": list(options.skip),
        "memory_limit": options.memory_limit,
    }
    return record | {"planned": choices | places_record(module)}


def places_record(module: Module) -> dict[str, Any]:
    """Return the source locations of a program as a JSON-serializable dict.

    `places` has the file (its base name), line, column and scope of each location. `inputs` and `nodes` have an index
    into `places` per input and per node, or -1. `unnamed` lists the nodes with unnamed results, which the text of the
    program numbers.
    """
    index_by_location: dict[Location, int] = {}

    def numbered(located: Iterable[Value | Node]) -> list[int]:
        return [
            -1 if item.loc is None else index_by_location.setdefault(item.loc, len(index_by_location))
            for item in located
        ]

    nodes = list(all_nodes(module.graph))
    numbers = {"inputs": numbered(module.graph.inputs), "nodes": numbered(nodes)}
    numbers["unnamed"] = [index for index, node in enumerate(nodes) if not any(result.name for result in node.results)]
    places = [[file_name(place.file), place.line, place.column, place.scope] for place in index_by_location]
    return {"places": places} | numbers


def program_of(loaded: LoadedModule, path: str) -> tuple[Module, Options]:
    """Return the program that a module was compiled from, with its source locations and the options of its plan.

    Raises:
        UsageError: MG0002 if the module does not have the text of its program.
        ModuleError: MG0502 for malformed options or locations.
    """
    from meshgen.mlir.text import parse_text
    from meshgen.runtime.validation.load_checks import reading

    stages = loaded.stages
    if not stages:
        hint = "compile it again: this module was written without its stages"
        raise UsageError(Diagnostic("MG0002", f"'{path}' does not have the text of its program", hint=hint))
    module = parse_text(next(iter(stages.values())), path)
    with reading(Path(path)):
        chosen = _checked_choices({} if _has_open_sizes(loaded) else loaded.planned)
    module = _set_locations(module, chosen)
    options = Options(
        target=chosen.get("target") or ("cpu" if _has_open_sizes(loaded) else loaded.target),
        arguments=chosen.get("arguments", "local"),
        skip=tuple(chosen.get("skip", ())),
        memory_limit=chosen.get("memory_limit"),
    )
    return module, options


def _checked_choices(planned: Any) -> dict[str, Any]:
    """Check and convert the planning record in the report of a module.

    Raises:
        ValueError: a field has the wrong type.
    """
    chosen = read_table(planned)
    return {name: get(chosen, name, read) for name, read in _READERS.items() if name in chosen}


def _location(value: Any) -> Location:
    """Convert a list [file, line, column, scope] to a location."""
    if not isinstance(value, list) or len(value) != 4:
        raise ValueError(f"expected a file, line, column and scope, got {shown(value)}")
    file, line, column, scope = value
    return Location(read_text(file), read_count(line), read_count(column), read_text(scope))


_read_indices = partial(read_list, read=lambda value: value if value == -1 else read_count(value))
_READERS: dict[str, Callable[[Any], Any]] = {
    "arguments": read_text,
    "target": read_text,
    "skip": partial(read_list, read=read_text),
    "memory_limit": optional(read_count),
    "places": partial(read_list, read=_location),
    "inputs": _read_indices,
    "nodes": _read_indices,
    "unnamed": partial(read_list, read=read_count),
}


def _has_open_sizes(loaded: LoadedModule) -> bool:
    from meshgen.runtime.open_module import OpenModule

    return isinstance(loaded, OpenModule)


def _set_locations(module: Module, chosen: Mapping[str, Any]) -> Module:
    """Set the locations of inputs, their annotations and ops.

    Ops get no locations if the record has another number of ops.

    Results without names in the original program lose the numbers that the text gave them.
    """
    locations, unnamed = chosen.get("places", ()), {*chosen.get("unnamed", ())}
    for index, (node, loc) in enumerate(
        _paired_locations(list(all_nodes(module.graph)), chosen.get("nodes", ()), locations)
    ):
        node.loc = loc
        for value in node.results:
            value.loc = loc
            value.name = "" if index in unnamed else value.name
    for value, loc in _paired_locations(module.graph.inputs, chosen.get("inputs", ()), locations):
        value.loc = loc
    annotated_inputs = itertools.zip_longest(module.in_annotations, module.graph.inputs)
    return replace(
        module,
        in_annotations=[annotation and replace(annotation, loc=value.loc) for annotation, value in annotated_inputs],
    )


def _paired_locations(
    items: Sequence[_Located], numbers: Sequence[int], locations: Sequence[Location]
) -> Iterator[tuple[_Located, Location | None]]:
    if len(items) == len(numbers):
        yield from (
            (item, locations[index] if 0 <= index < len(locations) else None)
            for item, index in zip(items, numbers, strict=True)
        )


def differences(loaded: LoadedModule, executable: Compiled) -> list[str]:
    """Return the figures that differ between a loaded module and `executable`, its program as planned by this
    meshgen.
    """
    if _has_open_sizes(loaded):
        return []
    then, now = loaded.record(), executable.record()
    return [name for name in FIGURES if name in then and then[name] != now[name]]
