"""PyTorch programs: what `torch.export.export` returns, a `.pt2` file of it, or a `torch.nn.Module` with example arguments.

    mg.compile("model.pt2", mesh, in_specs={"*.wq.weight": P("tp"), "x": P("dp")})

There is one path: a program in memory is serialised as `torch.export.save` does it, and what is read is that document; torch itself is
needed for programs in memory only. Parameters and persistent buffers are inputs with their names in the model, other tensors constants. A tensor
that the program changes is among its results, and donated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from meshgen.calls.nodes import Node
from meshgen.calls.signature import Signature
from meshgen.frontend.arguments import Args
from meshgen.frontend.opening.program import opened
from meshgen.frontend.torch.document import Json, type_of
from meshgen.frontend.torch.entries import (
    Entry,
    aliases_of,
    argument_nodes,
    argument_roots,
    entries_of,
    held_apart,
    name_inputs,
)
from meshgen.frontend.torch.kinds import unusable
from meshgen.frontend.torch.nodes import Faults, Reader
from meshgen.frontend.torch.results import results_of
from meshgen.frontend.torch.symbols import guards_of, open_ranges, symbols_of
from meshgen.frontend.torch.trees import Tree, tree_of
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.regions import recording
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh


@dataclass(frozen=True)
class Exported:
    """A serialised program, and its tensors by name.

    Attributes:
        ties: from names of weights to the name under which the same tensor comes first.
        held: names of state that the first argument holds in a list.
        names: of the arguments, where they are not those of the program.
    """

    document: Json
    weights: Mapping[str, Any]
    constants: Mapping[str, Any]
    ties: Mapping[str, str] = field(default_factory=dict[str, str])
    held: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def read_exported(exported: Exported, args: Args) -> tuple[Module, Signature]:
    """The module of a program, and what its callers pass and get.

    `args` have the sizes that the program leaves open, in order or by name. Raises ProgramError with everything that is not supported, each with its
    count and first place; UsageError MG0001 for open sizes without args, MG0002 for tensors that cannot be read.
    """
    entries, _, _ = _inputs_of(exported)
    inputs = [each.name for each in entries if each.kind == "user_input"]
    if isinstance(args, Mapping):
        names = {each.called: each.name for each in entries if each.kind == "user_input"}
        args = {names.get(str(name), name): given for name, given in args.items()}
    symbols = symbols_of(exported.document, inputs, args)
    if ranges := open_ranges(exported.document, inputs, symbols):
        guards = [*guards_of(exported.document)]
        return opened(ranges, lambda point: _at_sizes(exported, symbols | dict(point), is_open=True), guards)
    return _at_sizes(exported, symbols, is_open=False)


Roots = list[tuple[str, Tree]]


def _inputs_of(exported: Exported) -> tuple[list[Entry], Roots, Roots]:
    """Return the inputs with their names, and the parameters of the user's function: those by position, and those by name."""
    part: Json = exported.document["graph_module"]
    call = _call_of(part)
    entries = entries_of(part["signature"]["input_specs"])
    for entry in entries:
        if entry.kind == "constant" and _home(entry, exported) is None:
            entry.kind = "state"  # of a model on the meta device, which has no elements
    tree = tree_of(call["in_spec"], part.get("treespec_namedtuple_fields") or {})
    names = call.get("forward_arg_names")
    if exported.held:
        tree, names = held_apart(entries, tree, exported.held), exported.names
    roots = argument_roots(entries, tree, names)
    name_inputs(entries, roots, exported.ties)
    return entries, roots[: len(tree.children[0].children)], roots[len(tree.children[0].children) :]


def _call_of(part: Json) -> Json:
    return next(each["signature"] for each in part["module_call_graph"] if not each["fqn"])


def _at_sizes(exported: Exported, symbols: Mapping[str, int], is_open: bool) -> tuple[Module, Signature]:
    """As `read_exported`, for numbers of all symbols; `is_open`: of a program that is read for several numbers of them."""
    part: Json = exported.document["graph_module"]
    graph, call = part["graph"], _call_of(part)
    entries, by_position, by_name = _inputs_of(exported)
    returned = tree_of(call["out_spec"], part.get("treespec_namedtuple_fields") or {})
    faults, made = Faults(), Graph("main")
    with recording(Trace(made)):
        inputs = [_input(each, graph, made, symbols, exported) for each in entries]
        ties = {each.name: each.tied.name for each in entries if each.tied is not None}
        values = Reader(symbols, faults).carried_out(graph, inputs, ties)
        faults.refuse()
        results, result = results_of(part["signature"]["output_specs"], entries, values, returned, is_open)
    made.outputs = results.values
    module = Module(make_mesh({}), made, donations=results.donations)
    module.in_annotations = [None] * len(made.inputs)
    module.out_annotations = [None] * len(made.outputs)
    return module, _signature(entries, by_position, by_name, result, exported.weights)


def _signature(entries: Sequence[Entry], by_position: Roots, by_name: Roots, result: Node, weights: Mapping[str, Any]) -> Signature:  # fmt: skip
    """Return what callers pass and get."""
    state = [each for each in entries if each.kind == "state" and each.number is not None]
    readers = {each.called: partial(weights.__getitem__, each.target) for each in state if each.target in weights}
    return Signature(
        argument_nodes(entries, [*by_position, *by_name]), tuple(name for name, _ in by_position), is_typed=True, result=result,
        weights=Lazy(readers), aliases=aliases_of(entries), weight_names=tuple(each.called for each in state),
    )  # fmt: skip


class Lazy(Mapping[str, Any]):
    """Tensors by name that are read when they are asked for."""

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


def _input(entry: Entry, graph: Json, made: Graph, symbols: Mapping[str, int], exported: Exported) -> Any:
    """Return what an input of the graph holds."""
    if entry.kind in ("number", "token"):
        return entry.value
    if entry.kind == "constant" and (home := _home(entry, exported)) is not None:
        entry.before = tensor(home[entry.target])
        return entry.before
    if entry.tied is not None:
        entry.before = entry.tied.before
        return entry.before
    meta = graph["tensor_values"].get(entry.name)
    if meta is None:  # a number that the caller passes: it is part of the program
        return symbols.get(entry.name)
    entry.number = len(made.inputs)
    made.inputs.append(Value(_closed(entry, type_of(meta, symbols)), entry.called))
    entry.before = Tensor(made.inputs[-1])
    return entry.before


def _home(entry: Entry, exported: Exported) -> Mapping[str, Any] | None:
    """Return the tensors that have the elements of a constant; None where the program does not have them."""
    return next((each for each in (exported.constants, exported.weights) if entry.target in each), None)


def _closed(entry: Entry, kind: TensorType) -> TensorType:
    if None in kind.shape:
        hint = "give args=, the types of the inputs, or export it with fixed sizes"
        raise unusable(f"the program leaves sizes of '{entry.called}' open: {kind}", hint)
    return kind
