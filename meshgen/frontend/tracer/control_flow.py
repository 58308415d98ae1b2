"""Traced control flow, as in JAX: `scan`, `cond`, `switch`, `while_loop`, `fori_loop`, `map`.

    h, ys = mg.scan(lambda h, x: (mg.tanh(h @ w + x), h), h0, xs)

Tracing calls each body, condition and branch once. They may capture tensors of the surrounding program, such as `w`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meshgen.calls.trees import flatten, unflatten
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.logic import truth
from meshgen.frontend.tracer.operands import convert, emit, is_weak, promote, tensor
from meshgen.frontend.tracer.recording import Trace, named, refuse, traced
from meshgen.frontend.tracer.shapes import expand_dims, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.trace_regions import closed, emit_regions, recording, region
from meshgen.ir.graph import Graph, TensorType, Value

Tree = Any  # A tree of operands: nested dicts, lists and tuples.


def _leaves(tree: Tree) -> list[Any]:
    return [leaf for _, leaf in flatten(tree)]


def _rebuilt(tree: Tree, leaves: Sequence[Tensor]) -> Tree:
    return unflatten(tree, iter(leaves))


def _loop(condition: Callable[..., Operand], body: Graph, operands: list[Tensor]) -> list[Tensor]:
    """Emit `while condition(*values): values = body(*values)`, starting with the values `operands`.

    Values that the condition or the body captures are carried through the loop unchanged.
    """
    condition_trace, inputs = region([value.type for value in operands])
    with recording(condition_trace):
        condition_trace.graph.outputs = [truth(condition(*inputs)).value]
    (condition_region, body_region), captures = closed("while", [condition_trace.graph, body])
    body_region.outputs += body_region.inputs[len(operands) :]
    carried = [*operands, *captures]
    return emit_regions("while", carried, [value.type for value in carried], [condition_region, body_region])[
        : len(operands)
    ]


@dataclass(frozen=True)
class _Body:
    """The traced body of a loop. The carry is a tree of tensors; its leaves are listed in a fixed order.

    Attributes:
        trace: the recorded body.
        inputs: the inputs of the body: values that the body gets in each iteration, then the leaves of the carry.
        first: the leaves of the carry before the loop.
        after: the leaves of the carry after an iteration.
        rest: the other results of an iteration.
    """

    trace: Trace
    inputs: list[Tensor]
    first: list[Tensor]
    after: list[Tensor]
    rest: Tree


def _body(loop_name: str, init: Tree, run: Callable[..., tuple[Tree, Tree]], *lead: TensorType) -> _Body:
    """Trace `run(*lead, carry)`, which returns the next carry and other results. `lead` has the types of the leading
    inputs.

    `run` is traced again if a Python number in the carry `init` must take the dtype that it has after the body.

    Raises:
        ProgramError: the carry after the body has another structure, or leaves of other types.
    """
    first = [tensor(leaf) for leaf in _leaves(init)]
    while True:
        trace, inputs = region([*lead, *(pair.type for pair in first)])
        with recording(trace):
            after, rest = run(*inputs[: len(lead)], _rebuilt(init, inputs[len(lead) :]))
            if [path for path, _ in flatten(after)] != [path for path, _ in flatten(init)]:
                refuse(
                    f"the body of {loop_name} returns another structure than the carry has",
                    "carry the same dicts, lists and tuples",
                )
            next_leaves = [_like(leaf, pair.type) for leaf, pair in zip(_leaves(after), first, strict=True)]
        mismatches = [
            pair for pair in zip(flatten(init), first, next_leaves, strict=True) if pair[1].type != pair[2].type
        ]
        if not mismatches:
            return _Body(trace, inputs, first, next_leaves, rest)
        for (path, _), before, next_leaf in mismatches:
            if not before.weak or before.shape != next_leaf.shape:
                path_text = f" {'.'.join(path)}" if path else ""
                refuse(f"the value{path_text} that {loop_name} carries is {before.type} at first, but {next_leaf.type} after its body", "convert one with astype")  # fmt: skip
        first = [tensor(before, next_leaf.type.dtype) for before, next_leaf in zip(first, next_leaves, strict=True)]


def _like(leaf: Operand, kind: TensorType) -> Tensor:
    """Convert a leaf to a tensor. A Python number gets the dtype of `kind` if that dtype can represent the number."""
    x = tensor(leaf)
    return tensor(x, kind.dtype) if x.weak and promote(np.empty(0, kind.numpy_dtype), x) == kind.dtype else x


@traced
def while_loop(cond_fun: Callable[[Tree], Operand], body_fun: Callable[[Tree], Tree], init_val: Tree) -> Tree:
    """Run `value = body_fun(value)` while `cond_fun(value)` holds, from `init_val`. Types and shapes cannot change."""
    body = _body("while_loop", init_val, lambda carry: (body_fun(carry), None))
    body.trace.graph.outputs = [leaf.value for leaf in body.after]
    return _rebuilt(init_val, _loop(lambda *leaves: cond_fun(_rebuilt(init_val, leaves)), body.trace.graph, body.first))


@traced
def fori_loop(lower: Operand, upper: Operand, body_fun: Callable[[Tensor, Tree], Tree], init_val: Tree) -> Tree:
    """Run `value = body_fun(i, value)` for i from `lower` to `upper` - 1, starting with `init_val`.

    If the bounds are Python numbers, the loop has a static trip count.
    """
    start = tensor(lower)
    if start.shape or start.type.dtype not in ("i32", "i64"):
        refuse(f"the bounds of fori_loop are integers, not {start.type}")
    _, value = while_loop(
        lambda carry: carry[0] < upper, lambda carry: (carry[0] + 1, body_fun(carry[0], carry[1])), (start, init_val)
    )
    return value


@traced
def scan(f: Callable[[Tree, Tree], tuple[Tree, Tree]], init: Tree, xs: Tree = None, length: int | None = None,
         reverse: bool = False, unroll: int = 1) -> tuple[Tree, Tree]:  # fmt: skip
    """Run `carry, y = f(carry, x)` for each slice `x` of `xs` along dim 0. Return the last carry and the stacked ys.

    `xs` may be None if `length` is given. With `reverse`, the loop starts with the last slice; y i still belongs to
    slice i. `unroll` has no effect: the compiler decides which loops are unrolled.
    """
    stacks = [tensor(leaf) for leaf in _leaves(xs)]
    lengths = {item.shape[0] if item.ndim else -1 for item in stacks} | ({length} if length is not None else set[int]())
    if len(lengths) != 1 or -1 in lengths:
        refuse(f"scan needs stacks of one length, or a length, not {sorted(lengths) or 'neither'}")
    (trip_count,) = lengths

    def run(number: Tensor, carry: Tree) -> tuple[Tree, Tree]:
        at = trip_count - 1 - number if reverse else number
        after, ys = f(carry, _rebuilt(xs, [_row_at(item, at) for item in stacks]))
        return after, (at, ys)

    body = _body("scan", init, run, TensorType((), "i32"))
    at, ys = body.rest
    with recording(body.trace):
        y_leaves = [tensor(leaf) for leaf in _leaves(ys)]
        result_stacks = [Value(TensorType((trip_count, *item.shape), item.type.dtype)) for item in y_leaves]
        body.trace.graph.inputs += result_stacks
        stacked = [_replace_row(Tensor(stack), row, at) for stack, row in zip(result_stacks, y_leaves, strict=True)]
        body.trace.graph.outputs = [item.value for item in (body.inputs[0] + 1, *body.after, *stacked)]
    initial_stacks = [zeros(value.type.sizes, value.type.dtype) for value in result_stacks]
    _, *results = _loop(
        lambda number, *_: number < trip_count, body.trace.graph, [tensor(0, "i32"), *body.first, *initial_stacks]
    )
    return _rebuilt(init, results[: len(body.first)]), _rebuilt(ys, results[len(body.first) :])


def _row_at(stack: Tensor, number: Tensor) -> Tensor:
    """Return the slice of `stack` at index `number`, which must be in bounds."""
    sizes = (1, *stack.shape[1:])
    starts = [number, *[tensor(0)] * (stack.ndim - 1)]
    return reshape(
        emit("dynamic_slice", [stack, *starts], stack.type.with_shape(sizes), {"slice_sizes": sizes}), sizes[1:]
    )


def _replace_row(stack: Tensor, row: Operand, number: Tensor) -> Tensor:
    """Return `stack` with `row` written at index `number`."""
    starts = [number, *[tensor(0)] * (stack.ndim - 1)]
    return emit("dynamic_update_slice", [stack, expand_dims(tensor(row, stack.type.dtype), 0), *starts], stack.type)


@named("map")
def map_(f: Callable[[Tree], Tree], xs: Tree) -> Tree:
    """Return `f(x)` for each slice `x` of `xs` along dim 0, stacked. The slices are processed one after the other."""
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


@traced
def cond(pred: Operand, true_fun: Callable[..., Tree], false_fun: Callable[..., Tree], *operands: Tree) -> Tree:
    """Return `true_fun(operands...)` if `pred` is true, else `false_fun(operands...)`. Only that branch is executed."""
    flag = truth(pred)
    if flag.shape:
        refuse(f"the predicate of cond must be a scalar, not {flag.type}", "use where to select element by element")
    return _branched(convert(flag, "i32"), (false_fun, true_fun), operands)


@traced
def switch(index: Operand, branches: Sequence[Callable[..., Tree]], *operands: Tree) -> Tree:
    """Return the result of `branches[index]` for the operands. An index out of bounds is clamped."""
    if not branches:
        refuse("switch needs at least one branch")
    number = clip(convert(tensor(index), "i32"), 0, len(branches) - 1)
    return branches[0](*operands) if len(branches) == 1 else _branched(number, branches, operands)


def _branched(number: Tensor, branches: Sequence[Callable[..., Tree]], operands: Sequence[Tree]) -> Tree:
    """Emit a `case` op that returns the results of branch `number`.

    Raises ProgramError if the branches return different structures or types.
    """
    traces = [region([])[0] for _ in branches]
    trees = [_traced_branch(trace, branch, operands) for trace, branch in zip(traces, branches, strict=True)]
    columns = list(zip(*(_leaves(tree) for tree in trees), strict=False))
    if any([path for path, _ in flatten(tree)] != [path for path, _ in flatten(trees[0])] for tree in trees):
        refuse("the branches return different structures", "return the same dicts, lists and tuples from each")
    dtypes = [next((tensor_type(leaf).dtype for leaf in leaves if not is_weak(leaf)), None) for leaves in columns]
    for trace, tree in zip(traces, trees, strict=True):
        with recording(trace):
            leaves = zip(_leaves(tree), dtypes, strict=True)
            trace.graph.outputs = [tensor(leaf, dtype if is_weak(leaf) else None).value for leaf, dtype in leaves]
    types = [[value.type for value in trace.graph.outputs] for trace in traces]
    if other_types := next((branch_types for branch_types in types if branch_types != types[0]), None):
        type_texts = (", ".join(map(str, branch_types)) for branch_types in (types[0], other_types))
        refuse(f"the branches return different types: {' and '.join(type_texts)}", "convert one with astype")
    graphs, captures = closed("case", [trace.graph for trace in traces])
    return _rebuilt(trees[0], emit_regions("case", [number, *captures], types[0], graphs))


def _traced_branch(trace: Trace, branch: Callable[..., Tree], operands: Sequence[Tree]) -> Tree:
    with recording(trace):
        return branch(*operands)


def tensor_type(leaf: Operand) -> TensorType:
    """Return the type of a tensor or an array."""
    return leaf.type if isinstance(leaf, Tensor) else tensor(leaf).type
