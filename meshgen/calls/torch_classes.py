"""Reconstruction of objects whose classes are registered with torch's pytrees, such as the outputs of transformers'
models.

A class name may come from an untrusted file, so nothing is imported for it: only classes that the process has already
registered or imported are instantiated.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

_BUILT_IN = ("builtins", "collections", "functools", "torch")


def torch_object(origin: str, held: Mapping[str, Any]) -> Any:
    """Return an object of the class that `origin` names, with the fields `held`.

    Returns None if the class is not available, or if it rejects the fields.

    Args:
        origin: JSON `[class name, context]`. The context is JSON that torch's pytree stores in addition to the fields.
    """
    try:
        name, context = json.loads(origin)
        kind = _registered_class(name) or _named_tuple_class(name, tuple(held))
        if kind is None or kind.__module__.partition(".")[0] in _BUILT_IN:
            return None
        if hasattr(kind, "_fields"):
            return kind(*held.values())
        return _unflattened(kind, json.loads(context), held)
    except Exception:  # The class rejects the fields. The caller then builds a record with the same fields.
        return None


def _pytree() -> Any:
    return sys.modules.get("torch.utils._pytree")


def _registered_class(name: str) -> Any:
    """Return the class that torch's pytree registry has under the serialized name `name`, or else the qualified name
    `name`.
    """
    if _pytree() is None:
        return None
    by_registered_name = _pytree().SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name)
    return by_registered_name or next(
        (
            registered
            for registered in _pytree().SUPPORTED_NODES
            if f"{registered.__module__}.{registered.__qualname__}" == name
        ),
        None,
    )


def _named_tuple_class(name: str, names: tuple[str, ...]) -> Any:
    """Return the named tuple class `name` with the fields `names`, or None if its module is not imported."""
    module, _, title = name.rpartition(".")
    kind: Any = getattr(sys.modules.get(module), title, None)
    return (
        kind if isinstance(kind, type) and issubclass(kind, tuple) and getattr(kind, "_fields", None) == names else None
    )


def _unflattened(kind: Any, context: Any, held: Mapping[str, Any]) -> Any:
    """Rebuild an object from its fields and its context, with the functions that torch's pytree registry has for its
    class.
    """
    decode = getattr(_pytree().SUPPORTED_SERIALIZED_TYPES.get(kind), "from_dumpable_context", None)
    return _pytree().SUPPORTED_NODES[kind].unflatten_fn([*held.values()], decode(context) if decode else context)
