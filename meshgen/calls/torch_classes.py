"""Objects of classes that are registered with torch's pytrees, such as the outputs of transformers' models, from the names of their classes.

Only classes that the running program has registered or imported itself are made: a name comes from a file, and nothing is imported for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

_BUILT_IN = ("builtins", "collections", "functools", "torch")


def torch_object(origin: str, held: Mapping[str, Any]) -> Any:
    """Return the object of a class and of its fields; None where the class is not there, or does not take the fields.

    Args:
        origin: JSON, `[name of the class, context]`; the context is JSON that torch's pytree keeps beside the fields.
    """
    try:
        name, context = json.loads(origin)
        kind = _registered_class(name) or _named_tuple_class(name, tuple(held))
        if kind is None or kind.__module__.partition(".")[0] in _BUILT_IN:
            return None
        if hasattr(kind, "_fields"):
            return kind(*held.values())
        return _unflattened(kind, json.loads(context), held)
    except Exception:  # an object that the class refuses is a record with the same fields
        return None


def _pytree() -> Any:
    return sys.modules.get("torch.utils._pytree")


def _registered_class(name: str) -> Any:
    """Return the class in torch's table: by the name that it was registered with, else by its own."""
    if _pytree() is None:
        return None
    found = _pytree().SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    return found or next(
        (each for each in _pytree().SUPPORTED_NODES if f"{each.__module__}.{each.__qualname__}" == name), None
    )


def _named_tuple_class(name: str, names: tuple[str, ...]) -> Any:
    """Return the class of a named tuple with these fields, where its module is imported already."""
    module, _, title = name.rpartition(".")
    kind: Any = getattr(sys.modules.get(module), title, None)
    return (
        kind if isinstance(kind, type) and issubclass(kind, tuple) and getattr(kind, "_fields", None) == names else None
    )


def _unflattened(kind: Any, context: Any, held: Mapping[str, Any]) -> Any:
    """Return an object as torch's pytree makes it of leaves and context."""
    read = getattr(_pytree().SUPPORTED_SERIALIZED_TYPES.get(kind), "from_dumpable_context", None)
    return _pytree().SUPPORTED_NODES[kind].unflatten_fn([*held.values()], read(context) if read else context)
