"""Conversion of modules from and to MLIR text, for every compilation stage and every supported dialect."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects import builtin, func
from xdsl.ir import Operation
from xdsl.utils.exceptions import ParseError, VerifyException

from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.gc_pace import infrequent_gc
from meshgen.ir.graph import Module
from meshgen.ir.multi_mesh import assemble_parts
from meshgen.mesh import Mesh
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.families import core_dialects, dialects
from meshgen.mlir.module import check_module, import_module, import_parts, print_module
from meshgen.mlir.old_names import base_name
from meshgen.mlir.parser import TextParser
from meshgen.mlir.reader_state import Source
from meshgen.mlir.shard.complete import complete
from meshgen.mlir.stablehlo.custom_calls.targets import call_fault
from meshgen.runtime.module_file.resources import Resources

_OPERATION = re.compile(
    r'^[^\S\n]*(?:%[\w$.:, %-]+=[^\S\n]*)?(?:"(\w+\.[\w.]+)"[^\S\n]*\(|(?!module\b)(\w+\.[\w.]+)(?=[\s(<])(?![^\S\n]*=))', re.MULTILINE
)  # fmt: skip

_WRAPPED = "_wrapped_jax_export_main"
_UNNAMED = re.compile(r"arg\d+")
_CALL = re.compile(
    r'^[^\n/]*\bcustom_call\b(?:[^\S\n]+@([\w.$]+)|[^\n]*\bcall_target_name[^\S\n]*=[^\S\n]*"([^"\n]+)")', re.MULTILINE
)
_OPERATION_HINT = (
    "docs/ops.md lists the supported operations: use these, or stablehlo.custom_call @NAME with a function NAME that "
    "@mg.op_rule defines"
)

_HINTS = {"cf": "use scf.if, scf.for or scf.while: mlir-opt --lift-cf-to-scf converts branches between blocks to them"}


@infrequent_gc()
def parse_text(
    text: str, file: str = "-", meshes: Sequence[Mesh] = (), entry: str = "", is_written: bool = True,
    called: Callable[[str], str] | None = None, is_global: bool = False,
) -> Module:  # fmt: skip
    """Parse MLIR text into a module.

    Args:
        file: name of the text in diagnostics.
        meshes: meshes that supply axis sizes which the text leaves open.
        entry: name of the function to compile; empty for @main or the only public one. Calls are inlined into it.
        is_written: whether a user wrote the text. If not, only operations with a `loc` have a location in diagnostics.
        called: returns the name of an input, given the name in the `loc` of its argument `%arg0`. If None, names in
            `loc` are ignored.
        is_global: whether the program is on global arrays even if it has collectives, in groups of one device, outside
            of manual computations.
    Raises:
        UsageError: MG0001 for an unknown entry function.
        ProgramError: MG0102 for an empty text, MG0103 with all unsupported operations, MG0101 with line and caret for a
            syntax error, MG0104 and MG02xx with all malformed operations.
    """
    if not re.sub(r"//[^\n]*", "", text).strip():
        raise ProgramError(Diagnostic("MG0102", "the text is empty", Location(file, 0)))
    tables = dialects(text)
    parser = _parser(tables.context, text, file)
    _refuse_unsupported(text, tables, parser)
    try:
        top = parser.parse_module()
    except ParseError as error:
        raise _located(_parse_fault(error), parser, parser.undefined_at() or error.span.start) from error
    except (VerifyException, ValueError, OverflowError, RuntimeError, struct.error) as error:
        message = "the program is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _located(message, parser, parser.pos) from error
    source = Source(parser.locate if is_written else parser.named_location, parser.name_of, parser.lines.like.get)
    inner = [operation for operation in _operations(top, source) if isinstance(operation, builtin.ModuleOp)]
    if not inner:
        module = _complete(top, source, tables, meshes, entry=entry, is_global=is_global)
        if called is not None:
            _rename_inputs(module, top, parser, called)
        return module
    module = import_parts(top, inner, source, tables)
    return assemble_parts(module, [_complete(operation, source, tables, meshes, is_part=True) for operation in inner])


def _operations(top: builtin.ModuleOp, source: Source) -> Sequence[Operation]:
    """Return the operations of a module.

    Raises ProgramError unless the module has exactly one block. The generic form allows other counts.
    """
    blocks = top.regions[0].blocks
    if len(blocks) != 1:
        message = f"builtin.module has {len(blocks)} blocks"
        raise ProgramError(Diagnostic("MG0104", message, source.locate(top), hint="write its operations in one block"))
    return [*blocks[0].ops]


def _rename_inputs(module: Module, top: builtin.ModuleOp, parser: TextParser, called: Callable[[str], str]) -> None:
    """Name the inputs of the module by the names in the `loc` of its arguments, if the resulting names are unique.

    JAX exports a program with symbolic sizes as a wrapper, whose first arguments are the sizes, around a function whose
    arguments have these names.
    """
    functions = {function.sym_name.data: function for function in top.ops if isinstance(function, func.FuncOp)}
    named_function, inputs = functions.get(_WRAPPED, functions[module.graph.name]), module.graph.inputs
    arguments = list(named_function.args)[len(named_function.args) - len(inputs) :]
    names = [value.name for value in inputs]
    for index, argument in enumerate(arguments):
        if _UNNAMED.fullmatch(parser.name_of(argument)) and (name := parser.location_name(argument)):
            names[index] = called(name)
    if len({*names}) == len(names):
        for value, name in zip(inputs, names, strict=True):
            value.name = name


def _complete(
    top: builtin.ModuleOp,
    source: Source,
    tables: Dialect,
    meshes: Sequence[Mesh],
    is_part: bool = False,
    entry: str = "",
    is_global: bool = False,
) -> Module:
    """Convert and check one module: the whole text, or an inner module of a multi-mesh program."""
    # In Shardy programs, and hence in those from JAX, only manual computations contain per-device code.
    operations = _operations(top, source)
    is_global = is_global or any(operation.name == "sdy.mesh" or _is_from_jax(operation) for operation in operations)
    module = complete(import_module(top, source, tables, meshes, is_part, entry), is_global)
    check_module(module)
    return module


def _is_from_jax(operation: Operation) -> bool:
    """Whether `operation` is a function that JAX lowered, which has the attribute `jax.result_info` on its results."""
    results = operation.res_attrs if isinstance(operation, func.FuncOp) else None
    return results is not None and any("jax.result_info" in entry.data for entry in results.data)


def print_text(module: Module, resources: Resources | None = None) -> str:
    """Return the text of a module. `parse_text` reads it back into an equivalent module.

    Equal modules have equal texts. If `resources` is not None, large constants are stored in it and the text refers to
    them.
    """
    return print_module(module, core_dialects(), resources) + "\n"


def _parse_fault(error: ParseError) -> str:
    """Return the message of an error of xDSL. Some messages contain a placeholder for the character, which is filled
    in.
    """
    return error.msg.replace("{first_char}", f"'{error.span.input.at(error.span.start)}'")


def _parser(context: Context, text: str, file: str) -> TextParser:
    try:
        return TextParser(context, text, file)
    except ParseError as error:  # The constructor lexes the first token, which may be invalid.
        raise ProgramError(_diagnostic(_parse_fault(error), text, Location(file, 1, 1))) from error


def _refuse_unsupported(text: str, tables: Dialect, parser: TextParser) -> None:
    """Raise a ProgramError with a fault for each unsupported operation name, located at its first occurrence in the
    text.

    If there is one, also report unsupported custom calls, so that the user sees everything that is unsupported at once.
    """
    first: dict[str, int] = {}
    for match in _OPERATION.finditer(text):
        group = 1 if match[1] else 2
        first.setdefault(match[group], match.start(group))
    if unknown := {name: at for name, at in first.items() if not _is_supported(base_name(name), tables)}:
        faults = {
            at: (f"operation {name} is not supported", _HINTS.get(name.partition(".")[0], _OPERATION_HINT))
            for name, at in unknown.items()
        }
        faults |= _call_faults(text)
        raise ProgramError(
            *(
                Diagnostic("MG0103", message, parser.location_at(at), hint=hint)
                for at, (message, hint) in sorted(faults.items())
            )
        )


def _call_faults(text: str) -> dict[int, tuple[str, str]]:
    """Return the message and hint for each unsupported custom call target, by the text offset of its first call."""
    first: dict[str, int] = {}
    for match in _CALL.finditer(text):
        group = 1 if match[1] else 2
        first.setdefault(match[group], match.start(group))
    faults = ((at, call_fault(name)) for name, at in first.items())
    return {at: fault for at, fault in faults if fault}


def _is_supported(name: str, tables: Dialect) -> bool:
    is_defined = tables.context.get_optional_op(name) is not None
    return is_defined and (tables.is_read(name) or name.endswith((".return", ".module", "func.func")))


def _located(message: str, parser: TextParser, position: int) -> ProgramError:
    content = parser.lexer.input.content
    loc = parser.location_at(
        min(position, len(content.rstrip()))
    )  # Locate an error at the end of the text just after the last character that is not white space.
    return ProgramError(_diagnostic(message, content, loc))


def _diagnostic(message: str, text: str, loc: Location) -> Diagnostic:
    """Return the diagnostic for a syntax error at `loc`.

    If the file cannot be read again, for example if it is standard input, a note quotes the line.
    """
    message = " ".join(message.split())
    if Path(loc.file).is_file():
        return Diagnostic("MG0101", message, loc)
    lines = text.splitlines() or [""]
    line = lines[min(loc.line, len(lines)) - 1]
    first = max(0, loc.column - 61)
    excerpt = f"{line[first : first + 140]}\n  | {' ' * (loc.column - 1 - first)}^"
    return Diagnostic("MG0101", message, loc, notes=((f"the line is\n  | {excerpt}", None),))
