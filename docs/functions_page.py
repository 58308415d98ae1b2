"""The page on functions of traced programs, and the types of the package's names: both follow from the table of operations."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import meshgen
from meshgen.frontend.tracer import CONSTANTS, OPS
from meshgen.frontend.tracer.namespaces import HIDDEN, NAMESPACES
from meshgen.frontend.tracer.tensor import Tensor

HEAD = """What a function that `mg.compile` traces may call, by family. Names are those of the array-API standard, of NumPy, and of JAX (`jax.nn`, `jax.lax`,
`jax.random`, the last as `mg.random`), and they mean what they mean there; [python.md](python.md) lists the differences. Operands are tensors,
arrays, nested lists and numbers; Python's numbers take the type of what they meet. A name that does not exist is refused with similar ones (MG0105).

```python
import meshgen as mg

def router(x, w):                                        # top-2 experts of each token, and their weights
    scores, experts = mg.top_k(mg.softmax(x @ w), 2)
    return scores / scores.sum(-1, keepdims=True), mg.one_hot(experts, w.shape[1])

exe = mg.compile(router, {"dp": 4}, args=["bf16[64,32]", "bf16[32,8]"], in_specs=[mg.P("dp"), mg.P()], target="cpu")
```

Gradients, `vmap`, and whatever else JAX does to functions come from JAX: `mg.from_jax(jax.grad(loss))` is a function of traced tensors. It is lowered for
the types of the call, and its operations become part of the program, at their lines in the user's code.

```python
import jax, jax.numpy as jnp

def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

def step(w, x, y):
    return w - 0.1 * mg.from_jax(jax.grad(loss))(w, x, y)

exe = mg.compile(step, {"dp": 4}, args=["f32[16,4]", "f32[32,16]", "f32[32,4]"], in_specs=[None, mg.P("dp"), mg.P("dp")], target="cpu")
```

Every name of the array-API standard 2024.12 is there and takes the standard's arguments; `x.__array_namespace__()` is `meshgen`. What the functions mean is
compared with NumPy, at special values, over pairs of types, shapes, dims and indices, in `tests/frontend/test_array_api_semantics.py`. What is
left out or differs: what needs an array's elements while the program is traced (`bool(x)`, `x[mask]`, DLPack), `sign(-0.0)`, which is -0.0, and what the standard leaves
open: the default float is f32, integers are divided in f32, and kinds mix as in JAX.

Shapes are fixed while a program is traced. Functions whose results have as many elements as data says (`nonzero`, `unique_values` and the like) take
`size=`, as in JAX.
"""
# Families in the order of the page: the modules of `meshgen.frontend.tracer`.
FAMILIES = ("creation", "elementwise", "rounding", "logic", "shapes", "joining", "indexing", "updates", "reduce", "scans", "statistics",
            "searching",             "linear", "einsum", "nn", "windowed", "control_flow", "random", "linalg", "fft", "manual", "dtypes")  # fmt: skip


def functions_page(note: str) -> str:
    """The page; `note` says who wrote it."""
    counted = len([name for name in OPS if name not in HIDDEN])
    parts = [f"# Functions of traced programs\n\n{note}\n{HEAD}\n{counted} names.\n"]
    parts += [_family(family) for family in FAMILIES]
    constants = ", ".join(f"`mg.{name}`" for name in CONSTANTS)
    return "\n".join([*parts, f"## Constants and types\n\n{constants}\n", _methods()])


def _family(family: str) -> str:
    title = (import_module(f"meshgen.frontend.tracer.{family}").__doc__ or "").split("\n")[0].rstrip(".")
    rows: dict[Callable[..., Any], list[str]] = {}
    for name, function in OPS.items():
        if function.__module__.endswith(f".{family}") and name not in HIDDEN:
            rows.setdefault(function, []).append(name)
    lines = [
        f"| `mg.{names[0]}{_shown(function)}` | {_meaning(function, names[1:])} |" for function, names in rows.items()
    ]
    title = title.removeprefix("Traced ")
    return "\n".join([f"## {title[0].upper()}{title[1:]}\n", "| function | meaning |\n| --- | --- |", *lines, ""])


def _shown(function: Callable[..., Any]) -> str:
    """The parameters with their defaults, without types."""
    kept = [
        each.replace(annotation=inspect.Parameter.empty) for each in inspect.signature(function).parameters.values()
    ]
    return str(inspect.Signature(kept)).replace("|", "\\|")


def _meaning(function: Callable[..., Any], others: list[str]) -> str:
    text = (inspect.getdoc(function) or "").split("\n")[0].replace("|", "\\|")
    return f"{text} Also {', '.join(f'`mg.{name}`' for name in others)}." if others else text


def _methods() -> str:
    """What tensors have."""
    names = [name for name in dir(Tensor) if not name.startswith("_")]
    operators = (
        "`+ - * / // % ** @ & | ^ ~ << >> < <= > >= == !=`, unary `+ -`, `abs`, `divmod`, indexing, iteration over rows"
    )
    return f"## Methods of tensors\n\n{', '.join(f'`x.{name}`' for name in names)}\n\nOperators: {operators}.\n"


# The types of names, for editors and checkers -----------------------------------------------------------------------


def stub() -> str:
    """`meshgen/__init__.pyi`."""
    needed: dict[str, str] = {}
    lines = [
        _typed(name, function, needed)
        for name, function in sorted(OPS.items())
        if "." not in name and name not in HIDDEN
    ]
    for space in NAMESPACES:
        inside = [
            (name.partition(".")[2], function) for name, function in sorted(OPS.items()) if name.startswith(f"{space}.")
        ]
        lines.append(f"class {space}:")
        lines += [f"    @staticmethod\n    {_typed(name, function, needed)}" for name, function in inside]
    public = [
        f"from {place} import {name} as {name}"
        for name, place in sorted(meshgen._HOME.items(), key=lambda item: item[::-1])
    ]
    used = [
        f"from {place} import {name}"
        for name, place in sorted(needed.items(), key=lambda item: item[::-1])
        if name not in meshgen._HOME
    ]
    constants = [f"{name}: {_constant(value)}" for name, value in CONSTANTS.items()]
    head = '"""Types of the public names; written by docs/generate.py. `__init__.py` looks them up on first use."""\n\nimport builtins\n'
    return "\n".join(
        [
            head,
            *public,
            "",
            *used,
            "from numpy import dtype",
            "",
            "__version__: str",
            "IMPORTED_AT: float",
            *constants,
            *lines,
            "",
        ]
    )


def _constant(value: Any) -> str:
    return "type[Any]" if isinstance(value, type) else type(value).__name__.replace("NoneType", "None")


def _typed(name: str, function: Callable[..., Any], needed: dict[str, str]) -> str:
    """A function's line; the types that it names are added to `needed`, with where they are."""
    parameters: list[str] = []
    kinds = inspect.signature(function).parameters.values()
    for each in kinds:
        if each.kind is each.KEYWORD_ONLY and not any(p.lstrip().startswith("*") for p in parameters):
            parameters.append("*")
        star = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        default = "" if each.default is each.empty else " = ..."
        parameters.append(f"{star}{each.name}: {_spelled(each.annotation, function, needed)}{default}")
    returned = _spelled(inspect.signature(function).return_annotation, function, needed)
    return f"def {name}({', '.join(parameters)}) -> {returned}: ..."


def _spelled(annotation: str, function: Callable[..., Any], needed: dict[str, str]) -> str:
    module = import_module(function.__module__)
    for word in re.findall(r"[A-Za-z_][\w.]*", annotation):
        first = word.partition(".")[0]
        if first == "np":
            annotation = annotation.replace(word, word.removeprefix("np."))
        elif not hasattr(builtins, first) and first != "None":
            found = getattr(module, first)
            home = getattr(found, "__module__", "")
            is_class = (
                isinstance(found, type) and found.__name__ == first and not home.startswith(("numpy", "builtins"))
            )
            needed[first] = home if is_class else {"Any": "typing"}.get(first, function.__module__)
    return re.sub(r"\bbool\b", "builtins.bool", annotation)
