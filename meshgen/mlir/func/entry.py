"""Choice of a module's entry function: the one that the user names, else @main, else the only public one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, SymbolRefAttr
from xdsl.ir import Operation

from meshgen.errors import Diagnostic, EntryError, ProgramError, UsageError, listed
from meshgen.mlir.reader_state import Reading

# Attribute of a private function that is the body of a kernel. The value is the name of the kernel template.
KERNEL = "meshgen.kernel"


def entry_of(functions: Sequence[func.FuncOp], reading: Reading, name: str) -> func.FuncOp:
    """Return the function to compile.

    It is the function `name` if the user names one, else the public function `main`, else the only public function that
    no other function calls.
    """
    if name:
        return _function_named(functions, name.removeprefix("@"))
    public = [f for f in functions if f.sym_visibility is None or f.sym_visibility.data == "public"]
    public = [function for function in public if KERNEL not in function.attributes]
    if not public:
        refuse_without_function(functions[0], reading)
    mains = [function for function in public if function.sym_name.data == "main"]
    if len(public) > 1 and not mains:
        called = {
            operation.callee.string_value()
            for function in functions
            for operation in function.walk()
            if isinstance(operation, func.CallOp)
        }
        public = [function for function in public if function.sym_name.data not in called] or public
    if len(public) > 1 and not mains:
        names = listed([f"@{function.sym_name.data}" for function in public])
        message = f"the module has {len(public)} public functions ({names}) and none is @main"
        first = public[0].sym_name.data
        hint = f"choose one: --entry {first}, in Python entry={first!r}"
        error = EntryError(Diagnostic("MG0104", message, reading.source.locate(public[1]), hint=hint))
        error.names = [function.sym_name.data for function in public]
        raise error
    return (mains or public)[0]


def _function_named(functions: Sequence[func.FuncOp], name: str) -> func.FuncOp:
    """Return the function `name`, which the user has chosen. Raises UsageError MG0001 if it does not exist or has no
    body.
    """
    defined = [candidate for candidate in functions if candidate.body.blocks and KERNEL not in candidate.attributes]
    function = next((candidate for candidate in defined if candidate.sym_name.data == name), None)
    if function is None:
        names = listed([f"@{candidate.sym_name.data}" for candidate in defined]) or "none"
        raise UsageError(Diagnostic("MG0001", f"unknown function '@{name}'", hint=f"known functions are {names}"))
    return function


def reached_from(entry: func.FuncOp, functions: Sequence[func.FuncOp]) -> list[func.FuncOp]:
    """Return the functions that belong to the program of `entry`, in module order.

    These are the entry function, all functions that it refers to directly or indirectly, and all kernels. Other public
    functions are separate programs, possibly over other meshes.
    """
    by_name = {function.sym_name.data: function for function in functions}
    reached, worklist = {entry.sym_name.data}, [entry]
    worklist += [function for function in functions if KERNEL in function.attributes]
    reached |= {function.sym_name.data for function in worklist}
    while worklist:
        for name in _named_by(worklist.pop()):
            if name in by_name and name not in reached:
                reached.add(name)
                worklist.append(by_name[name])
    return [function for function in functions if function is entry or function.sym_name.data in reached]


def _named_by(function: func.FuncOp) -> Iterator[str]:
    """Yield the symbol names in the attributes of all operations in a function."""
    for operation in function.walk():
        for attribute in (*operation.properties.values(), *operation.attributes.values()):
            for item in attribute.data if isinstance(attribute, ArrayAttr) else (attribute,):
                if isinstance(item, SymbolRefAttr):
                    yield item.string_value()


def refuse_without_function(first: Operation, reading: Reading) -> NoReturn:
    loc = reading.source.locate(first)
    raise ProgramError(Diagnostic("MG0102", "the module has no public function", loc, hint="write func.func @main"))
