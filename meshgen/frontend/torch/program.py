"""PyTorch programs: what `torch.export.export` returns, a `.pt2` file of it, or a `torch.nn.Module` with example arguments.

    mg.compile("model.pt2", mesh, in_specs={"*.wq.weight": P("tp"), "x": P("dp")})

There is one path: a program in memory is serialised as `torch.export.save` does it, and what is read is that document; torch itself is
needed for programs in memory only. Parameters and persistent buffers are inputs with their names in the model, other tensors constants. A tensor
that the program changes is among its results, and donated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from meshgen.calls.nodes import Branch, Node, Slot
from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, UsageError
from meshgen.frontend.arguments import Args
from meshgen.frontend.opening.program import opened
from meshgen.frontend.torch.document import Json, Tree, names_in, only, tree_of, type_of
from meshgen.frontend.torch.nodes import Faults, Reader
from meshgen.frontend.torch.symbols import guards_of, open_ranges, symbols_of
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import Trace
from meshgen.frontend.tracer.regions import recording
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.records import dataclass

# Outputs that are not what the user's function returns: their group in the result, and the name in their entry.
GROUPS = {
    "buffer_mutation": ("buffers", "buffer_name"), "parameter_mutation": ("buffers", "parameter_name"),
    "user_input_mutation": ("inputs", "user_input_name"),
    "gradient_to_parameter": ("gradients", "parameter_name"), "gradient_to_user_input": ("gradients", "user_input_name"),
}  # fmt: skip


@dataclass(frozen=True)
class Exported:
    """A serialised program, and its tensors by name."""

    document: Json
    weights: Mapping[str, Any]
    constants: Mapping[str, Any]


@dataclass
class _Entry:
    """An input of the graph as torch's signature has it: its kind, its name in the graph and the user's name of it."""

    kind: str
    name: str
    target: str
    value: Any = None  # of a constant
    number: int | None = None  # of the module's input
    before: Tensor | None = None


@dataclass
class _Results:
    """Outputs as they are found: their values, and their slots by group and name."""

    values: list[Value] = field(default_factory=list[Value])
    groups: dict[str, dict[str, Slot]] = field(default_factory=dict[str, dict[str, Slot]])
    donations: dict[int, int | None] = field(default_factory=dict[int, "int | None"])

    def add(self, value: Any) -> Slot | None:
        """The slot of an output; None for what is not a tensor."""
        if not isinstance(value, Tensor):
            return None
        self.values.append(value.value)
        return Slot(f"result.{len(self.values) - 1}", len(self.values) - 1)

    def put(self, group: str, name: str, value: Any, entry: _Entry | None) -> None:
        """An output besides the user's; the input that it is the next value of is donated to it."""
        slot = self.add(value)
        if slot is not None:
            self.groups.setdefault(group, {})[name] = slot
            if group != "gradients" and entry is not None and entry.number is not None:
                self.donations[entry.number] = slot.number


def read_exported(exported: Exported, args: Args) -> tuple[Module, Signature]:
    """The module of a program, and what its callers pass and get.

    `args` have the sizes that the program leaves open, in order or by name. Raises ProgramError with everything that is not supported, each with its
    count and first place; UsageError MG0001 for open sizes without args, MG0002 for tensors that cannot be read.
    """
    signature = exported.document["graph_module"]["signature"]
    inputs = [each.name for each in map(_input_entry, signature["input_specs"]) if each.kind == "user_input"]
    symbols = symbols_of(exported.document, inputs, args)
    if ranges := open_ranges(exported.document, inputs, symbols):
        guards = [*guards_of(exported.document)]
        return opened(ranges, lambda point: _at_sizes(exported, symbols | dict(point)), guards)
    return _at_sizes(exported, symbols)


def _at_sizes(exported: Exported, symbols: Mapping[str, int]) -> tuple[Module, Signature]:
    """As `read_exported`, for numbers of all symbols."""
    part: Json = exported.document["graph_module"]
    graph, signature = part["graph"], part["signature"]
    entries = [_input_entry(each) for each in signature["input_specs"]]
    call = next(each["signature"] for each in part["module_call_graph"] if not each["fqn"])
    fields = part.get("treespec_namedtuple_fields") or {}
    given, returned = (tree_of(call[name], fields) for name in ("in_spec", "out_spec"))
    faults, made = Faults(), Graph("main")
    with recording(Trace(made)):
        inputs = [_input(each, graph, made, symbols, exported) for each in entries]
        values = Reader(symbols, faults).carried_out(graph, inputs)
        faults.refuse()
        results, result = _results(signature["output_specs"], entries, values, returned)
    made.outputs = results.values
    module = Module(make_mesh({}), made, donations=results.donations)
    module.in_annotations = [None] * len(made.inputs)
    module.out_annotations = [None] * len(made.outputs)
    nodes, positional = _parameters(entries, given, call.get("forward_arg_names"))
    stored = {e.target for e in entries if e.kind == "weight"}
    weights = {name: exported.weights for name in stored if name in exported.weights}
    return module, Signature(
        nodes,
        positional,
        is_typed=True,
        result=result,
        weights=Lazy(weights),
        weight_names=tuple(e.target for e in entries if e.kind == "weight"),
    )


class Lazy(Mapping[str, Any]):
    """Tensors by name that are read when they are asked for."""

    def __init__(self, homes: Mapping[str, Mapping[str, Any]]) -> None:
        self._homes = homes

    def __getitem__(self, name: str) -> Any:
        return self._homes[name][name]

    def __iter__(self) -> Any:
        return iter(self._homes)

    def __len__(self) -> int:
        return len(self._homes)


def _input_entry(spec: Json) -> _Entry:
    kind, given = only(spec)
    if kind == "user_input":
        names = names_in(given["arg"])
        return _Entry(kind, names[0] if names else "", names[0] if names else "")
    if kind in ("parameter", "buffer"):
        is_stored = kind == "parameter" or given["persistent"]
        return _Entry("weight" if is_stored else "constant", given["arg"]["name"], given[f"{kind}_name"])
    if kind == "tensor_constant":
        return _Entry("constant", given["arg"]["name"], given["tensor_constant_name"])
    if kind == "constant_input":
        return _Entry("number", given["name"], given["name"], only(given["value"])[1])
    if kind == "token":  # orders operations with effects, which are checks of errors here
        return _Entry(kind, given["arg"]["name"], given["arg"]["name"], 0)
    text = f"the program takes an input of the kind {kind}, which is not supported"
    raise UsageError(Diagnostic("MG0001", text, hint="export a model whose inputs are tensors and numbers"))


def _input(entry: _Entry, graph: Json, made: Graph, symbols: Mapping[str, int], exported: Exported) -> Any:
    """What an input of the graph holds."""
    if entry.kind in ("number", "token"):
        return entry.value
    meta = graph["tensor_values"].get(entry.name)
    held = next((each for each in (exported.constants, exported.weights) if entry.target in each), None)
    if entry.kind == "constant" and held is not None:
        entry.before = tensor(held[entry.target])
        return entry.before
    if entry.kind == "constant":  # of a model on the meta device, which has no elements
        entry.kind = "weight"
    if meta is None:  # a number that the caller passes: it is part of the program
        return symbols.get(entry.name)
    entry.number = len(made.inputs)
    made.inputs.append(Value(_closed(entry, type_of(meta, symbols)), entry.target))
    entry.before = Tensor(made.inputs[-1])
    return entry.before


def _closed(entry: _Entry, kind: TensorType) -> TensorType:
    if None in kind.shape:
        text = f"the program leaves sizes of '{entry.target}' open: {kind}"
        raise UsageError(Diagnostic("MG0001", text, hint="give args=, the types of the inputs, or export it with fixed sizes"))  # fmt: skip
    return kind


def _results(specs: Sequence[Json], entries: Sequence[_Entry], values: Any, tree: Tree) -> tuple[_Results, Node]:
    """What the program returns, and its structure: the user's function's, or that beside what it changes and gradients, by name."""
    found = _Results()
    slots: list[Slot | None] = []
    for kind, given in map(only, specs):
        if kind in ("user_output", "loss_output"):
            names = names_in(given["arg"]) if kind == "user_output" else [given["arg"]["name"]]
            slots.append(found.add(values[names[0]]) if names else None)
    by_target = {each.target: each for each in entries}
    for kind, given in map(only, specs):
        if kind in GROUPS:
            group, key = GROUPS[kind]
            found.put(group, given[key], values[given["arg"]["name"]], by_target.get(given[key]))
    for each in entries:
        if each.before is not None and (after := values[each.name]) is not each.before:
            found.put("inputs" if each.kind == "user_input" else "buffers", each.target, after, each)
    if len(found.values) == 1 and not found.groups:
        slots = [each and Slot("result", 0) for each in slots]
    own = tree.node(slots) if tree.leaves == len(slots) else Branch((f"{i}", each or Branch()) for i, each in enumerate(slots))  # fmt: skip
    groups = [(group, Branch(held.items())) for group, held in found.groups.items()]
    return found, Branch([("result", own), *groups]) if groups else own


def _parameters(entries: Sequence[_Entry], tree: Tree, names: Sequence[str] | None) -> tuple[dict[str, Node], tuple[str, ...]]:  # fmt: skip
    """What each parameter of the user's function holds, then each weight; and the parameters that come by position."""
    slots: list[Slot | None] = [_slot(each) for each in entries if each.kind in ("user_input", "number")]
    by_position, by_name = tree.children
    nodes: dict[str, Node] = {}
    at = 0
    for number, child in enumerate(by_position.children):
        own = slots[at : at + child.leaves]
        at += child.leaves
        first = next((each.name for each in own if each), "")
        nodes[_root(number, names, first if not child.kind else "")] = child.node(own)
    positional = tuple(nodes)
    for key, child in zip(by_name.keys, by_name.children, strict=True):
        nodes[key] = child.node(slots[at : at + child.leaves])
        at += child.leaves
    nodes |= {each.target: Slot(each.target, each.number) for each in entries if each.kind == "weight"}
    return nodes, positional


def _slot(entry: _Entry) -> Slot | None:
    return None if entry.kind == "number" and entry.value is None else Slot(entry.target, entry.number)


def _root(number: int, names: Sequence[str] | None, leaf: str) -> str:
    """The name of a parameter: the user's, where the program has it."""
    if names is not None and number < len(names):
        return names[number]
    return leaf or f"arg{number}"
