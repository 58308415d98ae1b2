"""Functions that wrap a function of `jax.jit`: `nnx.jit(f)`, `eqx.filter_jit(f)`, and `functools.partial` of a jitted function.

A wrapper turns what its caller passes into pytrees, calls the jitted function, and turns the result into what its caller gets;
`nnx.jit` also updates the caller's modules. meshgen calls the wrapper itself, with another function in the place of the jitted one:

    a function that raises its arguments     tells what the program is passed
    a function that returns given arrays     makes what the caller gets

So modules and results are those of the framework, and meshgen knows of it only the attribute that holds the jitted function.
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

_ATTRIBUTES = ("jitted_fn", "_cached")  # of flax.nnx and of equinox
_REPLACING = Lock()  # held while the jitted function of a wrapper is replaced


class _PassedError(Exception):
    """Holds the arguments that a wrapper passes to its jitted function."""


@dataclass(frozen=True)
class Wrapper:
    """A function around a jitted one.

    Attributes:
        base: the function of the framework, without the arguments that `functools.partial` binds.
        jitted: the function of `jax.jit` that it calls.
        attribute: where `base` holds it; empty: `base` is the jitted function.
        args, kwargs: the bound arguments.
    """

    base: Any
    jitted: Any
    attribute: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def call(self, function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Call the wrapper with `function` in the place of the jitted one."""
        base = function
        if self.attribute:
            base = copy(self.base)
            object.__setattr__(base, self.attribute, function)
        return base(*self.args, *args, **{**self.kwargs, **kwargs})

    def passed(self, args: Any, kwargs: Mapping[str, Any]) -> Passed:
        """What the jitted function is passed in a call with these arguments. Raises what the wrapper raises."""
        try:
            self.call(_raise_arguments, args, kwargs)
        except _PassedError as error:
            return Passed.of(self.jitted, *error.args)
        raise TypeError(f"{self.base!r:.60} does not call its jitted function")

    def traced(self, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """The trace of the jitted function for a call with these arguments.

        It is made in a call of the wrapper itself, not of a copy, because the function that is traced refers to the wrapper.
        """
        found: list[Any] = []

        def trace(*args: Any, **kwargs: Any) -> NoReturn:
            found.append(self.jitted.trace(*args, **kwargs))
            _raise_arguments(*args, **kwargs)

        with _REPLACING, suppress(_PassedError):
            if self.attribute:
                object.__setattr__(self.base, self.attribute, trace)
            try:
                (self.base if self.attribute else trace)(*self.args, *args, **{**self.kwargs, **kwargs})
            finally:
                if self.attribute:
                    object.__setattr__(self.base, self.attribute, self.jitted)
        return found[0]


@dataclass(frozen=True)
class Passed:
    """The arguments of a jitted function: all of them, the leaves of those that are traced, their tree, and the static ones."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    leaves: list[Any]
    tree: Any
    static: list[Any]

    @staticmethod
    def of(jitted: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Passed:
        """The arguments, divided as `jax.jit` divides them."""
        from jax import tree_util

        info = getattr(jitted, "_jit_info", None)  # JAX has no public way to ask which arguments are static
        numbers = {
            number % len(args) for number in getattr(info, "static_argnums", ()) if -len(args) <= number < len(args)
        }
        names = {*getattr(info, "static_argnames", ())}
        static = [each for number, each in enumerate(args) if number in numbers]
        static += [kwargs[name] for name in sorted(names & kwargs.keys())]
        traced = tuple(each for number, each in enumerate(args) if number not in numbers)
        leaves, tree = tree_util.tree_flatten((traced, {k: v for k, v in kwargs.items() if k not in names}))
        return Passed(args, kwargs, leaves, tree, static)

    def has_static_of(self, other: Passed) -> bool:
        """Whether the static arguments are equal to those of another call."""
        try:
            return bool(self.static == other.static)
        except Exception:  # the `__eq__` of a user's class, or of an array
            return False


def _raise_arguments(*args: Any, **kwargs: Any) -> NoReturn:
    raise _PassedError(args, kwargs)


def wrapper_of(program: Any) -> Wrapper | None:
    """The wrapper that a program is; None for any other program."""
    if isinstance(program, partial) or (
        _is_of(program, "equinox") and {"func", "args", "keywords"} <= {*vars(program)}
    ):
        bound: Any = program
        inner = wrapper_of(bound.func) or (Wrapper(bound.func, bound.func) if is_jitted(bound.func) else None)
        if inner is None:
            return None
        args, kwargs = (*inner.args, *bound.args), {**inner.kwargs, **bound.keywords}
        return Wrapper(inner.base, inner.jitted, inner.attribute, args, kwargs)
    if not (_is_of(program, "flax") or _is_of(program, "equinox")):
        return None
    for attribute in _ATTRIBUTES:
        if is_jitted(jitted := getattr(program, attribute, None)):
            return Wrapper(program, jitted, attribute)
    return None


def is_jitted(program: Any) -> bool:
    """Whether this is a function of `jax.jit`, by its methods."""
    return callable(program) and hasattr(program, "lower") and hasattr(program, "trace")


def is_lowered_elsewhere(program: Any) -> bool:
    """Whether a framework's function was lowered, which has lost how its callers pass their modules."""
    return (_is_of(program, "flax") or _is_of(program, "equinox")) and hasattr(program, "as_text")


def _is_of(program: Any, package: str) -> bool:
    return type(program).__module__.partition(".")[0] == package


def is_nnx_node(given: Any) -> bool:
    """Whether this is a module, an optimizer or a variable of `flax.nnx`."""
    return any(kind.__module__.startswith("flax.nnx.") for kind in type(given).__mro__)


def is_nnx_variable(given: Any) -> bool:
    """Whether this is a variable of `flax.nnx`, which holds one array."""
    variable = getattr(sys.modules.get("flax.nnx"), "Variable", None)
    return variable is not None and isinstance(given, variable)


def duplicate(given: Any) -> Any:
    """The structure with new modules of `flax.nnx`, which a call updates; arrays are the same."""
    from jax import tree_util

    if any(map(is_nnx_node, tree_util.tree_leaves(given, is_leaf=is_nnx_node))):
        return sys.modules["flax.nnx"].clone(given)
    return given
