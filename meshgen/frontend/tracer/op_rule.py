"""Custom operations: a traced body with a sharding rule in factor notation."""

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

Words = list[list[str]]  # for each tensor, the loop of each dim


def op_rule(notation: str, *, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function as a custom operation with a sharding rule such as `"b d, d f -> b f"`.

    The body is traced in place, so it computes the same result under any sharding. Each call checks the rule against
    the shapes. `sharding_option=` gives mesh axes per loop: the loops of the results first, then the remaining loops of
    the operands. It becomes annotations of the operands, for this use only, and of the results. In MLIR text,
    `stablehlo.custom_call @NAME` then calls the function; NAME is `name` or the function's name.

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
    """Return the body of an operation over operands of these types."""
    return trace(operation, list(types)).module.graph


def _words(side: str) -> Words:
    return [part.split() for part in side.split(",")]


def _axes(option: Option, words: Words) -> dict[str, tuple[str, ...]]:
    """Return the mesh axes of each loop."""
    loops = list(dict.fromkeys(word for dims in words for word in dims))
    return dict(zip(loops, loop_axes(option, len(loops)), strict=True))


def _annotated(
    tensors: Sequence[Tensor], words: Words, axes: Mapping[str, tuple[str, ...]] | None, as_result: bool
) -> list[Tensor]:
    """Annotate the tensors with the mesh axes of their loops. Leaves a wrong rank to the rule's own check."""
    if axes is None or [x.ndim for x in tensors] != [len(dims) for dims in words]:
        return list(tensors)
    pairs = zip(tensors, words, strict=True)
    return [annotate(x, Sharding(tuple(axes[w] for w in dims)), as_result=as_result) for x, dims in pairs]
