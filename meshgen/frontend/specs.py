"""Specs, shardings and types of inputs and outputs: by name, by pattern, one for each, or in their structure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, cast

from meshgen.calls.callers import tell
from meshgen.calls.classes import opened
from meshgen.calls.nodes import Node, Slot, slots_of
from meshgen.calls.signature import Signature, shortened, signature_of
from meshgen.calls.trees import canonical
from meshgen.errors import Diagnostic, ShardingError, UsageError
from meshgen.frontend.shardings import SpecLike, annotated_dims, is_named_sharding
from meshgen.identity_dict import IdentityDict
from meshgen.ir.graph import Annotation, Module, Value
from meshgen.mesh import Mesh, make_mesh
from meshgen.names import nearest_names
from meshgen.sizes.program import input_names, output_names
from meshgen.spec import Sharding

Specs: TypeAlias = Mapping[str, Any] | Sequence[Any] | SpecLike | None
Pairs: TypeAlias = list[tuple[Slot, Any]]
_JAX_PATTERN = re.compile(r"""\w+(\.[\w*]+)*\[('[^']*'|"[^"]*"|\*|\d+)\](\[('[^']*'|"[^"]*"|\*|\d+)\]|\.[\w*]+)*""")


def annotated(module: Module, in_specs: Specs, out_specs: Specs, signature: Signature | None = None) -> Module:
    """The module with required annotations on its inputs and outputs; those without a spec are unchanged.

    Raises UsageError MG0001 for names that match no input or output, or specs that do not have their structure.
    """
    inputs, outputs = module.graph.inputs, module.graph.outputs
    ins, outs = signature or signature_of(input_names(module.graph)), results_of(module, signature)
    if isinstance(out_specs, Mapping):
        names = output_names(module.graph)
        values = {value.name: name for value, name in zip(outputs[::-1], names[::-1], strict=True) if value.name}
        out_specs = {_output(key, outs, values): spec for key, spec in cast("Mapping[Any, Any]", out_specs).items()}
    in_pairs = matched("input", ins, in_specs, _numbers(ins, inputs))
    out_pairs = matched("output", outs, out_specs, _numbers(outs, outputs))
    annotations = _annotations(in_pairs, inputs, module, module.in_annotations)
    wanted = _annotations(out_pairs, outputs, module, module.out_annotations)
    return replace(module, in_annotations=annotations, out_annotations=wanted)


def mesh_of_specs(*specs: Any) -> tuple[Mesh, ...]:
    """The mesh of the first `NamedSharding` in these specs; empty where they have none."""
    for spec in specs:
        if is_named_sharding(spec):
            return (make_mesh(dict(spec.mesh.shape)),)
        _, held = (None, None) if isinstance(spec, (Sharding, str)) else opened(spec) or (None, None)
        if held and (found := mesh_of_specs(*held.values())):
            return found
    return ()


def warned_of_mesh(signature: Signature, graph: Any, module: Module, given: Sequence[Mesh]) -> Signature:
    """The signature, with the warning MG0211 where a program of JAX is over a mesh with the same axes as the only one given, in other sizes."""
    own = module.mesh.by_name
    if len(given) != 1 or module.meshes or own == (sizes := given[0].by_name) or own.keys() != sizes.keys():
        return signature
    from meshgen.frontend.jax import is_jax

    if not is_jax(graph):
        return signature
    from meshgen.frontend.tracer.recording import user_location

    text = f"the program's shardings are over {module.mesh}, but it is compiled for {given[0]}"
    hint = "leave the mesh out to compile for the program's own, or make its shardings over the mesh that is meant"
    warning = Diagnostic("MG0211", text, user_location(), hint=hint)
    tell([warning])
    return replace(signature, warnings=(*signature.warnings, warning))


def results_of(module: Module, signature: Signature | None) -> Signature:
    """The outputs by name: each by its number, and in the structure that the program returns."""
    if signature is None or signature.result is None:
        return signature_of(output_names(module.graph))
    return Signature({"result": signature.result}, ("result",))


def _output(key: Any, outs: Signature, values: Mapping[str, str]) -> Any:
    """The name of an output, which may also be its key in the returned structure, or the name of its value."""
    if not isinstance(key, str) or outs.node(key) is not None:
        return key
    return f"result.{key}" if outs.node(f"result.{key}") is not None else values.get(key, key)


def _annotations(
    pairs: Pairs, values: Sequence[Value], module: Module, old: Sequence[Annotation | None]
) -> list[Annotation | None]:
    """The annotations of inputs or outputs: those of the specs, else the program's."""
    found = [*old, *[None] * (len(values) - len(old))]
    faults: list[Diagnostic] = []
    for slot, spec in pairs:
        if slot.number is None:
            faults += annotated_dims(spec, len(slot.shape), module.mesh)[0].faults(slot.shape, module.mesh)
            continue
        value = values[slot.number]
        sharding, open_dims = annotated_dims(spec, value.type.rank, module.mesh)
        found[slot.number] = Annotation(sharding, True, open_dims, value.loc)
    if faults:
        raise ShardingError(*faults)
    return found


def _numbers(signature: Signature, values: Sequence[Value]) -> frozenset[str]:
    """The names of leaves without dims."""
    return frozenset(
        slot.name for slot in signature.slots if slot.number is not None and not values[slot.number].type.rank
    )


def matched(word: str, signature: Signature, specs: Any, numbers: frozenset[str] = frozenset()) -> Pairs:
    """The specs of inputs or outputs. Raises UsageError MG0001 for those that fit none.

    A pattern that matches leaves with dims is not about `numbers`, the leaves without: `*.w` matches the weight `w`, and the
    count of steps that an optimizer keeps for it.
    """
    faults: list[str] = []
    if specs is None:
        return []
    if isinstance(specs, Mapping):
        named = cast("Mapping[Any, Any]", specs)
        pairs = [
            pair
            for name, spec in named.items()
            for pair in _matching_specs(word, signature, name, spec, numbers, faults)
        ]
        faults += _contradictions(word, signature, named)
    else:
        pairs = list(_specs_in_order(word, signature, specs, faults))
    if faults:
        hint = f"the {word}s are {shortened(', '.join(slot.name for slot in signature.slots))}"
        raise UsageError(*(Diagnostic("MG0001", text, hint=hint) for text in faults))
    return [(slot, spec) for slot, spec in pairs if spec is not None]


def _contradictions(word: str, signature: Signature, specs: Mapping[Any, Any]) -> Iterator[str]:
    """Names of one leaf, such as those of a tied tensor, that have different specs."""
    first = IdentityDict[Node, str]()
    for name, spec in specs.items():
        node = signature.node(name) if isinstance(name, str) else None
        if isinstance(node, Slot) and specs[other := first.setdefault(node, name)] != spec:
            yield f"'{other}' and '{name}' are one {word}, with the specs {specs[other]} and {spec}"


def _matching_specs(word: str, signature: Signature, name: Any, spec: Any, numbers: frozenset[str], faults: list[str]) -> Pairs:  # fmt: skip
    """The node of this name, else all leaves whose names match the pattern."""
    if not isinstance(name, str):
        faults.append(f"unknown {word} {name!r}")
        return []
    node = signature.node(name)
    if node is not None:
        return list(_spread(node, spec, name, faults))
    is_match = _matcher(name)
    hits = IdentityDict((node, key) for key, node in signature.by_name.items() if is_match(key, node))
    if not hits:
        near = nearest_names(name, signature.by_name, 1)
        faults.append(f"unknown {word} '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
    pairs = [pair for node, key in hits.items() for pair in _spread(node, spec, key, faults)]
    return [pair for pair in pairs if pair[0].name not in numbers] or pairs


def _matcher(pattern: str) -> Callable[[str, Node], bool]:
    """Which nodes a pattern means: `*` any leaves, JAX's `params['h'][*]['attn']` what is there for any key."""
    if not _JAX_PATTERN.fullmatch(pattern):
        return lambda name, node: isinstance(node, Slot) and fnmatchcase(name, pattern)
    parts = re.escape(canonical(pattern)).replace(r"\*", "[^.]*")
    whole = re.compile(parts)
    return lambda name, node: whole.fullmatch(name) is not None


def _spread(node: Node, spec: Any, name: str, faults: list[str]) -> Iterator[tuple[Slot, Any]]:
    """A spec for a leaf; for a structure one of the same structure, or one that applies to all leaves."""
    if isinstance(node, Slot):
        if isinstance(spec, Mapping):
            faults.append(f"'{name}' is one array: expected a sharding, got {spec!r:.60}")
        else:
            yield node, spec
        return
    _, held = (None, None) if isinstance(spec, Sharding) else opened(spec) or (None, None)
    if held is None:
        yield from ((slot, spec) for slot in slots_of(node))
        return
    faults += [f"unknown name '{name}.{key}', given {each!r:.60}" for key, each in held.items() if key not in node]
    for key, each in held.items():
        if key in node:
            yield from _spread(node[key], each, f"{name}.{key}", faults)


def _specs_in_order(word: str, signature: Signature, specs: Any, faults: list[str]) -> Iterator[tuple[Slot, Any]]:
    """A spec for each argument, in its structure, or for each leaf."""
    rows: list[Any] | None = [specs] if isinstance(specs, (Sharding, str)) else _spec_list(specs)
    if rows is None:
        faults.append(f"specs of {word}s must be a dict by name, or a list with one for each, got {specs!r:.60}")
        return
    nodes, slots = list(signature.nodes.values()), signature.slots
    if word == "output" and isinstance(nodes[0], dict):  # what is returned, not something in it
        nodes = list(nodes[0].values())
    is_by_parameter = len(rows) == len(nodes) and all(map(_is_whole_spec, nodes, rows))
    if is_by_parameter or len(rows) == len(slots):
        for node, row in zip(nodes if is_by_parameter else slots, rows, strict=True):
            yield from _spread(node, row, _name_in_signature(node, signature), faults)
    else:
        faults.append(
            f"{len(rows)} {word} specs were given, but there are {len(slots)} {word}s: "
            f"{shortened(', '.join(slot.name for slot in slots))}"
        )


def _spec_list(specs: Any) -> list[Any] | None:
    return list(cast("Sequence[Any]", specs)) if isinstance(specs, (list, tuple)) else None


def _is_whole_spec(node: Node, row: Any) -> bool:
    """Whether a row can be the spec of a whole argument: one without leaves has no sharding."""
    return isinstance(node, Slot) or bool(node) or (opened(row) or (None, None))[1] == {}


def _name_in_signature(node: Node, signature: Signature) -> str:
    return next(name for name, each in signature.by_name.items() if each is node)
