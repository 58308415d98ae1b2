"""Conversion of whole modules between xDSL and graphs: meshes, functions, signatures, stage.

Besides the attributes of the dialects, printed modules have these (`mlir/func`):

    meshgen.stage       on the module: the compilation stage of the program
    meshgen.arguments   "global" if the arguments are global arrays, not local tiles
    meshgen.chunks      and further fields of `Module` by name, as JSON (`mlir/func/module_attributes.py`)
    meshgen.kernel      on a private function that is the body of a kernel: the name of its template; a call of the
                        function launches the kernel
    meshgen.view        on a reshape, slice or concatenation that shares memory with its operands
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xdsl.dialects import builtin, func
from xdsl.ir import Attribute

from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.ir.donation import donation_faults
from meshgen.ir.graph import STAGES, Graph, Module
from meshgen.ir.inline import inline_calls
from meshgen.ir.limits import program_faults
from meshgen.mesh import Mesh
from meshgen.mlir.conversion import Importer
from meshgen.mlir.dialect import Dialect
from meshgen.mlir.func.entry import KERNEL, entry_of, reached_from, refuse_without_function
from meshgen.mlir.func.module_attributes import field_faults
from meshgen.mlir.literals import dictionary, one_or_list, quoted, symbol
from meshgen.mlir.printer import TextPrinter
from meshgen.mlir.reader_state import Reading, Slot, Source
from meshgen.mlir.shard.transfers import transfer_faults
from meshgen.mlir.verifying import raise_faults, refuse_unknown, verify_operations
from meshgen.ops.types.inference import graph_faults
from meshgen.runtime.module_file.resources import Resources


def import_module(
    top: builtin.ModuleOp, source: Source, dialects: Dialect, user_meshes: Sequence[Mesh] = (), is_part: bool = False, entry: str = "",
) -> Module:  # fmt: skip
    """Convert an xDSL module. Calls are inlined into its entry function.

    Args:
        user_meshes: meshes from the user, which supply axis sizes that the text leaves open.
        is_part: whether this is the inner module of one mesh in a multi-mesh program.
        entry: name of the entry function. If empty, it is @main or the only public function.
    Raises:
        ProgramError: an operation is unsupported or malformed, or its conversion failed. Has all faults of the first of
            these three checks that found any.
    """
    reading = Reading(source, dialects, user_meshes=user_meshes, is_part=is_part)
    refuse_unknown(top, reading)
    verify_operations(top, reading)
    if top.sym_name is not None:
        reading.module.name = top.sym_name.data
    for name, attribute in top.attributes.items():
        if (reader := dialects.module_attrs.get(name)) is not None:
            reader(reading, attribute)
    for operation in top.ops:
        if (reader := dialects.module_ops.get(operation.name)) is not None:
            reader(reading, operation)
    for find in () if reading.module.mesh.axes else dialects.mesh_finders:
        find(reading, top)
    for find in () if reading.module.mesh.axes else dialects.device_finders:
        find(reading, top)
    for settle in dialects.mesh_settlers:
        settle(reading, top)
    partitions = top.attributes.get("mhlo.num_partitions")
    count = partitions.value.data if isinstance(partitions, builtin.IntegerAttr) else None
    several = top.walk() if len(reading.distinct) > 1 else ()
    reading.share_devices(
        count, [dialects.whole_axes[op.name](reading, op) for op in several if op.name in dialects.whole_axes]
    )
    functions = [function for function in top.ops if isinstance(function, func.FuncOp)]
    if not functions:
        refuse_without_function(next(iter(top.ops), top), reading)
    chosen = entry_of(functions, reading, entry)
    functions = reached_from(chosen, functions)
    for rewrite, function in itertools.product(dialects.rewriters, functions):
        rewrite(reading, function)
    raise_faults(reading)
    _prefer_named_mesh(functions, reading)
    _import_functions(chosen, functions, reading)
    raise_faults(reading)
    if len(reading.distinct) > 1:
        reading.module.meshes = reading.distinct
    return reading.module


def _prefer_named_mesh(functions: Sequence[func.FuncOp], reading: Reading) -> None:
    """If several meshes are declared and the operations name only one of them, make it the default mesh."""
    is_ambiguous = reading.is_on_several and reading.module.stage == "import"
    walked = (operation for function in functions for operation in function.walk()) if is_ambiguous else ()
    grids = [operation.properties.get("grid") for operation in walked]
    named = {grid.string_value(): None for grid in grids if isinstance(grid, builtin.SymbolRefAttr)}
    candidates = {mesh.name: mesh for mesh in map(reading.whole, named) if mesh}
    if len(candidates) == 1:
        (reading.module.mesh,) = candidates.values()


def import_parts(top: builtin.ModuleOp, parts: Sequence[builtin.ModuleOp], source: Source, dialects: Dialect) -> Module:
    """Convert the outer module of a multi-mesh program. Its inner modules `parts` are converted separately."""
    reading = Reading(source, dialects)
    outer_operations = [operation for operation in top.ops if operation not in parts]
    for operation in outer_operations:
        reading.fault(
            "MG0104",
            f"{operation.name} is not allowed beside modules of several meshes",
            operation,
            "move it into one of them",
        )
    if top.sym_name is not None:
        reading.module.name = top.sym_name.data
    raise_faults(reading)
    return reading.module


def _import_functions(entry: func.FuncOp, functions: Sequence[func.FuncOp], reading: Reading) -> None:
    """Convert the entry function and inline the functions that it calls."""
    private: dict[str, Graph] = {}
    functions = [
        function for function in functions if function is entry or function.body.blocks
    ]  # Functions without a body are declarations, which are skipped.
    # Reading a launch requires that the kernel is registered, so register all kernels first.
    for function in functions:
        name = function.sym_name.data
        if name in reading.module.kernels or name in private:
            reading.fault("MG0104", f"@{name} is defined twice", function)
        table = reading.module.kernels if KERNEL in function.attributes else private
        table[name] = Graph(name, template=_read_template(function, reading))
    raise_faults(reading)
    called = {name: function for function in functions if function is not entry for name in [function.sym_name.data]}
    for name, function in called.items():
        _import_body(function, reading, reading.module.kernels.get(name) or private[name])
    for mesh, name in itertools.product(reading.reordered, [name for name in called if name in private]):
        with reading.numbered_by(mesh):
            graph = private[reading.callee(name)] = Graph(name)
            _import_body(called[name], reading, graph)
    _import_entry(entry, reading)
    raise_faults(reading)
    reading.module.graph = inline_calls(reading.module.graph, private)


def _read_template(function: func.FuncOp, reading: Reading) -> str:
    """Return the template name in the `meshgen.kernel` attribute of a function, or "" if it lacks the attribute."""
    attribute = function.attributes.get(KERNEL, builtin.UnitAttr())
    if isinstance(attribute, builtin.StringAttr):
        return attribute.data
    if not isinstance(attribute, builtin.UnitAttr):
        reading.fault("MG0104", f"{KERNEL} must be the name of a kernel template, or have no value", function)
    return ""


def check_module(module: Module) -> None:
    """Check the shapes, types and attributes of all nodes of a module. Raises ProgramError with all faults."""
    is_local = STAGES.index(module.stage) >= STAGES.index("partition") and module.mesh.is_static
    mesh = module.mesh if is_local else None
    graphs = (module.graph, *module.kernels.values())
    faults = program_faults(module) or [*donation_faults(module), *field_faults(module)]
    faults = faults or ([] if module.stage in ("import", "propagate") else transfer_faults(module))
    faults = faults or [fault for graph in graphs for fault in graph_faults(graph, mesh)]
    if faults:
        raise ProgramError(*faults)


def _import_body(function: func.FuncOp, reading: Reading, graph: Graph) -> None:
    """Convert the body of a function into `graph`."""
    if len(function.body.blocks) != 1:
        name = function.sym_name.data
        reading.fault(
            "MG0103", f"@{name} has {len(function.body.blocks)} blocks; a function must have one", function,
            "write control flow with stablehlo.while, case or if",
        )  # fmt: skip
        return
    cluster = function.attributes.get("mesh_cluster")
    cluster_mesh = reading.meshes.get(cluster.string_value()) if isinstance(cluster, builtin.SymbolRefAttr) else None
    with reading.over(cluster_mesh or reading.meshes.get("", reading.module.mesh)):
        Importer(reading, graph).body(function.body.block)


def _import_entry(entry: func.FuncOp, reading: Reading) -> None:
    """Convert the entry function into the module's graph: first its signature, then its body."""
    module, kind = reading.module, entry.function_type
    module.graph.name = entry.sym_name.data
    module.in_annotations = [None] * len(kind.inputs.data)
    module.out_annotations = [None] * len(kind.outputs.data)
    arguments = entry.body.blocks[0].args if entry.body.blocks else ()
    _read_slots("in", kind.inputs.data, entry.arg_attrs, [reading.source.locate(a) for a in arguments], reading)
    loc = reading.source.locate(entry)
    _read_slots("out", kind.outputs.data, entry.res_attrs, [loc] * len(kind.outputs.data), reading)
    _import_body(entry, reading, module.graph)


def _read_slots(side: str, types: Sequence[Attribute], attributes: builtin.ArrayAttr[builtin.DictionaryAttr] | None,
                locs: Sequence[Location | None], reading: Reading) -> None:  # fmt: skip
    entries = attributes.data if attributes is not None else ()
    if len(entries) > len(types):
        message = f"attributes of {len(entries)} arguments or results, but there are {len(types)}"
        reading.faults.append(Diagnostic("MG0104", message, locs[0] if locs else None))
    for index, entry in enumerate(entries[: len(types)]):
        slot = Slot(side, index, reading.type(types[index]), locs[index])
        for name, attribute in entry.data.items():
            if (reader := reading.dialects.slot_attrs.get(name)) is not None:
                reader(reading, attribute, slot)


def print_module(module: Module, dialects: Dialect, resources: Resources | None = None, depth: int = 0) -> str:
    """Return the text of a module.

    Args:
        resources: if not None, large constants are stored in it and the text refers to them.
        depth: number of enclosing modules, which determines the indentation.
    """
    printer = TextPrinter(module, dialects, resources, depth + 1)
    attributes = {name: text for write in dialects.module_attr_writers for name, text in write(module).items()}
    if module.parts:
        attributes = {"meshgen.stage": quoted(module.stage)}
        lines = [print_module(part, dialects, resources, depth + 1) for part in module.parts]
    else:
        lines = [line for write in dialects.module_op_writers for line in write(module)]
        lines.append(_printed_entry(printer))
        lines += [_printed_kernel(printer, kernel) for kernel in module.kernels.values()]
    name = f" {symbol(module.name)}" if module.name != "main" else ""
    attributes_text = f" attributes {dictionary(attributes)}" if attributes else ""
    return f"builtin.module{name}{attributes_text} {{{printer.newline.join(['', *lines])}\n{'  ' * depth}}}"


def _printed_entry(printer: TextPrinter) -> str:
    graph = printer.module.graph
    arguments, results = (_slot_attributes(printer, side) for side in ("in", "out"))
    types = [f"{kind}{attributes}" for kind, attributes in zip(printer.types(graph.outputs), results, strict=True)]
    ends = f" -> ({', '.join(types)})" if any(results) else f" -> {one_or_list(types)}" if types else ""
    return printer.function(graph, f"func.func public {symbol(graph.name)}", arguments, ends, "")


def _printed_kernel(printer: TextPrinter, graph: Graph) -> str:
    types = printer.types(graph.outputs)
    ends = f" -> {one_or_list(types)}" if types else ""
    head, nothing = f"func.func private {symbol(graph.name)}", [""] * len(graph.inputs)
    return printer.function(
        graph,
        head,
        nothing,
        ends,
        f" attributes {dictionary({KERNEL: quoted(graph.template) if graph.template else ''})}",
    )


def _slot_attributes(printer: TextPrinter, side: str) -> list[str]:
    """Return the text ` {...}` of the attributes of each argument (`side` is "in") or result ("out")."""
    graph = printer.module.graph
    values = graph.inputs if side == "in" else graph.outputs
    slots = [Slot(side, index, value.type, value.loc) for index, value in enumerate(values)]
    attributes_by_slot: list[dict[str, str]] = [{} for _ in slots]
    for write in printer.dialects.slot_attr_writers:
        for attributes, written in zip(attributes_by_slot, write(printer.module, slots), strict=True):
            attributes |= written
    return [f" {dictionary(attributes)}" if attributes else "" for attributes in attributes_by_slot]
