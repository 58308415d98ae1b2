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

Words = list[list[str]]  # per tensor, the loop of each dim


def op_rule(notation: str, *, name: str | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: the function is an operation whose dims are tied as `notation` says, such as `"b d, d f -> b f"`.

    The body is traced in place, so however it is sharded it computes the same. The rule is checked against the
    shapes of every call. `sharding_option=`, mesh axes per loop (those of the results first, then the operands'
    others), becomes annotations: of the operands for this use, and of the results.
    In MLIR text, `stablehlo.custom_call @NAME` means the function from then on (`name`, else its own).
    Raises ProgramError MG0104 at the caller's line where shapes or option do not fit the rule.
    """
    inputs, outputs = (_words(side) for side in notation.partition("->")[::2])

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def operation(*operands: Any, sharding_option: Option | None = None, **static: Any) -> Any:
            given = [tensor(x) for x in operands]
            axes = None if sharding_option is None else _axes(sharding_option, [*outputs, *inputs])
            made = function(*(_annotated(given, inputs, axes, False)), **static)
            results: list[Tensor] = [made] if isinstance(made, Tensor) else list(made)
            try:
                rule(notation, [x.type for x in given], [x.type for x in results])
            except ValueError as error:
                refuse(f"{function.__name__}: {error}")
            placed = _annotated(results, outputs, axes, True)
            return placed[0] if isinstance(made, Tensor) else type(made)(placed)

        USER_OPS[name or function.__name__] = functools.partial(_traced, operation)
        return operation

    return decorate


def _traced(operation: Callable[..., Any], types: Sequence[TensorType]) -> Graph:
    """The body of an operation over operands of these types."""
    return trace(operation, list(types)).module.graph


def _words(side: str) -> Words:
    return [part.split() for part in side.split(",")]


def _axes(option: Option, words: Words) -> dict[str, tuple[str, ...]]:
    """Mesh axes per loop."""
    loops = list(dict.fromkeys(word for dims in words for word in dims))
    return dict(zip(loops, loop_axes(option, len(loops)), strict=True))


def _annotated(
    tensors: Sequence[Tensor], words: Words, axes: Mapping[str, tuple[str, ...]] | None, as_result: bool
) -> list[Tensor]:
    """The tensors, split as their loops are; the rule refuses a wrong number of dims."""
    if axes is None or [x.ndim for x in tensors] != [len(dims) for dims in words]:
        return list(tensors)
    pairs = zip(tensors, words, strict=True)
    return [annotate(x, Sharding(tuple(axes[w] for w in dims)), as_result=as_result) for x, dims in pairs]
