"""Match the user's sharding specs to the program's inputs and outputs: by name, by pattern, in order or by structure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias, cast

from meshgen.calls.argument_tree import Node, Slot, slots_of
from meshgen.calls.callers import tell
from meshgen.calls.signature import Signature, shortened, signature_of
from meshgen.calls.structure_forms import opened
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
    """Return the module with a required sharding annotation on each input and output that has a spec.

    Raises:
        UsageError: MG0001, a name matches no input or output, or the structure of a spec differs from the argument's.
    """
    inputs, outputs = module.graph.inputs, module.graph.outputs
    input_signature, output_signature = (
        signature or signature_of(input_names(module.graph)),
        results_of(module, signature),
    )
    if isinstance(out_specs, Mapping):
        names = output_names(module.graph)
        values = {value.name: name for value, name in zip(outputs[::-1], names[::-1], strict=True) if value.name}
        out_specs = {
            _output(key, output_signature, values): spec for key, spec in cast("Mapping[Any, Any]", out_specs).items()
        }
    in_pairs = matched("input", input_signature, in_specs, _scalar_names(input_signature, inputs))
    out_pairs = matched("output", output_signature, out_specs, _scalar_names(output_signature, outputs))
    in_annotations = _annotations(in_pairs, inputs, module, module.in_annotations)
    out_annotations = _annotations(out_pairs, outputs, module, module.out_annotations)
    return replace(module, in_annotations=in_annotations, out_annotations=out_annotations)


def mesh_of_specs(*specs: Any) -> tuple[Mesh, ...]:
    """Return a tuple with the mesh of the first `NamedSharding` in the specs, or an empty tuple if there is none."""
    for spec in specs:
        if is_named_sharding(spec):
            return (make_mesh(dict(spec.mesh.shape)),)
        _, children = (None, None) if isinstance(spec, (Sharding, str)) else opened(spec) or (None, None)
        if children and (mesh := mesh_of_specs(*children.values())):
            return mesh
    return ()


def warn_of_other_mesh(signature: Signature, graph: Any, module: Module, user_meshes: Sequence[Mesh]) -> Signature:
    """Return the signature, with warning MG0211 if the user's mesh and the JAX program's mesh differ in sizes.

    The warning is for meshes with the same axis names, and only if the user gives a single mesh.
    """
    program_sizes = module.mesh.by_name
    if (
        len(user_meshes) != 1
        or module.meshes
        or program_sizes == (sizes := user_meshes[0].by_name)
        or program_sizes.keys() != sizes.keys()
    ):
        return signature
    from meshgen.frontend.jax import is_jax

    if not is_jax(graph):
        return signature
    from meshgen.frontend.tracer.recording import user_location

    text = f"the program's shardings are over {module.mesh}, but it is compiled for {user_meshes[0]}"
    hint = "leave the mesh out to compile for the program's own, or make its shardings over the mesh that is meant"
    warning = Diagnostic("MG0211", text, user_location(), hint=hint)
    tell([warning])
    return replace(signature, warnings=(*signature.warnings, warning))


def results_of(module: Module, signature: Signature | None) -> Signature:
    """Return the outputs as a signature: in the structure that the function returns, or as a flat list by name."""
    if signature is None or signature.result is None:
        return signature_of(output_names(module.graph))
    return Signature({"result": signature.result}, ("result",))


def _output(key: Any, output_signature: Signature, output_by_value_name: Mapping[str, str]) -> Any:
    """Return the output that the user's `key` refers to, by name.

    `key` is an output name, a key of the returned structure (`loss` for `result.loss`), or the name of an SSA value.
    """
    if not isinstance(key, str) or output_signature.node(key) is not None:
        return key
    return f"result.{key}" if output_signature.node(f"result.{key}") is not None else output_by_value_name.get(key, key)


def _annotations(
    pairs: Pairs, values: Sequence[Value], module: Module, old: Sequence[Annotation | None]
) -> list[Annotation | None]:
    """Return the annotation of each input or output in `values`. A spec replaces the annotation that the program has."""
    annotations = [*old, *[None] * (len(values) - len(old))]
    faults: list[Diagnostic] = []
    for slot, spec in pairs:
        if slot.number is None:
            faults += annotated_dims(spec, len(slot.shape), module.mesh)[0].faults(slot.shape, module.mesh)
            continue
        value = values[slot.number]
        sharding, open_dims = annotated_dims(spec, value.type.rank, module.mesh)
        annotations[slot.number] = Annotation(sharding, True, open_dims, value.loc)
    if faults:
        raise ShardingError(*faults)
    return annotations


def _scalar_names(signature: Signature, values: Sequence[Value]) -> frozenset[str]:
    """Return the names of the inputs or outputs that are scalars."""
    return frozenset(
        slot.name for slot in signature.slots if slot.number is not None and not values[slot.number].type.rank
    )


def matched(word: str, signature: Signature, specs: Any, numbers: frozenset[str] = frozenset()) -> Pairs:
    """Pair the inputs or outputs with their specs; `word` is "input" or "output".

    Raises UsageError MG0001 for unused specs.

    A pattern that matches both scalars (listed in `numbers`) and tensors applies only to the tensors. `*.w` thus
    matches the weight `w`, but not the scalar step count that an optimizer stores under the same key.
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
    """Yield a message for each input or output with several names (such as a tied weight) that have different specs."""
    first = IdentityDict[Node, str]()
    for name, spec in specs.items():
        node = signature.node(name) if isinstance(name, str) else None
        if isinstance(node, Slot) and specs[other := first.setdefault(node, name)] != spec:
            yield f"'{other}' and '{name}' are one {word}, with the specs {specs[other]} and {spec}"


def _matching_specs(word: str, signature: Signature, name: Any, spec: Any, numbers: frozenset[str], faults: list[str]) -> Pairs:  # fmt: skip
    """Pair the input or output named `name`, or all whose names match the pattern `name`, with `spec`."""
    if not isinstance(name, str):
        faults.append(f"unknown {word} {name!r}")
        return []
    node = signature.node(name)
    if node is not None:
        return list(_spread(node, spec, name, faults))
    is_match = _matcher(name)
    matching_nodes = IdentityDict((node, key) for key, node in signature.by_name.items() if is_match(key, node))
    if not matching_nodes:
        similar_names = nearest_names(name, signature.by_name, 1)
        faults.append(f"unknown {word} '{name}'" + (f"; did you mean '{similar_names[0]}'?" if similar_names else ""))
    pairs = [pair for node, key in matching_nodes.items() for pair in _spread(node, spec, key, faults)]
    return [pair for pair in pairs if pair[0].name not in numbers] or pairs


def _matcher(pattern: str) -> Callable[[str, Node], bool]:
    """Return a predicate on (name, node): whether `pattern` matches. A glob with `*` matches single arrays only.

    In JAX's notation, `params['h'][*]['attn']`, `[*]` matches any one key.
    """
    if not _JAX_PATTERN.fullmatch(pattern):
        return lambda name, node: isinstance(node, Slot) and fnmatchcase(name, pattern)
    regex_text = re.escape(canonical(pattern)).replace(r"\*", "[^.]*")
    regex = re.compile(regex_text)
    return lambda name, node: regex.fullmatch(name) is not None


def _spread(node: Node, spec: Any, name: str, faults: list[str]) -> Iterator[tuple[Slot, Any]]:
    """Pair each array of `node` with its spec. `spec` is one sharding for all arrays, or a structure like `node`."""
    if isinstance(node, Slot):
        if isinstance(spec, Mapping):
            faults.append(f"'{name}' is one array: expected a sharding, got {spec!r:.60}")
        else:
            yield node, spec
        return
    _, children = (None, None) if isinstance(spec, Sharding) else opened(spec) or (None, None)
    if children is None:
        yield from ((slot, spec) for slot in slots_of(node))
        return
    faults += [
        f"unknown name '{name}.{key}', given {child_spec!r:.60}"
        for key, child_spec in children.items()
        if key not in node
    ]
    for key, child_spec in children.items():
        if key in node:
            yield from _spread(node[key], child_spec, f"{name}.{key}", faults)


def _specs_in_order(word: str, signature: Signature, specs: Any, faults: list[str]) -> Iterator[tuple[Slot, Any]]:
    """Yield (array, spec) for a list `specs` with an entry per argument (nested like the argument) or per array."""
    rows: list[Any] | None = [specs] if isinstance(specs, (Sharding, str)) else _spec_list(specs)
    if rows is None:
        faults.append(f"specs of {word}s must be a dict by name, or a list with one for each, got {specs!r:.60}")
        return
    nodes, slots = list(signature.nodes.values()), signature.slots
    # If the function returns a list or dict, the user's specs list its entries.
    if word == "output" and isinstance(nodes[0], dict):
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
    """Whether `row` can be the spec of the entire argument `node`.

    For an argument without arrays, it must be an empty tree.
    """
    return isinstance(node, Slot) or bool(node) or (opened(row) or (None, None))[1] == {}


def _name_in_signature(node: Node, signature: Signature) -> str:
    return next(name for name, candidate in signature.by_name.items() if candidate is node)
