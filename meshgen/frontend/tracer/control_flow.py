"""Traced control flow, as in JAX: `scan`, `cond`, `switch`, `while_loop`, `fori_loop`, `map`.

    h, ys = mg.scan(lambda h, x: (mg.tanh(h @ w + x), h), h0, xs)

The functions run once, while the program is traced; tensors from around them may be used inside.
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
from meshgen.frontend.tracer.regions import closed, emit_regions, recording, region
from meshgen.frontend.tracer.shapes import expand_dims, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import Graph, TensorType, Value

Tree = Any  # dicts, lists and tuples of operands


def _leaves(tree: Tree) -> list[Any]:
    return [leaf for _, leaf in flatten(tree)]


def _rebuilt(tree: Tree, leaves: Sequence[Tensor]) -> Tree:
    return unflatten(tree, iter(leaves))


def _loop(condition: Callable[..., Operand], body: Graph, operands: list[Tensor]) -> list[Tensor]:
    """`while condition(*values): values = body(*values)`; what the functions capture is carried unchanged."""
    test, inputs = region([each.type for each in operands])
    with recording(test):
        test.graph.outputs = [truth(condition(*inputs)).value]
    (tested, stepped), outside = closed("while", [test.graph, body])
    stepped.outputs += stepped.inputs[len(operands) :]
    given = [*operands, *outside]
    return emit_regions("while", given, [each.type for each in given], [tested, stepped])[: len(operands)]


@dataclass(frozen=True)
class _Body:
    """The body of a loop: its trace, the initial leaves of what it carries, what these are after it, and what else it gives."""

    trace: Trace
    inputs: list[Tensor]
    first: list[Tensor]
    after: list[Tensor]
    rest: Tree


def _body(what: str, init: Tree, run: Callable[..., tuple[Tree, Tree]], *lead: TensorType) -> _Body:
    """Trace `run(*lead, carry)`, which gives the next carry and something else; again where a number of Python takes another type.

    Raises ProgramError where the carry changes its structure or types.
    """
    first = [tensor(leaf) for leaf in _leaves(init)]
    while True:
        trace, inputs = region([*lead, *(each.type for each in first)])
        with recording(trace):
            after, rest = run(*inputs[: len(lead)], _rebuilt(init, inputs[len(lead) :]))
            if [path for path, _ in flatten(after)] != [path for path, _ in flatten(init)]:
                refuse(
                    f"the body of {what} gives another structure than it takes",
                    "carry the same dicts, lists and tuples",
                )
            found = [_like(leaf, each.type) for leaf, each in zip(_leaves(after), first, strict=True)]
        changed = [each for each in zip(flatten(init), first, found, strict=True) if each[1].type != each[2].type]
        if not changed:
            return _Body(trace, inputs, first, found, rest)
        for (path, _), given, got in changed:
            if not given.weak or given.shape != got.shape:
                place = f" {'.'.join(path)}" if path else ""
                refuse(f"the value{place} that {what} carries is {given.type} at first, but {got.type} after its body", "convert one with astype")  # fmt: skip
        first = [tensor(given, got.type.dtype) for given, got in zip(first, found, strict=True)]


def _like(leaf: Operand, kind: TensorType) -> Tensor:
    """A leaf as a tensor; one of Python's numbers in the given type, if that holds it."""
    x = tensor(leaf)
    return tensor(x, kind.dtype) if x.weak and promote(np.empty(0, kind.numpy_dtype), x) == kind.dtype else x


@traced
def while_loop(cond_fun: Callable[[Tree], Operand], body_fun: Callable[[Tree], Tree], init_val: Tree) -> Tree:
    """`while cond_fun(value): value = body_fun(value)`, from `init_val`; types and shapes stay the same."""
    body = _body("while_loop", init_val, lambda carry: (body_fun(carry), None))
    body.trace.graph.outputs = [each.value for each in body.after]
    return _rebuilt(init_val, _loop(lambda *leaves: cond_fun(_rebuilt(init_val, leaves)), body.trace.graph, body.first))


@traced
def fori_loop(lower: Operand, upper: Operand, body_fun: Callable[[Tensor, Tree], Tree], init_val: Tree) -> Tree:
    """`for i in range(lower, upper): value = body_fun(i, value)`, from `init_val`; of known bounds it is a loop of known length."""
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
    """`carry, y = f(carry, x)` for each row x of `xs` along the first dims; gives the last carry, and the ys as stacks.

    `xs` may be None where `length` is given. With `reverse` rows are taken, and ys put, from the last to the first. `unroll` has no
    effect: the compiler decides which loops are unrolled.
    """
    stacks = [tensor(leaf) for leaf in _leaves(xs)]
    lengths = {each.shape[0] if each.ndim else -1 for each in stacks} | ({length} if length is not None else set[int]())
    if len(lengths) != 1 or -1 in lengths:
        refuse(f"scan needs stacks of one length, or a length, not {sorted(lengths) or 'neither'}")
    (trips,) = lengths

    def run(number: Tensor, carry: Tree) -> tuple[Tree, Tree]:
        at = trips - 1 - number if reverse else number
        after, ys = f(carry, _rebuilt(xs, [_row_at(each, at) for each in stacks]))
        return after, (at, ys)

    body = _body("scan", init, run, TensorType((), "i32"))
    at, ys = body.rest
    with recording(body.trace):
        rows = [tensor(leaf) for leaf in _leaves(ys)]
        into = [Value(TensorType((trips, *each.shape), each.type.dtype)) for each in rows]
        body.trace.graph.inputs += into
        stacked = [_with_row(Tensor(stack), row, at) for stack, row in zip(into, rows, strict=True)]
        body.trace.graph.outputs = [each.value for each in (body.inputs[0] + 1, *body.after, *stacked)]
    made = [zeros(value.type.sizes, value.type.dtype) for value in into]
    _, *results = _loop(lambda number, *_: number < trips, body.trace.graph, [tensor(0, "i32"), *body.first, *made])
    return _rebuilt(init, results[: len(body.first)]), _rebuilt(ys, results[len(body.first) :])


def _row_at(stack: Tensor, number: Tensor) -> Tensor:
    """The row of that number, which is inside."""
    sizes = (1, *stack.shape[1:])
    starts = [number, *[tensor(0)] * (stack.ndim - 1)]
    return reshape(
        emit("dynamic_slice", [stack, *starts], stack.type.with_shape(sizes), {"slice_sizes": sizes}), sizes[1:]
    )


def _with_row(stack: Tensor, row: Operand, number: Tensor) -> Tensor:
    """The stack with another row of that number."""
    starts = [number, *[tensor(0)] * (stack.ndim - 1)]
    return emit("dynamic_update_slice", [stack, expand_dims(tensor(row, stack.type.dtype), 0), *starts], stack.type)


@named("map")
def map_(f: Callable[[Tree], Tree], xs: Tree) -> Tree:
    """`f` of each row of `xs` along the first dims, one after the other, as a stack."""
    return scan(lambda _, x: (None, f(x)), None, xs)[1]


@traced
def cond(pred: Operand, true_fun: Callable[..., Tree], false_fun: Callable[..., Tree], *operands: Tree) -> Tree:
    """`true_fun(*operands) if pred else false_fun(*operands)`: one of them runs."""
    flag = truth(pred)
    if flag.shape:
        refuse(f"cond chooses by one truth value, not by {flag.type}", "use where to choose element by element")
    return _branched(convert(flag, "i32"), (false_fun, true_fun), operands)


@traced
def switch(index: Operand, branches: Sequence[Callable[..., Tree]], *operands: Tree) -> Tree:
    """The branch of that number runs on the operands; an index outside is the first or last one."""
    if not branches:
        refuse("switch needs at least one branch")
    number = clip(convert(tensor(index), "i32"), 0, len(branches) - 1)
    return branches[0](*operands) if len(branches) == 1 else _branched(number, branches, operands)


def _branched(number: Tensor, branches: Sequence[Callable[..., Tree]], operands: Sequence[Tree]) -> Tree:
    """The results of one branch. Raises ProgramError where branches give other types."""
    traces = [region([])[0] for _ in branches]
    trees = [_traced_branch(trace, branch, operands) for trace, branch in zip(traces, branches, strict=True)]
    columns = list(zip(*(_leaves(tree) for tree in trees), strict=False))
    if any([path for path, _ in flatten(tree)] != [path for path, _ in flatten(trees[0])] for tree in trees):
        refuse("the branches give different structures", "return the same dicts, lists and tuples from each")
    dtypes = [next((tensor_type(leaf).dtype for leaf in leaves if not is_weak(leaf)), None) for leaves in columns]
    for trace, tree in zip(traces, trees, strict=True):
        with recording(trace):
            leaves = zip(_leaves(tree), dtypes, strict=True)
            trace.graph.outputs = [tensor(leaf, dtype if is_weak(leaf) else None).value for leaf, dtype in leaves]
    types = [[value.type for value in trace.graph.outputs] for trace in traces]
    if wrong := next((each for each in types if each != types[0]), None):
        shown = (", ".join(map(str, each)) for each in (types[0], wrong))
        refuse(f"the branches give different types: {' and '.join(shown)}", "convert one with astype")
    graphs, outside = closed("case", [trace.graph for trace in traces])
    return _rebuilt(trees[0], emit_regions("case", [number, *outside], types[0], graphs))


def _traced_branch(trace: Trace, branch: Callable[..., Tree], operands: Sequence[Tree]) -> Tree:
    with recording(trace):
        return branch(*operands)


def tensor_type(leaf: Operand) -> TensorType:
    """The type of a tensor or an array."""
    return leaf.type if isinstance(leaf, Tensor) else tensor(leaf).type
