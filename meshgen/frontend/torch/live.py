"""Reading programs of PyTorch: files without torch, programs in memory as torch itself serialises them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from meshgen.calls.arrays import plain_array
from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, Location, MeshgenError, ProgramError
from meshgen.frontend.arguments import Args
from meshgen.frontend.torch.kinds import is_module, unusable
from meshgen.frontend.torch.ops import find_op
from meshgen.frontend.torch.program import Exported, Lazy, read_exported
from meshgen.frontend.torch.trees import tree_text
from meshgen.frontend.tracer import spec
from meshgen.ir.graph import Module, TensorType
from meshgen.runtime.sessions.torch_archive import TorchArchive

_GRADIENTS = "take gradients in a function and trace it with make_fx, as in docs/torch.md"
_CALL = "args are those of a call: in order, or a dict by name; see torch.export's documentation"
_PARALLELIZED = "compile the model as it is before it is parallelized, with in_specs={name: parameter.placements, ...}"
_HINTS = {  # for what torch.export's own refusals say; gradients it refuses from torch 2.11 on
    "fake tensor in the exported program": _GRADIENTS,
    "ScriptModule": "pass the module itself, as it was before torch.jit.script",
    "data-dependent expression": "which way to go is data here: write both ways with torch.where, or the branch with torch.cond",
}
# What reading a document raises whose parts are missing or of another kind.
_MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def from_torch(program: Any, args: Args) -> tuple[Module, Signature]:
    """The module of a program of PyTorch, and what its callers pass.

    `args` are those of a module's call, types, arrays or torch's tensors; of other programs the sizes that these leave open. Raises as
    `read_exported`, and UsageError MG0001 for a module without args or one that torch cannot export.
    """
    if isinstance(program, str | Path):
        return _from_archive(Path(program), args)
    if not is_module(program):
        return read_exported(serialized(program), args)
    return read_exported(serialized(exported(program, args)), None)


def _from_archive(path: Path, args: Args) -> tuple[Module, Signature]:
    """Raises as `read_exported`, and ProgramError MG0101 for a document that torch would not write."""
    archive = TorchArchive(path)
    try:
        return read_exported(Exported(archive.program, archive.weights, archive.constants, archive.ties), args)
    except _MALFORMED as error:
        text = f"the program is malformed, or in a form that is not supported: {type(error).__name__}: {error}"
        raise ProgramError(Diagnostic("MG0101", text, Location(str(path), 0))) from error


def exported(module: Any, args: Args) -> Any:
    """What `torch.export.export` makes of a module for arguments of these types. Raises UsageError MG0001."""
    torch: Any = import_module("torch")
    if args is None:
        hint = "give args=(x, ...), tensors or types, or pass what torch.export.export returns"
        raise unusable("a torch.nn.Module needs its arguments, or their types", hint)
    for name, each in module.named_parameters():
        if type(each.data).__name__ == "DTensor" or hasattr(each, "placements"):
            text = f"parameters of the module are DTensors, tiles of one process: {name}, ..."
            raise unusable(text, _PARALLELIZED)
    by_name = isinstance(args, Mapping)
    try:
        module, mode = off_meta(module)
        like = next(iter(module.parameters()), torch.zeros(()))
        named = {str(name): each for name, each in args.items()} if by_name else {}
        leading = _leading(module, named) if by_name else args
        with mode:
            given = tuple(as_tensors(each, like) for each in leading)
            return torch.export.export(module, given, {name: as_tensors(each, like) for name, each in named.items()})
    except MeshgenError:
        raise
    except Exception as error:  # whatever tracing the module raises
        text = " ".join(str(error).split())[:300]
        hint = next((each for sign, each in _HINTS.items() if sign in text), _CALL)
        raise unusable(f"torch.export cannot export the module for these args: {text}", hint) from error


def _leading(module: Any, named: dict[str, Any]) -> list[Any]:
    """Take the first parameters of a module's call out of its arguments by name: callers of the program may then pass them by position too."""
    leading: list[Any] = []
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or name not in named:
            break
        leading.append(named.pop(name))
    return leading


def off_meta(module: Any) -> tuple[Any, Any]:
    """The module with CPU tensors without elements in place of those on the meta device, and the mode to export it in.

    A model that asks for its device may use what torch does not have for the meta device (`torch.autocast`).
    """
    torch: Any = import_module("torch")
    own = (each for part in module.modules() for each in vars(part).values() if isinstance(each, torch.Tensor))
    tensors = [*module.parameters(), *module.buffers(), *own]
    if not any(each.is_meta for each in tensors):
        return module, nullcontext()
    mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)

    def on_cpu(each: Any) -> Any:
        made = torch.empty_like(each, device="cpu")
        return torch.nn.Parameter(made, each.requires_grad) if isinstance(each, torch.nn.Parameter) else made

    with mode:
        return deepcopy(module, {id(each): on_cpu(each) if each.is_meta else each for each in tensors}), mode


def as_tensors(given: Any, like: Any) -> Any:
    """An argument with types such as `f32[8,16]` as tensors of that type; others as they are."""
    torch: Any = import_module("torch")

    def leaf(each: Any) -> Any:
        if isinstance(each, torch.Tensor) or not (isinstance(each, str | TensorType) or hasattr(each, "dtype")):
            return each
        kind = spec(each)
        return torch.zeros(kind.sizes, dtype=getattr(torch, _TORCH_NAMES[kind.dtype]), device=like.device)

    return torch.utils._pytree.tree_map(leaf, given)


_TORCH_NAMES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "ui8": "uint8", "f16": "float16", "bf16": "bfloat16",
    "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip


def serialized(program: Any) -> Exported:
    """A program as `torch.export.save` writes it, with its tensors as they are in memory.

    The serialiser is torch's own, without the part that copies the tensors: a model may be on the meta device.
    """
    serialize, pytree = (import_module(f"torch.{name}") for name in ("_export.serde.serialize", "utils._pytree"))
    _refuse_lost_gradients(program)
    program = written_out(program)
    call = _plain_call(program, pytree)
    writer = serialize.GraphModuleSerializer(program.graph_signature, [call])
    try:
        module = serialize._dataclass_to_dict(writer.serialize(program.graph_module))
        ranges = serialize._dataclass_to_dict(serialize.serialize_range_constraints(program.range_constraints))
    except Exception as error:  # whatever torch's serialiser does not know
        text = f"torch cannot serialise the exported program, as torch.export.save would: {' '.join(str(error).split())[-300:]}"
        raise unusable(text, "return tensors, numbers and structures of these") from error
    text = json.dumps({"graph_module": module, "range_constraints": ranges}, cls=serialize.EnumEncoder)
    document = json.loads(text)
    root = next(each for each in program.module_call_graph if not each.fqn).signature
    fields: dict[str, Any] = {}
    trees = {name: tree_text(getattr(root, name), fields) for name in ("in_spec", "out_spec")}
    document["graph_module"]["module_call_graph"][0]["signature"] |= trees
    document["graph_module"]["treespec_namedtuple_fields"] = fields
    return Exported(document, arrays(program.state_dict), arrays(program.constants), _ties(program.state_dict))


def _ties(tensors: Mapping[str, Any]) -> dict[str, str]:
    """Return, for names of tensors that are another one of the same memory and shape, the name under which that comes first."""
    first: dict[Any, str] = {}
    homes = {name: first.setdefault(_memory(each), name) for name, each in tensors.items()}
    return {name: home for name, home in homes.items() if name != home}


def _memory(tensor: Any) -> Any:
    """Return what identifies the elements of a tensor: those of subclasses, such as DTensor, have no memory of their own."""
    if tensor.numel() == 0 or type(tensor).__name__ not in ("Tensor", "Parameter", "Buffer", "FakeTensor"):
        return id(tensor)
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), str(tensor.dtype)


def _refuse_lost_gradients(program: Any) -> None:
    """Refuse a program with gradients that are cut off from it: torch.export notes what their operations kept as constants without elements.

    A model without elements, on the meta device, may have such constants of its own.
    """
    lost = [name for name, each in program.constants.items() if type(each).__name__ == "FakeTensor"]
    if lost and any(type(each).__name__ != "FakeTensor" for each in program.state_dict.values()):
        text = f"torch.export has put values of the forward pass into the program as constants without elements: {', '.join(lost)}"
        raise ProgramError(Diagnostic("MG0103", text, hint=_GRADIENTS))


def written_out(program: Any) -> Any:
    """Return the program without marks of `torch.vmap`, which torch cannot serialise, and with operations that are not read written out by torch's own rules.

    Operations that have a rule in the default table get it. Those that torch defines as compositions of others without one in the table,
    such as `ravel`, whose results may be views, are written out by every call of `run_decompositions`.
    """
    done = set[Any]()
    while True:
        modules = (module for module in program.graph_module.modules() if hasattr(module, "graph"))
        targets = {node.target for module in modules for node in module.graph.nodes if node.op == "call_function"}
        is_marked = any(getattr(each, "__module__", "") == "torch._functorch.predispatch" for each in targets - done)
        unread = {each for each in targets - done if is_operation(each) and find_op(str(each)) is None}
        known = _rules() if unread else {}
        rules = {each: known[each] for each in unread if each in known}
        if not (is_marked or rules or any(map(_is_composition, unread))):
            return program
        program = program.run_decompositions(rules)
        done |= targets  # what is left of these has no rule


def _rules() -> dict[Any, Any]:
    """Return torch's rules for writing operations out, which take half a second to list."""
    table = import_module("torch._decomp").decomposition_table
    return {**table, **import_module("torch.export").default_decompositions()}


def is_operation(target: Any) -> bool:
    """Whether the target of a node is an operation of a library, such as `aten.add.Tensor`."""
    return type(target).__name__ == "OpOverload"


def _is_composition(operation: Any) -> bool:
    """Whether torch defines an operation by others."""
    return bool(operation._can_decompose()) if hasattr(operation, "_can_decompose") else False


def _plain_call(program: Any, pytree: Any) -> Any:
    """Return how the program is called with lists in place of structures: torch cannot serialise classes without a name for that."""
    call = next(each for each in program.module_call_graph if not each.fqn)
    plain = [pytree.tree_structure([0] * spec.num_leaves) for spec in (call.signature.in_spec, call.signature.out_spec)]
    return replace(call, signature=replace(call.signature, in_spec=plain[0], out_spec=plain[1]))


def _has_no_elements(given: Any) -> bool:
    """Whether a tensor has a shape only: on the meta device, or in a `FakeTensorMode`."""
    return given.is_meta or type(given).__name__ == "FakeTensor"


def arrays(tensors: Mapping[str, Any]) -> Lazy:
    """Return tensors of torch as arrays, converted when they are asked for; without those that have no elements."""
    return Lazy({name: partial(plain_array, each) for name, each in tensors.items() if not _has_no_elements(each)})
