"""Import of PyTorch programs from `torch.export.export`, from `.pt2` files, or from modules with example arguments.

    mg.compile("model.pt2", mesh, in_specs={"*.wq.weight": P("tp"), "x": P("dp")})

A program in memory is first serialized as by `torch.export.save`, so that the importer reads only documents and needs
torch only for that step. Parameters and persistent buffers become inputs with their names in the model; other tensors
become constants. A tensor that the program mutates is donated, and its new value is a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from meshgen.calls.argument_tree import Node
from meshgen.calls.signature import Signature
from meshgen.frontend.arguments import Args
from meshgen.frontend.opening.program import opened
from meshgen.frontend.torch.document import Json, type_of
from meshgen.frontend.torch.inputs import (
    Entry,
    aliases_of,
    argument_nodes,
    argument_roots,
    entries_of,
    name_inputs,
    split_off_state,
)
from meshgen.frontend.torch.nodes import Faults, Reader
from meshgen.frontend.torch.pytrees import Tree, tree_of
from meshgen.frontend.torch.recognition import unusable
from meshgen.frontend.torch.results import results_of
from meshgen.frontend.torch.symbols import guards_of, open_ranges, symbols_of
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.frontend.tracer.trace_regions import recording
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh


@dataclass(frozen=True)
class Exported:
    """A serialized program (`document`) and its tensors by name.

    Attributes:
        ties: maps a weight's second and later names to the first name of the same tensor.
        held: names of the state tensors, if the first argument is a list of them.
        names: names of the user function's parameters, if they differ from those in the document.
    """

    document: Json
    weights: Mapping[str, Any]
    constants: Mapping[str, Any]
    ties: Mapping[str, str] = field(default_factory=dict[str, str])
    held: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def read_exported(exported: Exported, args: Args) -> tuple[Module, Signature]:
    """Import a serialized program: return its module and its call signature.

    Args:
        args: values for the sizes that the program leaves open, in order or by name.

    Raises:
        ProgramError: unsupported parts of the program, each with its count and first location.
        UsageError: MG0001, open sizes without `args`; MG0002, unreadable tensors.
    """
    entries, _, _ = _inputs_of(exported)
    inputs = [entry.name for entry in entries if entry.kind == "user_input"]
    if isinstance(args, Mapping):
        names = {entry.input_name: entry.name for entry in entries if entry.kind == "user_input"}
        args = {names.get(str(name), name): value for name, value in args.items()}
    symbols = symbols_of(exported.document, inputs, args)
    if ranges := open_ranges(exported.document, inputs, symbols):
        guards = [*guards_of(exported.document)]
        return opened(ranges, lambda point: _at_sizes(exported, symbols | dict(point), is_open=True), guards)
    return _at_sizes(exported, symbols, is_open=False)


Roots = list[tuple[str, Tree]]


def _inputs_of(exported: Exported) -> tuple[list[Entry], Roots, Roots]:
    """Return the inputs, with names, and (name, structure) of the positional and of the keyword parameters."""
    graph_module: Json = exported.document["graph_module"]
    call = _call_of(graph_module)
    entries = entries_of(graph_module["signature"]["input_specs"])
    for entry in entries:
        if entry.kind == "constant" and _constant_source(entry, exported) is None:
            entry.kind = "state"  # The constant has no elements, because the model is on the meta device.
    tree = tree_of(call["in_spec"], graph_module.get("treespec_namedtuple_fields") or {})
    names = call.get("forward_arg_names")
    if exported.held:
        tree, names = split_off_state(entries, tree, exported.held), exported.names
    roots = argument_roots(entries, tree, names)
    name_inputs(entries, roots, exported.ties)
    return entries, roots[: len(tree.children[0].children)], roots[len(tree.children[0].children) :]


def _call_of(graph_module: Json) -> Json:
    return next(entry["signature"] for entry in graph_module["module_call_graph"] if not entry["fqn"])


def _at_sizes(exported: Exported, symbols: Mapping[str, int], is_open: bool) -> tuple[Module, Signature]:
    """Import the program for the given values of all symbols. Raises the same errors as `read_exported`.

    `is_open`: whether the results for several values will be merged into a program with open sizes.
    """
    graph_module: Json = exported.document["graph_module"]
    graph, call = graph_module["graph"], _call_of(graph_module)
    entries, by_position, by_name = _inputs_of(exported)
    returned = tree_of(call["out_spec"], graph_module.get("treespec_namedtuple_fields") or {})
    faults, main_graph = Faults(), Graph("main")
    with recording(Trace(main_graph)):
        inputs = [_add_input(entry, graph, main_graph, symbols, exported) for entry in entries]
        ties = {entry.name: entry.tied.name for entry in entries if entry.tied is not None}
        values = Reader(symbols, faults).evaluate_graph(graph, inputs, ties)
        faults.refuse()
        results, result = results_of(graph_module["signature"]["output_specs"], entries, values, returned, is_open)
    main_graph.outputs = results.values
    module = Module(make_mesh({}), main_graph, donations=results.donations)
    module.in_annotations = [None] * len(main_graph.inputs)
    module.out_annotations = [None] * len(main_graph.outputs)
    return module, _signature(entries, by_position, by_name, result, exported.weights)


def _signature(entries: Sequence[Entry], by_position: Roots, by_name: Roots, result: Node, weights: Mapping[str, Any]) -> Signature:  # fmt: skip
    """Return the call signature: the structures of arguments and results, and the names of the weights."""
    state = [entry for entry in entries if entry.kind == "state" and entry.number is not None]
    readers = {
        entry.input_name: partial(weights.__getitem__, entry.target) for entry in state if entry.target in weights
    }
    return Signature(
        argument_nodes(entries, [*by_position, *by_name]), tuple(name for name, _ in by_position), is_typed=True, result=result,
        weights=Lazy(readers), aliases=aliases_of(entries), weight_names=tuple(entry.input_name for entry in state),
    )  # fmt: skip


class Lazy(Mapping[str, Any]):
    """A read-only mapping that reads or converts a tensor when it is looked up."""

    def __init__(self, readers: Mapping[str, Callable[[], Any]]) -> None:
        self._readers = readers

    def __getitem__(self, name: str) -> Any:
        return self._readers[name]()

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def _add_input(entry: Entry, graph: Json, main_graph: Graph, symbols: Mapping[str, int], exported: Exported) -> Any:
    """Return the tensor or number that an input of the exported graph stands for.

    For tensors from the caller or from the weights, an input is added to `main_graph`.
    """
    if entry.kind in ("number", "token"):
        return entry.value
    if entry.kind == "constant" and (source := _constant_source(entry, exported)) is not None:
        entry.initial = tensor(source[entry.target])
        return entry.initial
    if entry.tied is not None:
        entry.initial = entry.tied.initial
        return entry.initial
    meta = graph["tensor_values"].get(entry.name)
    if meta is None:  # The caller passes a number, which is constant in the program.
        return symbols.get(entry.name)
    entry.number = len(main_graph.inputs)
    main_graph.inputs.append(Value(_require_known_sizes(entry, type_of(meta, symbols)), entry.input_name))
    entry.initial = Tensor(main_graph.inputs[-1])
    return entry.initial


def _constant_source(entry: Entry, exported: Exported) -> Mapping[str, Any] | None:
    """Return the mapping (constants or weights) that contains a constant, or None if its elements are missing."""
    return next((tensors for tensors in (exported.constants, exported.weights) if entry.target in tensors), None)


def _require_known_sizes(entry: Entry, kind: TensorType) -> TensorType:
    if None in kind.shape:
        hint = "give args=, the types of the inputs, or export it with fixed sizes"
        raise unusable(f"the program leaves sizes of '{entry.input_name}' open: {kind}", hint)
    return kind
