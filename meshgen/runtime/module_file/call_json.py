"""The JSON form of a module's call signature: parameters, structures of parameters, and results.

    {"parameters": [["params", {"kind": "dict", "children": [["w", {"name": "params.w", "number": 0}]]}]], "positional":
    ["params"], ...}

The JSON names classes, but reading it imports none. At a call, structured results are built with the classes of
the arguments, or as plain records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from meshgen.calls.argument_tree import Branch, Node, Slot, slots_of
from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.calls.structure_forms import KINDS, Form, constant_of
from meshgen.ir.graph import TensorType
from meshgen.ir.limits import MAX_NESTING
from meshgen.runtime.module_file.json_values import (
    get,
    one_of,
    optional,
    read_count,
    read_flag,
    read_list,
    read_name,
    read_table,
    read_text,
    shown,
    table_of,
)

Json = dict[str, Any]


def call_to_json(signature: Signature | None) -> Json:
    """Return the "call" entry of a manifest.

    Returns an empty dict if the program takes its inputs as arrays in order, because then it needs no entry.
    """
    if signature is None or signature.in_order:
        return {}
    call: Json = {
        "parameters": [[name, _node_to_json(node)] for name, node in signature.nodes.items()],
        "positional": list(signature.positional),
        "rest": signature.rest,
        "extra": signature.extra,
        "narrows": signature.narrows,
    }
    if signature.weight_names:
        call["weights"] = list(signature.weight_names)
    if signature.aliases:
        call["aliases"] = [list(pair) for pair in signature.aliases.items()]
    result = {} if signature.result is None else {"result": _node_to_json(signature.result)}
    return {"call": call | result}


def _node_to_json(node: Node) -> Json:
    if isinstance(node, Slot):
        key = {"key": node.key} if node.key else {}
        return {"name": node.name, "number": node.number, **key}
    form = node.form
    optional_texts = {"title": form.title, "static": form.static, "origin": form.origin}
    keys = {"keys": list(form.keys)} if form.keys and all(map(_is_key, form.keys)) else {}
    children = {"children": [[key, _node_to_json(child)] for key, child in node.items()]}
    return {"kind": form.kind} | {name: text for name, text in optional_texts.items() if text} | keys | children


def _is_key(key: Any) -> bool:
    """Whether JSON can represent a dict key exactly. Other keys are stored as text."""
    is_number = isinstance(key, int) and -(1 << 63) <= key < 1 << 63
    return key is None or is_number or isinstance(key, str) or (isinstance(key, float) and math.isfinite(key))


def state_to_json(state: State | None) -> Json:
    """Return the "state" entry of a manifest, or an empty dict if the state is unknown."""
    if state is None:
        return {}
    return {"state": {"next_values": dict(state.next_values), "undecided": dict(state.undecided)}}


def state_from_json(value: Json) -> State | None:
    """Return the state stored in a manifest, or None if the module was written without a signature.

    Raises ValueError for a malformed entry.
    """
    return get(value, "state", _state) if "state" in value else None


def _state(value: Any) -> State:
    next_values = get(value, "next_values", lambda table: table_of(table, read_count))
    if len({*next_values.values()}) != len(next_values):
        raise ValueError("each result must be the next value of one argument")
    return State(
        next_values,
        get(
            value,
            "undecided",
            lambda table: {read_text(text): read_text(hint) for text, hint in read_table(table).items()},
        ),
    )


def require_state(state: State | None, inputs: Mapping[str, TensorType], outputs: Sequence[TensorType]) -> None:
    """Raise ValueError unless each argument in the state and its next value have the same type.

    An argument that the program does not read is not in `inputs`, so its type is not checked.
    """
    for name, result_index in state.next_values.items() if state else ():
        if result_index >= len(outputs) or outputs[result_index] != inputs.get(name, outputs[result_index]):
            raise ValueError(f"state: result {result_index} is not the next value of '{name}'")


def call_from_json(value: Json, inputs: Sequence[str] | None, outputs: int | None) -> Signature | None:
    """Return the signature stored in a manifest, or None if it has no "call" entry.

    This is the inverse of `call_to_json`.

    Args:
        inputs: names of the program's inputs, or None if they are not known yet.
        outputs: number of the program's outputs, or None if it is not known yet.
    Raises:
        ValueError: the entry is malformed, or does not match the inputs and outputs.
    """
    if "call" not in value:
        return None
    signature = get(value, "call", _signature)
    if inputs is not None and outputs is not None:
        require_fit(signature, inputs, outputs)
    return signature


def require_fit(signature: Signature, inputs: Sequence[str], outputs: int) -> None:
    """Raise ValueError unless the slots of `signature` are exactly the inputs and outputs of the program, each once."""
    used = [(slot.number, slot.name) for slot in signature.slots if slot.number is not None]
    if sorted(used) != list(enumerate(inputs)):
        raise ValueError("call: its slots are not the inputs")
    names = [slot.name for slot in signature.slots]
    if len({*names}) != len(names):
        raise ValueError("call: names of arguments must be distinct")
    if not {*signature.weight_names} <= {*names}:
        raise ValueError("call: its weights must be arguments")
    if signature.result is None:
        return
    result_indices = [slot.number for slot in slots_of(signature.result)]
    if None in result_indices or sorted(result_index or 0 for result_index in result_indices) != list(range(outputs)):
        raise ValueError("call: the slots of its result are not the outputs")


def _signature(value: Any) -> Signature:
    nodes = get(value, "parameters", _children)
    positional = get(value, "positional", lambda names: read_list(names, read_name))
    rest, extra = (get(value, name, read_name) for name in ("rest", "extra"))
    if not {*positional} <= {*nodes} or len({*positional}) != len(positional) or not {rest, extra} <= {"", *nodes}:
        raise ValueError("positional, rest and extra must be parameters, each once")
    result = get(value, "result", _node) if "result" in value else None
    weight_names = tuple(read_list(value.get("weights", []), read_name))
    aliases = _pairs_of_names(value.get("aliases", []))
    if not {*aliases.values()} <= {slot.name for slot in slots_of(nodes) if slot.number is not None}:
        raise ValueError("aliases must be of inputs")
    narrows = get(value, "narrows", read_flag)
    return Signature(
        nodes, positional, rest, extra, result=result, narrows=narrows, weight_names=weight_names, aliases=aliases
    )


def _pairs_of_names(value: Any) -> dict[str, str]:
    names: dict[str, str] = {}
    for pair in read_list(value, lambda pair_value: read_list(pair_value, read_name)):
        if len(pair) != 2:
            raise ValueError(f"expected two names, got {shown(list(pair))}")
        names[pair[0]] = pair[1]
    return names


def _children(value: Any, depth: int = 0) -> dict[str, Node]:
    pairs = read_list(value, lambda pair: _child(pair, depth))
    children = dict(pairs)
    if len(children) != len(pairs):
        raise ValueError("its keys must be distinct")
    return children


def _child(value: Any, depth: int) -> tuple[str, Node]:
    pair = read_list(value, lambda item: item)
    if len(pair) != 2:
        raise ValueError(f"expected a key and what it has, got {shown(value)}")
    return read_name(pair[0]), _node(pair[1], depth)


def _node(value: Any, depth: int = 0) -> Node:
    if depth > MAX_NESTING:
        raise ValueError(f"it is nested more than {MAX_NESTING} deep")
    table = read_table(value)
    if "kind" not in table:
        return Slot(
            get(table, "name", read_name),
            get(table, "number", optional(read_count)),
            key=read_name(table.get("key", "")),
        )
    children = get(table, "children", lambda rows: _children(rows, depth + 1))
    kind = get(table, "kind", lambda word: one_of(word, KINDS))
    keys = read_list(table.get("keys", []), _read_dict_key)
    if keys and (kind != "dict" or len({*keys}) != len(children) or [*map(str, keys)] != [*children]):
        raise ValueError("its keys do not match its children")
    if kind == "none" and children:
        raise ValueError("None has no children")
    form = Form(
        kind,
        read_name(table.get("title", "")),
        read_name(table.get("static", "")),
        keys,
        read_name(table.get("origin", "")),
    )
    if kind == "constant":
        constant_of(form, dict.fromkeys(children, 0))
    return Branch(children.items(), form)


def _read_dict_key(value: Any) -> Any:
    if not _is_key(value):
        raise ValueError(f"{shown(value)} cannot be the key of a dict")
    return value
