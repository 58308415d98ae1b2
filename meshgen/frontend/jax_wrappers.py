"""Functions that wrap a function of `jax.jit`.

Examples are `nnx.jit(f)`, `eqx.filter_jit(f)`, and `functools.partial` of a jitted function. A wrapper converts its
caller's arguments to pytrees, calls the jitted function, and converts the result back; `nnx.jit` also updates the
caller's modules. meshgen calls the wrapper itself, with a substitute for the jitted function:

    a substitute that raises its arguments      shows which arguments the program receives
    a substitute that returns given arrays      builds the result that the caller gets

Modules and results are thus the framework's, and meshgen depends only on the attribute with the jitted function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, NoReturn

# Attributes that hold the jitted function: in wrappers of flax.nnx, and in wrappers of equinox.
_ATTRIBUTES = ("jitted_fn", "_cached")
_REPLACING = Lock()  # Held while a wrapper's jitted function is replaced.


class _PassedError(Exception):
    """Raised in place of the jitted function, to carry the arguments that a wrapper passes to it out of the wrapper."""


@dataclass(frozen=True)
class Wrapper:
    """A framework's function that calls a function of `jax.jit`, such as `nnx.jit(f)`.

    Attributes:
        base: the framework's function, without the arguments that `functools.partial` binds.
        jitted: the function of `jax.jit` that `base` calls.
        attribute: the attribute of `base` that holds `jitted`; empty if `base` is `jitted`.
        args, kwargs: the arguments that `functools.partial` binds.
    """

    base: Any
    jitted: Any
    attribute: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def call(self, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Call a copy of the wrapper that calls `function` instead of its jitted function."""
        base = function
        if self.attribute:
            base = copy(self.base)
            object.__setattr__(base, self.attribute, function)
        return base(*self.args, *args, **{**self.kwargs, **kwargs})

    def passed(self, args: Any, kwargs: Mapping[str, Any]) -> Passed:
        """Return the arguments that the wrapper passes to its jitted function in this call.

        Raises any error of the wrapper.
        """
        try:
            self.call(_raise_arguments, args, kwargs)
        except _PassedError as error:
            return Passed.of(self.jitted, *error.args)
        raise TypeError(f"{self.base!r:.60} does not call its jitted function")

    def traced(self, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Trace the jitted function with the arguments that the wrapper passes to it for `args` and `kwargs`.

        The method modifies the wrapper itself for this call, not a copy, because the traced function refers to the
        wrapper.
        """
        traces: list[Any] = []

        def trace(*args: Any, **kwargs: Any) -> NoReturn:
            traces.append(self.jitted.trace(*args, **kwargs))
            _raise_arguments(*args, **kwargs)

        with _REPLACING, suppress(_PassedError):
            if self.attribute:
                object.__setattr__(self.base, self.attribute, trace)
            try:
                (self.base if self.attribute else trace)(*self.args, *args, **{**self.kwargs, **kwargs})
            finally:
                if self.attribute:
                    object.__setattr__(self.base, self.attribute, self.jitted)
        return traces[0]


@dataclass(frozen=True)
class Passed:
    """The arguments of a call of a jitted function, divided into traced and static ones.

    Attributes:
        args, kwargs: all arguments.
        leaves, tree: the arrays of the traced arguments, and the pytree structure to rebuild these arguments.
        static: the static arguments, positional ones first.
    """

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leaves: list[Any]
    tree: Any
    static: list[Any]

    @staticmethod
    def of(jitted: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Passed:
        """Divide the arguments into traced and static ones as `jax.jit` does."""
        from jax import tree_util

        info = getattr(jitted, "_jit_info", None)  # JAX has no public API for the static arguments
        numbers = {
            number % len(args) for number in getattr(info, "static_argnums", ()) if -len(args) <= number < len(args)
        }
        names = {*getattr(info, "static_argnames", ())}
        static = [arg for number, arg in enumerate(args) if number in numbers]
        static += [kwargs[name] for name in sorted(names & kwargs.keys())]
        traced = tuple(arg for number, arg in enumerate(args) if number not in numbers)
        leaves, tree = tree_util.tree_flatten((traced, {k: v for k, v in kwargs.items() if k not in names}))
        return Passed(args, kwargs, leaves, tree, static)

    def has_static_of(self, other: Passed) -> bool:
        """Whether the static arguments equal those of `other`."""
        try:
            return bool(self.static == other.static)
        except Exception:  # The `__eq__` of a user's class, or of an array, can raise anything.
            return False


def _raise_arguments(*args: Any, **kwargs: Any) -> NoReturn:
    raise _PassedError(args, kwargs)


def wrapper_of(program: Any) -> Wrapper | None:
    """Return the `Wrapper` for `program`, or None if it wraps no jitted function."""
    if isinstance(program, partial) or (
        _is_of(program, "equinox") and {"func", "args", "keywords"} <= {*vars(program)}
    ):
        partial_function: Any = program
        inner = wrapper_of(partial_function.func) or (
            Wrapper(partial_function.func, partial_function.func) if is_jitted(partial_function.func) else None
        )
        if inner is None:
            return None
        args, kwargs = (*inner.args, *partial_function.args), {**inner.kwargs, **partial_function.keywords}
        return Wrapper(inner.base, inner.jitted, inner.attribute, args, kwargs)
    if not (_is_of(program, "flax") or _is_of(program, "equinox")):
        return None
    for attribute in _ATTRIBUTES:
        if is_jitted(jitted := getattr(program, attribute, None)):
            return Wrapper(program, jitted, attribute)
    return None


def is_jitted(program: Any) -> bool:
    """Whether `program` has the methods of a function of `jax.jit`."""
    return callable(program) and hasattr(program, "lower") and hasattr(program, "trace")


def is_lowered_by_framework(program: Any) -> bool:
    """Whether a framework (flax, equinox) lowered the program.

    Such a program does not record how callers pass their modules.
    """
    return (_is_of(program, "flax") or _is_of(program, "equinox")) and hasattr(program, "as_text")


def _is_of(program: Any, package: str) -> bool:
    return type(program).__module__.partition(".")[0] == package


def is_nnx_node(leaf: Any) -> bool:
    """Whether `leaf` is a module, an optimizer or a variable of `flax.nnx`."""
    return any(kind.__module__.startswith("flax.nnx.") for kind in type(leaf).__mro__)


def is_nnx_variable(leaf: Any) -> bool:
    """Whether `leaf` is a variable of `flax.nnx`, which holds one array."""
    variable = getattr(sys.modules.get("flax.nnx"), "Variable", None)
    return variable is not None and isinstance(leaf, variable)


def duplicate(structure: Any) -> Any:
    """Copy the modules of `flax.nnx` in a structure, so that a call can update the copies. The copies share the arrays."""
    from jax import tree_util

    if any(map(is_nnx_node, tree_util.tree_leaves(structure, is_leaf=is_nnx_node))):
        return sys.modules["flax.nnx"].clone(structure)
    return structure
