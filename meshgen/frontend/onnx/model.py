"""Import of ONNX models: a path or a `ModelProto` becomes a module. Initializers become inputs with values (weights).

x: f32[8,64]  fc.weight: f32[64,64]    inputs of the module: the model's inputs, then the initializers in use
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshgen.calls.argument_tree import Slot
from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.frontend.arguments import Args
from meshgen.frontend.onnx.constant_hints import with_hint
from meshgen.frontend.onnx.declared import HINT, Declared, contradiction, declared_types, type_of
from meshgen.frontend.onnx.files import Array, Initializers, read_model
from meshgen.frontend.onnx.importer import MAX_FOLDED_ELEMENTS, Walk, Weight, as_operand, lookup_value, refuse_unknown
from meshgen.frontend.onnx.ops.table import Elements
from meshgen.frontend.onnx.prepare import domain_of, prepared
from meshgen.frontend.onnx.sizes import read_inputs
from meshgen.frontend.opening.program import opened
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.frontend.tracer.trace_regions import recording
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import Mesh, make_mesh


def from_onnx(program: Any, user_meshes: Sequence[Mesh], args: Args) -> tuple[Module, Signature]:
    """Import an ONNX model: return the module and its call signature. Initializers become weights with values.

    Args:
        program: a path, or an `onnx.ModelProto`.
        user_meshes: the user's meshes.
        args: shapes or types of inputs with symbolic sizes, in order or by name, or sizes of symbols: `{"batch": 8}`.
            Symbols without a size stay open. An input whose argument is a number or `mg.constant(...)` becomes a
            constant of the program.

    Raises:
        MissingError: MG0602, the `onnx` package is not installed.
        UsageError: MG0001, `args` do not fit the model; MG0002, the file cannot be read.
        ProgramError: MG0101, MG0102 or MG0104, the model is malformed; MG0103, all unsupported operators;
            MG0208, an input has no shape, or a size cannot stay open.
    """
    model, file, folder = read_model(program)
    with _with_file_location(file):
        return _read_model(model, file, folder, user_meshes, args)


@contextmanager
def _with_file_location(file: str) -> Generator[None]:
    """Within a `with` block, add the model's file as location to errors without a location."""
    try:
        yield
    except ProgramError as error:
        if all(diagnostic.loc for diagnostic in error.diagnostics):
            raise
        raise type(error)(
            *(replace(diagnostic, loc=diagnostic.loc or Location(file, 0)) for diagnostic in error.diagnostics)
        ) from error


def _read_model(
    model: Any, file: str, folder: Path | None, user_meshes: Sequence[Mesh], args: Args
) -> tuple[Module, Signature]:
    """Import a model in memory whose external data is in `folder`. Raises the same errors as `from_onnx`."""
    light, protos = prepared(model, file)
    initializers = Initializers(protos, folder, file)
    versions = {domain_of(item.domain): item.version for item in light.opset_import}
    refuse_unknown(light.graph, versions, file)
    data_inputs = [item for item in light.graph.input if item.name not in initializers]
    inputs = read_inputs(data_inputs, args, file)

    def read(sizes: Mapping[str, int], max_folded: int = MAX_FOLDED_ELEMENTS) -> tuple[Module, Signature]:
        types = inputs.types(sizes)
        walk = Walk(file, versions, types, max_folded)
        return _at_sizes(light.graph, types, inputs.constants, initializers, user_meshes, walk)

    if not (symbols := inputs.open):
        return read({})
    ranges: dict[str, tuple[int, int | None]] = dict.fromkeys(symbols, (0, None))
    try:
        return opened(ranges, read)
    except ProgramError:
        # Constant-folded values may have no formula in the open sizes. Retry, and constant-fold only short lists of
        # sizes.
        with _with_open_sizes_hint(symbols):
            return opened(ranges, lambda sizes: read(sizes, MAX_FOLDED_SHAPE))


@contextmanager
def _with_open_sizes_hint(symbols: Sequence[str]) -> Generator[None]:
    """Within a `with` block, add a hint to errors: the importer tried several numbers for the open sizes."""
    try:
        yield
    except ProgramError as error:
        listed = ", ".join(symbols)
        hint = f"the importer tried different numbers for the open sizes {listed}; give them, or shapes of inputs, by args= or --shape"
        faults = [
            fault
            for diagnostic in error.diagnostics
            for fault in ([diagnostic] if diagnostic.code == "MG0208" else with_hint([diagnostic], hint))
        ]
        raise type(error)(*faults) from error


def _at_sizes(light: Any, types: Mapping[str, TensorType], constants: Mapping[str, Array], initializers: Initializers, user_meshes: Sequence[Mesh],
              walk: Walk) -> tuple[Module, Signature]:  # fmt: skip
    """Import the model `light` (without initializers) for inputs of the types `types`.

    `constants` are inputs with fixed values.
    """
    name = light.name if light.name.isidentifier() else "main"
    graph = Graph(name, [Value(kind, called) for called, kind in types.items()])
    root = Trace(
        graph, user_meshes[0] if user_meshes else None, meshes=tuple(user_meshes) if len(user_meshes) > 1 else ()
    )
    with recording(root):
        values: dict[str, Any] = {value.name: Tensor(value) for value in graph.inputs}
        values |= constants
        values |= {item: _load_initializer(item, initializers, root) for item in initializers}
        declared = declared_types((*light.value_info, *light.input, *light.output))
        _refuse_contradictions(declared, values, walk.file)
        walk.nodes(light.node, values, declared)
        if walk.faults:
            raise ProgramError(*walk.faults)
        graph.outputs = [_output(item.name, lookup_value(item.name, values), walk.file) for item in light.output]
    order = {item: index for index, item in enumerate([*types, *initializers])}
    graph.inputs.sort(key=lambda value: order[value.name])
    module = Module(root.mesh or make_mesh({}), graph, name=name, meshes=root.meshes)
    module.in_annotations = [None] * len(graph.inputs)
    module.out_annotations = [None] * len(graph.outputs)
    return module, _signature(graph, len(types), initializers)


def _refuse_contradictions(declared: Mapping[str, Declared], values: Mapping[str, Any], file: str) -> None:
    """Raise ProgramError MG0104 if the type of an input or initializer differs from the type that the model declares."""
    types = {name: value.type if isinstance(value, Weight) else type_of(value) for name, value in values.items()}
    texts = [text for name, value in types.items() if (text := contradiction(declared, name, value))]
    if texts:
        raise ProgramError(*(Diagnostic("MG0104", text, Location(file, 0), hint=HINT) for text in texts))


def _signature(graph: Graph, count: int, initializers: Initializers) -> Signature:
    """Return the call signature: the first `count` inputs of `graph` are parameters, the others are weights."""
    slots = {value.name: Slot(value.name, index) for index, value in enumerate(graph.inputs)}
    weights = initializers.only([value.name for value in graph.inputs[count:]])
    return Signature(slots, tuple(slots), is_typed=True, weights=weights, weight_names=(*weights,))


def _load_initializer(name: str, initializers: Initializers, root: Trace) -> Any:
    """Return scalars and integer vectors, which may be shapes or axes, as arrays; other initializers as a `Weight`."""
    proto = initializers.proto(name)
    is_float = proto.data_type not in _WHOLE
    is_constant = len(proto.dims) == 0 or (len(proto.dims) == 1 and not is_float)
    return initializers[name] if is_constant else Weight(name, initializers, root)


# Elements of the longest list of sizes that is constant-folded if sizes are open. Chosen: programs have at most 32
# dims.
MAX_FOLDED_SHAPE = 64
_WHOLE = (6, 7, 9, 12, 13)  # Codes of int32, int64, bool, uint32 and uint64 in TensorProto.DataType.


def _output(name: str, value: Any, file: str) -> Value:
    if value is None or isinstance(value, Elements):
        text = f"output '{name}' is {'nothing' if value is None else 'a sequence'}, not a tensor"
        raise ProgramError(Diagnostic("MG0103", text, Location(file, 0)))
    return tensor(as_operand(value)).value
