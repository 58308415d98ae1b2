"""Write two files from the table of traced functions: the page on functions, and the type stub `meshgen/__init__.pyi`."""

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

HEAD = """This page lists the functions that a traced program may call, by family. Names and meanings come from the array-API standard, NumPy, and JAX
(`jax.nn`, `jax.lax`, and `jax.random` as `mg.random`). [python.md](python.md#differences-from-numpy) lists the differences. Operands are tensors,
arrays, nested lists and numbers. A Python number takes the type of the other operand. An unknown name is refused with similar names (MG0105).

```python
import meshgen as mg

def router(x, w):                                        # top-2 experts of each token, and their weights
    scores, experts = mg.top_k(mg.softmax(x @ w), 2)
    return scores / scores.sum(-1, keepdims=True), mg.one_hot(experts, w.shape[1])

exe = mg.compile(router, {"dp": 4}, args=["bf16[64,32]", "bf16[32,8]"], in_specs=[mg.P("dp"), mg.P()], target="cpu")
```

Gradients, `vmap` and other transformations come from JAX: `mg.from_jax(jax.grad(loss))` is a function of traced tensors. JAX lowers the function for
the types of the call. The operations become part of the program, with their lines in the user's code.

```python
import jax, jax.numpy as jnp

def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w) - y) ** 2)

def step(w, x, y):
    return w - 0.1 * mg.from_jax(jax.grad(loss))(w, x, y)

exe = mg.compile(step, {"dp": 4}, args=["f32[16,4]", "f32[32,16]", "f32[32,4]"], in_specs=[None, mg.P("dp"), mg.P("dp")], target="cpu")
```

meshgen has every name of the array-API standard 2024.12, with the standard's arguments; `x.__array_namespace__()` is `meshgen`.
`tests/frontend/test_array_api_semantics.py` compares the functions with NumPy at special values, over pairs of types, shapes, dims and indices.
These points differ:

- Tracing has no elements, so `bool(x)`, `x[mask]` and DLPack are unsupported.
- `sign(-0.0)` is -0.0.
- Where the standard leaves a choice, the default float is f32, integers are divided in f32, and kinds mix as in JAX.
- Shapes are fixed while a program is traced. If the size of a result depends on data (`nonzero`, `unique_values`, ...), the function requires
  `size=`, as in JAX.
"""
# Modules of `meshgen.frontend.tracer` whose functions the page lists, in this order.
FAMILIES = ("creation", "elementwise", "rounding", "logic", "shapes", "joining", "indexing", "updates", "reduce", "scans", "statistics",
            "searching", "linear", "einsum", "nn", "convolutions", "control_flow", "random", "linalg", "fft", "manual", "dtypes")  # fmt: skip


def functions_page(note: str) -> str:
    """Return the page with `note` below the title."""
    count = len([name for name in OPS if name not in HIDDEN])
    parts = [f"# Functions of traced programs\n\n{note}\n{HEAD}\nThe page has {count} names.\n"]
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
    """Return the parameters with their defaults, without types."""
    parameters = inspect.signature(function).parameters.values()
    untyped = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return str(inspect.Signature(untyped)).replace("|", "\\|")


def _meaning(function: Callable[..., Any], aliases: list[str]) -> str:
    text = (inspect.getdoc(function) or "").split("\n")[0].replace("|", "\\|")
    return f"{text} Alias: {', '.join(f'`mg.{name}`' for name in aliases)}." if aliases else text


def _methods() -> str:
    """Return the section on methods and operators of tensors."""
    names = [name for name in dir(Tensor) if not name.startswith("_")]
    operators = (
        "`+ - * / // % ** @ & | ^ ~ << >> < <= > >= == !=`, unary `+ -`, `abs`, `divmod`, indexing, iteration over rows"
    )
    return f"## Methods of tensors\n\n{', '.join(f'`x.{name}`' for name in names)}\n\nOperators: {operators}.\n"


# The stub for editors and type checkers -----------------------------------------------------------------------------


def stub() -> str:
    """Return the text of `meshgen/__init__.pyi`."""
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
        f"from {module} import {name} as {name}"
        for name, module in sorted(meshgen._HOME.items(), key=lambda item: item[::-1])
    ]
    used = [
        f"from {module} import {name}"
        for name, module in sorted(needed.items(), key=lambda item: item[::-1])
        if name not in meshgen._HOME
    ]
    constants = [f"{name}: {_constant(value)}" for name, value in CONSTANTS.items()]
    head = '"""Types of the public names. docs/generate.py writes this file; `__init__.py` imports the names on first use."""\n\nimport builtins\n'
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
    """Return the declaration of `function` in the stub. Add the types that it uses to `needed`, which maps types to
    their modules.
    """
    parameters: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in parameters):
            parameters.append("*")
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else " = ..."
        parameters.append(f"{star}{parameter.name}: {_spelled(parameter.annotation, function, needed)}{default}")
    returned = _spelled(inspect.signature(function).return_annotation, function, needed)
    return f"def {name}({', '.join(parameters)}) -> {returned}: ..."


def _spelled(annotation: str, function: Callable[..., Any], needed: dict[str, str]) -> str:
    """Return `annotation` in the spelling of the stub. Add the types that it uses to `needed`, which maps types to
    their modules.
    """
    module = import_module(function.__module__)
    for word in re.findall(r"[A-Za-z_][\w.]*", annotation):
        first = word.partition(".")[0]
        if first == "np":
            annotation = annotation.replace(word, word.removeprefix("np."))
        elif not hasattr(builtins, first) and first != "None":
            type_ = getattr(module, first)
            home = getattr(type_, "__module__", "")
            is_class = (
                isinstance(type_, type) and type_.__name__ == first and not home.startswith(("numpy", "builtins"))
            )
            needed[first] = home if is_class else {"Any": "typing"}.get(first, function.__module__)
    return re.sub(r"\bbool\b", "builtins.bool", annotation)
