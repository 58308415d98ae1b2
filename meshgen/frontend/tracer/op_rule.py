"""Custom operations: a Python function that is traced, with a sharding rule in factor notation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from meshgen.frontend.tracer.functions import annotate, trace
from meshgen.frontend.tracer.linear import Option, loop_axes
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import Graph, TensorType
from meshgen.ops.rules.rule import rule
from meshgen.ops.user_ops import USER_OPS
from meshgen.spec import Sharding

Words = list[list[str]]  # For each tensor, the name of the loop of each dim.


def op_rule(notation: str, *, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function as a custom operation with a sharding rule such as `"b d, d f -> b f"`.

    A call traces the function in place, so the result is the same under any sharding. Each call checks the rule against
    the shapes. Calls accept `sharding_option=`, the mesh axes per loop: first the loops of the results, then the
    remaining loops of the operands. The option becomes annotations of the operands, for this use only, and of the
    results.

    In MLIR text, `stablehlo.custom_call @NAME` then calls the function; NAME is `name` or the function's name.

    Raises:
        ProgramError: MG0104 at the caller's line, the shapes or the option do not fit the rule.
    """
    inputs, outputs = (_words(side) for side in notation.partition("->")[::2])

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def operation(*operands: Any, sharding_option: Option | None = None, **static: Any) -> Any:
            arguments = [tensor(x) for x in operands]
            axes = None if sharding_option is None else _axes(sharding_option, [*outputs, *inputs])
            returned = function(*(_annotated(arguments, inputs, axes, False)), **static)
            results: list[Tensor] = [returned] if isinstance(returned, Tensor) else list(returned)
            try:
                rule(notation, [x.type for x in arguments], [x.type for x in results])
            except ValueError as error:
                refuse(f"{function.__name__}: {error}")
            annotated_results = _annotated(results, outputs, axes, True)
            return annotated_results[0] if isinstance(returned, Tensor) else type(returned)(annotated_results)

        USER_OPS[name or function.__name__] = functools.partial(_traced, operation)
        return operation

    return decorate


def _traced(operation: Callable[..., Any], types: Sequence[TensorType]) -> Graph:
    """Return the graph of the operation, traced for operands of these types."""
    return trace(operation, list(types)).module.graph


def _words(side: str) -> Words:
    return [part.split() for part in side.split(",")]


def _axes(option: Option, words: Words) -> dict[str, tuple[str, ...]]:
    """Map each loop to its mesh axes in the sharding option `option`."""
    loops = list(dict.fromkeys(word for dims in words for word in dims))
    return dict(zip(loops, loop_axes(option, len(loops)), strict=True))


def _annotated(
    tensors: Sequence[Tensor], words: Words, axes: Mapping[str, tuple[str, ...]] | None, as_result: bool
) -> list[Tensor]:
    """Annotate each tensor with the mesh axes of its loops.

    Returns tensors of a wrong rank unchanged; the rule rejects them.
    """
    if axes is None or [x.ndim for x in tensors] != [len(dims) for dims in words]:
        return list(tensors)
    pairs = zip(tensors, words, strict=True)
    return [annotate(x, Sharding(tuple(axes[w] for w in dims)), as_result=as_result) for x, dims in pairs]
