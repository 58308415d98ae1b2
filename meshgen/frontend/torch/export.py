"""Import of PyTorch programs. Archives are read without torch, and programs in memory through torch's serializer."""

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
from meshgen.frontend.torch.ops import find_op
from meshgen.frontend.torch.program import Exported, Lazy, read_exported
from meshgen.frontend.torch.pytrees import tree_text
from meshgen.frontend.torch.recognition import is_module, unusable
from meshgen.frontend.tracer import spec
from meshgen.ir.graph import Module, TensorType
from meshgen.runtime.sessions.torch_archive import TorchArchive

_GRADIENTS = "take gradients in a function and trace it with make_fx, as in docs/torch.md"
_CALL = "give args as for a call: in order, or a dict by name; see torch.export's documentation"
_PARALLELIZED = "compile the model before it is parallelized, with in_specs={name: parameter.placements, ...}"
# Hints for errors of torch.export, by a part of the error's text. From torch 2.11 on, torch.export rejects gradients.
_HINTS = {
    "fake tensor in the exported program": _GRADIENTS,
    "ScriptModule": "pass the module itself, as it was before torch.jit.script",
    "data-dependent expression": "the branch depends on data: compute both sides with torch.where, or use torch.cond",
}
# Exceptions that a document with missing or unexpected parts can raise while it is read.
_MALFORMED = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def from_torch(program: Any, args: Args) -> tuple[Module, Signature]:
    """Import a PyTorch program: return its module and its call signature.

    Args:
        program: a path, an exported program, or a `torch.nn.Module`.
        args: for a `torch.nn.Module`, the arguments of a call as types, arrays or torch tensors. For other programs,
            values for the sizes that they leave open.

    Raises:
        UsageError: MG0001, a module without `args`, or one that torch cannot export; otherwise as `read_exported`.
    """
    if isinstance(program, str | Path):
        return _from_archive(Path(program), args)
    if not is_module(program):
        return read_exported(serialized(program), args)
    return read_exported(serialized(exported(program, args)), None)


def _from_archive(path: Path, args: Args) -> tuple[Module, Signature]:
    """Read a `.pt2` file. Raises ProgramError MG0101 if its program is malformed; otherwise as `read_exported`."""
    archive = TorchArchive(path)
    try:
        return read_exported(Exported(archive.program, archive.weights, archive.constants, archive.ties), args)
    except _MALFORMED as error:
        text = f"the program is malformed, or in a form that is not supported: {type(error).__name__}: {error}"
        raise ProgramError(Diagnostic("MG0101", text, Location(str(path), 0))) from error


def exported(module: Any, args: Args) -> Any:
    """Export `module` with `torch.export.export` for arguments with the types of `args`.

    Raises UsageError MG0001 if that fails.
    """
    torch: Any = import_module("torch")
    if args is None:
        hint = "give args=(x, ...), tensors or types, or pass what torch.export.export returns"
        raise unusable("a torch.nn.Module needs its arguments, or their types", hint)
    for name, parameter in module.named_parameters():
        if type(parameter.data).__name__ == "DTensor" or hasattr(parameter, "placements"):
            text = f"parameters of the module are DTensors, which hold the shards of one process: {name}, ..."
            raise unusable(text, _PARALLELIZED)
    by_name = isinstance(args, Mapping)
    try:
        module, mode = replace_meta_tensors(module)
        example = next(iter(module.parameters()), torch.zeros(()))
        keyword_args = {str(name): arg for name, arg in args.items()} if by_name else {}
        leading_args = _pop_leading(module, keyword_args) if by_name else args
        with mode:
            positional_args = tuple(as_tensors(arg, example) for arg in leading_args)
            return torch.export.export(
                module, positional_args, {name: as_tensors(arg, example) for name, arg in keyword_args.items()}
            )
    except MeshgenError:
        raise
    except Exception as error:  # Tracing the module can raise anything.
        text = " ".join(str(error).split())[:300]
        hint = next((hint for sign, hint in _HINTS.items() if sign in text), _CALL)
        raise unusable(f"torch.export cannot export the module for these args: {text}", hint) from error


def _pop_leading(module: Any, keyword_args: dict[str, Any]) -> list[Any]:
    """Remove the arguments of the first parameters of `module.forward` from `keyword_args` and return them in order.

    Passing them by position lets callers of the compiled program do the same.
    """
    leading: list[Any] = []
    for name, parameter in inspect.signature(module.forward).parameters.items():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD or name not in keyword_args:
            break
        leading.append(keyword_args.pop(name))
    return leading


def replace_meta_tensors(module: Any) -> tuple[Any, Any]:
    """Return the module with fake CPU tensors instead of meta tensors, and the context in which to export it.

    A model that branches on its device may need features that torch lacks for the meta device, such as
    `torch.autocast`.
    """
    torch: Any = import_module("torch")
    attributes = (
        value for part in module.modules() for value in vars(part).values() if isinstance(value, torch.Tensor)
    )
    tensors = [*module.parameters(), *module.buffers(), *attributes]
    if not any(tensor.is_meta for tensor in tensors):
        return module, nullcontext()
    mode = import_module("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True)

    def to_cpu(tensor: Any) -> Any:
        fake = torch.empty_like(tensor, device="cpu")
        return torch.nn.Parameter(fake, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else fake

    with mode:
        return deepcopy(module, {id(tensor): to_cpu(tensor) if tensor.is_meta else tensor for tensor in tensors}), mode


def as_tensors(argument: Any, like: Any) -> Any:
    """Replace each type in `argument`, such as `f32[8,16]`, by a zero tensor of that type on the device of `like`."""
    torch: Any = import_module("torch")

    def to_tensor(item: Any) -> Any:
        if isinstance(item, torch.Tensor) or not (isinstance(item, str | TensorType) or hasattr(item, "dtype")):
            return item
        type_spec = spec(item)
        return torch.zeros(type_spec.sizes, dtype=getattr(torch, _TORCH_NAMES[type_spec.dtype]), device=like.device)

    return torch.utils._pytree.tree_map(to_tensor, argument)


_TORCH_NAMES = {
    "i1": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "ui8": "uint8", "f16": "float16", "bf16": "bfloat16",
    "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
}  # fmt: skip


def serialized(program: Any) -> Exported:
    """Serialize a program like `torch.export.save`, but without a copy of the tensors.

    Torch's own serializer copies the tensors, which fails for a model on the meta device.
    """
    serialize, pytree = (import_module(f"torch.{name}") for name in ("_export.serde.serialize", "utils._pytree"))
    _refuse_lost_gradients(program)
    program = decompose_unsupported(program)
    call = _plain_call(program, pytree)
    writer = serialize.GraphModuleSerializer(program.graph_signature, [call])
    try:
        module = serialize._dataclass_to_dict(writer.serialize(program.graph_module))
        ranges = serialize._dataclass_to_dict(serialize.serialize_range_constraints(program.range_constraints))
    except Exception as error:  # Torch's serializer raises errors of various types for unsupported objects.
        text = f"torch cannot serialize the exported program, as torch.export.save would: {' '.join(str(error).split())[-300:]}"
        raise unusable(text, "return tensors, numbers and structures of these") from error
    text = json.dumps({"graph_module": module, "range_constraints": ranges}, cls=serialize.EnumEncoder)
    document = json.loads(text)
    root = next(call for call in program.module_call_graph if not call.fqn).signature
    fields: dict[str, Any] = {}
    trees = {name: tree_text(getattr(root, name), fields) for name in ("in_spec", "out_spec")}
    document["graph_module"]["module_call_graph"][0]["signature"] |= trees
    document["graph_module"]["treespec_namedtuple_fields"] = fields
    return Exported(document, arrays(program.state_dict), arrays(program.constants), _ties(program.state_dict))


def _ties(tensors: Mapping[str, Any]) -> dict[str, str]:
    """Map the second and later names of a tensor to its first name. Names with equal `_memory` have the same tensor."""
    first: dict[Any, str] = {}
    first_names = {name: first.setdefault(_memory(tensor), name) for name, tensor in tensors.items()}
    return {name: first_name for name, first_name in first_names.items() if name != first_name}


def _memory(tensor: Any) -> Any:
    """Return a hashable key that is equal for tensors with the same memory, offset, shape, strides and dtype.

    Tensor subclasses such as DTensor have no memory of their own, so their key is the object's identity.
    """
    if tensor.numel() == 0 or type(tensor).__name__ not in ("Tensor", "Parameter", "Buffer", "FakeTensor"):
        return id(tensor)
    storage = tensor.untyped_storage()._cdata
    return storage, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), str(tensor.dtype)


def _refuse_lost_gradients(program: Any) -> None:
    """Raise ProgramError MG0103 for a program whose gradients torch.export has disconnected.

    Such a program has a constant without elements, a value that the forward pass saved for a gradient. A model on the
    meta device is accepted, because it may have such constants for other reasons.
    """
    lost = [name for name, tensor in program.constants.items() if type(tensor).__name__ == "FakeTensor"]
    if lost and any(type(tensor).__name__ != "FakeTensor" for tensor in program.state_dict.values()):
        text = f"torch.export has put values of the forward pass into the program as constants without elements: {', '.join(lost)}"
        raise ProgramError(Diagnostic("MG0103", text, hint=_GRADIENTS))


def decompose_unsupported(program: Any) -> Any:
    """Decompose unsupported operations by torch's rules, and remove markers of `torch.vmap` that cannot be serialized.

    Only unsupported operations are decomposed by torch's table of rules. But every call of `run_decompositions` also
    decomposes operations that torch defines in terms of others, such as `ravel`.
    """
    seen = set[Any]()
    while True:
        modules = (module for module in program.graph_module.modules() if hasattr(module, "graph"))
        targets = {node.target for module in modules for node in module.graph.nodes if node.op == "call_function"}
        is_marked = any(
            getattr(target, "__module__", "") == "torch._functorch.predispatch" for target in targets - seen
        )
        unsupported = {target for target in targets - seen if is_operation(target) and find_op(str(target)) is None}
        torch_rules = _rules() if unsupported else {}
        rules = {target: torch_rules[target] for target in unsupported if target in torch_rules}
        if not (is_marked or rules or any(map(_is_composition, unsupported))):
            return program
        program = program.run_decompositions(rules)
        seen |= targets  # Targets that remain after the decomposition have no rule.


def _rules() -> dict[Any, Any]:
    """Return torch's decomposition rules. Listing them takes half a second."""
    table = import_module("torch._decomp").decomposition_table
    return {**table, **import_module("torch.export").default_decompositions()}


def is_operation(target: Any) -> bool:
    """Whether the target of a node is an operation of a library, such as `aten.add.Tensor`."""
    return type(target).__name__ == "OpOverload"


def _is_composition(operation: Any) -> bool:
    """Whether torch defines `operation` in terms of other operations."""
    return bool(operation._can_decompose()) if hasattr(operation, "_can_decompose") else False


def _plain_call(program: Any, pytree: Any) -> Any:
    """Return the program's call signature with arguments and results as flat lists.

    Torch cannot serialize structures of classes without a registered name.
    """
    call = next(entry for entry in program.module_call_graph if not entry.fqn)
    plain = [pytree.tree_structure([0] * spec.num_leaves) for spec in (call.signature.in_spec, call.signature.out_spec)]
    return replace(call, signature=replace(call.signature, in_spec=plain[0], out_spec=plain[1]))


def _has_no_elements(tensor: Any) -> bool:
    """Whether a tensor has only a type: it is on the meta device, or was created in a `FakeTensorMode`."""
    return tensor.is_meta or type(tensor).__name__ == "FakeTensor"


def arrays(tensors: Mapping[str, Any]) -> Lazy:
    """Return torch tensors as arrays that are converted when they are looked up. Tensors without elements are omitted."""
    return Lazy(
        {name: partial(plain_array, tensor) for name, tensor in tensors.items() if not _has_no_elements(tensor)}
    )
