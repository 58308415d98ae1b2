"""ONNX models as programs: a path or a `ModelProto` becomes a module, its initializers named weights.

x: f32[8,64]  fc.weight: f32[64,64]     inputs, then the initializers that operators read
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from meshgen.calls.nodes import Slot
from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, Location, ProgramError
from meshgen.frontend.arguments import Args
from meshgen.frontend.onnx.declared import HINT, Declared, contradiction, declared_types, type_of
from meshgen.frontend.onnx.files import Array, Initializers, read_model
from meshgen.frontend.onnx.ops.table import Elements
from meshgen.frontend.onnx.origins import with_hint
from meshgen.frontend.onnx.prepare import domain_of, prepared
from meshgen.frontend.onnx.sizes import read_inputs
from meshgen.frontend.onnx.walk import MOST_FOLDED, Walk, Weight, as_operand, refuse_unknown, value_named
from meshgen.frontend.opening.program import opened
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.regions import recording
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import Mesh, make_mesh


def from_onnx(program: Any, given: Sequence[Mesh], args: Args) -> tuple[Module, Signature]:
    """The module of a model, and what its callers pass: its inputs; its initializers have values already.

    Args:
        program: a path, or an `onnx.ModelProto`.
        given: the meshes that the user names.
        args: shapes or types of inputs with symbolic sizes, in order or by name; a symbol itself may have a size: `{"batch": 8}`. Sizes
            of other symbols stay open. An input of which a number or `mg.constant(...)` is given is a constant of the program.
    Raises:
        MissingError: MG0602, the `onnx` package is not installed.
        UsageError: MG0001, args that do not fit; MG0002, the file cannot be read.
        ProgramError: the model is malformed (MG0101, MG0102, MG0104), has sizes that cannot stay open, or inputs without a shape (MG0208), or operators that are
            not supported (MG0103): all of them.
    """
    model, file, folder = read_model(program)
    with _located(file):
        return _read_model(model, file, folder, given, args)


@contextmanager
def _located(file: str) -> Generator[None]:
    """Give faults without a place that of the model."""
    try:
        yield
    except ProgramError as error:
        if all(each.loc for each in error.diagnostics):
            raise
        raise type(error)(*(replace(each, loc=each.loc or Location(file, 0)) for each in error.diagnostics)) from error


def _read_model(
    model: Any, file: str, folder: Path | None, given: Sequence[Mesh], args: Args
) -> tuple[Module, Signature]:
    """`from_onnx` of a model in memory, whose external data is in a folder."""
    light, protos = prepared(model, file)
    initializers = Initializers(protos, folder, file)
    versions = {domain_of(each.domain): each.version for each in light.opset_import}
    refuse_unknown(light.graph, versions, file)
    wanted = [each for each in light.graph.input if each.name not in initializers]
    inputs = read_inputs(wanted, args, file)

    def read(sizes: Mapping[str, int], most_folded: int = MOST_FOLDED) -> tuple[Module, Signature]:
        types = inputs.types(sizes)
        walk = Walk(file, versions, types, most_folded)
        return _at_sizes(light.graph, types, inputs.constants, initializers, given, walk)

    if not (symbols := inputs.open):
        return read({})
    ranges: dict[str, tuple[int, int | None]] = dict.fromkeys(symbols, (0, None))
    try:
        return opened(ranges, read)
    except ProgramError:  # what is computed of shapes is left to the program, but for lists of sizes
        with _told_open(symbols):
            return opened(ranges, lambda sizes: read(sizes, LONGEST_SHAPE))


@contextmanager
def _told_open(symbols: Sequence[str]) -> Generator[None]:
    """Tell in faults of nodes that open sizes were tried as numbers."""
    try:
        yield
    except ProgramError as error:
        listed = ", ".join(symbols)
        hint = f"the open sizes {listed} were tried as numbers that differ; give them, or shapes of inputs, by args= or --shape"
        faults = [
            fault
            for each in error.diagnostics
            for fault in ([each] if each.code == "MG0208" else with_hint([each], hint))
        ]
        raise type(error)(*faults) from error


def _at_sizes(light: Any, types: Mapping[str, TensorType], constants: Mapping[str, Array], initializers: Initializers, given: Sequence[Mesh],
              walk: Walk) -> tuple[Module, Signature]:  # fmt: skip
    """The program for inputs of these types, and of these values."""
    name = light.name if light.name.isidentifier() else "main"
    graph = Graph(name, [Value(kind, called) for called, kind in types.items()])
    root = Trace(graph, given[0] if given else None, meshes=tuple(given) if len(given) > 1 else ())
    with recording(root):
        values: dict[str, Any] = {value.name: Tensor(value) for value in graph.inputs}
        values |= constants
        values |= {each: _initial(each, initializers, root) for each in initializers}
        declared = declared_types((*light.value_info, *light.input, *light.output))
        _refuse_contradictions(declared, values, walk.file)
        walk.nodes(light.node, values, declared)
        if walk.faults:
            raise ProgramError(*walk.faults)
        graph.outputs = [_output(each.name, value_named(each.name, values), walk.file) for each in light.output]
    order = {each: number for number, each in enumerate([*types, *initializers])}
    graph.inputs.sort(key=lambda value: order[value.name])
    module = Module(root.mesh or make_mesh({}), graph, name=name, meshes=root.meshes)
    module.in_annotations = [None] * len(graph.inputs)
    module.out_annotations = [None] * len(graph.outputs)
    return module, _signature(graph, len(types), initializers)


def _refuse_contradictions(declared: Mapping[str, Declared], values: Mapping[str, Any], file: str) -> None:
    """Raise ProgramError MG0104 for inputs and initializers that have other types than the model declares."""
    types = {name: value.type if isinstance(value, Weight) else type_of(value) for name, value in values.items()}
    texts = [text for name, value in types.items() if (text := contradiction(declared, name, value))]
    if texts:
        raise ProgramError(*(Diagnostic("MG0104", text, Location(file, 0), hint=HINT) for text in texts))


def _signature(graph: Graph, count: int, initializers: Initializers) -> Signature:
    """The inputs as parameters, and the initializers as weights."""
    slots = {value.name: Slot(value.name, number) for number, value in enumerate(graph.inputs)}
    weights = initializers.only([value.name for value in graph.inputs[count:]])
    return Signature(slots, tuple(slots), is_typed=True, weights=weights, weight_names=(*weights,))


def _initial(name: str, initializers: Initializers, root: Trace) -> Any:
    """Numbers of a shape, axes and the like are known now; other initializers are weights."""
    proto = initializers.proto(name)
    is_float = proto.data_type not in _WHOLE
    is_known = len(proto.dims) == 0 or (len(proto.dims) == 1 and not is_float)
    return initializers[name] if is_known else Weight(name, initializers, root)


LONGEST_SHAPE = 64  # elements of a list of sizes; programs have 32 dims at most
_WHOLE = (6, 7, 9, 12, 13)  # int32, int64, bool, uint32, uint64


def _output(name: str, value: Any, file: str) -> Value:
    if value is None or isinstance(value, Elements):
        text = f"output '{name}' is {'nothing' if value is None else 'a sequence'}, not a tensor"
        raise ProgramError(Diagnostic("MG0103", text, Location(file, 0)))
    return tensor(as_operand(value)).value
