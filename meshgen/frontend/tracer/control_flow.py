"""Traced control flow, as in JAX: `scan`, `cond`, `switch`, `while_loop`, `fori_loop`, `map`.

    h, ys = mg.scan(lambda h, x: (mg.tanh(h @ w + x), h), h0, xs)

The functions run once, while the program is traced; tensors from around them may be used inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from meshgen.calls.trees import flatten, unflatten
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.logic import truth
from meshgen.frontend.tracer.operands import convert, emit, is_weak, tensor
from meshgen.frontend.tracer.recording import Trace, named, refuse, traced
from meshgen.frontend.tracer.regions import closed, emit_regions, recording, region
from meshgen.frontend.tracer.shapes import expand_dims, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import Graph, TensorType

Tree = Any  # dicts, lists and tuples of operands


def _leaves(tree: Tree) -> list[Any]:
    return [leaf for _, leaf in flatten(tree)]


def _rebuilt(tree: Tree, leaves: Sequence[Tensor]) -> Tree:
    return unflatten(tree, iter(leaves))


def _loop(condition: Callable[..., Any], step: Callable[..., Any], operands: list[Tensor]) -> list[Tensor]:
    """`while condition(*values): values = step(*values)`; what the functions capture is carried unchanged."""
    types = [each.type for each in operands]
    graphs: list[Graph] = []
    for function in (condition, step):
        trace, inputs = region(types)
        with recording(trace):
            found = function(*inputs)
            trace.graph.outputs = [each.value for each in (found if isinstance(found, list) else [found])]
        graphs.append(trace.graph)
    (test, body), outside = closed("while", graphs)
    body.outputs += body.inputs[len(types) :]
    given = [*operands, *outside]
    return emit_regions("while", given, [each.type for each in given], [test, body])[: len(types)]


def _carried(init: Tree, step: Callable[[Tree], Tree], what: str) -> list[Tensor]:
    """The initial leaves of a loop, numbers of Python in the type that the body gives them. Raises ProgramError where types differ."""
    leaves = _leaves(init)
    first = [tensor(leaf) for leaf in leaves]
    trace, inputs = region([each.type for each in first])
    with recording(trace):
        after = step(_rebuilt(init, inputs))
        if [path for path, _ in flatten(after)] != [path for path, _ in flatten(init)]:
            refuse(
                f"the body of {what} gives another structure than it takes", "carry the same dicts, lists and tuples"
            )
        results = [tensor(leaf).type for leaf in _leaves(after)]
    for (path, leaf), given, got in zip(flatten(init), first, results, strict=True):
        if given.type != got and not (is_weak(leaf) and given.shape == got.shape):
            place = f" {'.'.join(path)}" if path else ""
            refuse(f"the value{place} that {what} carries is {given.type} at first, but {got} after its body", "convert one with astype")  # fmt: skip
    return [convert(given, got.dtype) for given, got in zip(first, results, strict=True)]


@traced
def while_loop(cond_fun: Callable[[Tree], Operand], body_fun: Callable[[Tree], Tree], init_val: Tree) -> Tree:
    """`while cond_fun(value): value = body_fun(value)`, from `init_val`; types and shapes stay the same."""
    init = _carried(init_val, body_fun, "while_loop")

    def step(*leaves: Tensor) -> list[Tensor]:
        after = _leaves(body_fun(_rebuilt(init_val, leaves)))
        return [tensor(leaf, each.type.dtype) for leaf, each in zip(after, init, strict=True)]

    return _rebuilt(init_val, _loop(lambda *leaves: truth(cond_fun(_rebuilt(init_val, leaves))), step, init))


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

    `xs` may be None where `length` is given. With `reverse` rows are taken, and ys put, from the last to the first.
    """
    stacks = [tensor(leaf) for leaf in _leaves(xs)]
    lengths = {each.shape[0] if each.ndim else -1 for each in stacks} | ({length} if length is not None else set[int]())
    if len(lengths) != 1 or -1 in lengths:
        refuse(f"scan needs stacks of one length, or a length, not {sorted(lengths) or 'neither'}")
    (trips,) = lengths

    def rows(number: Tensor) -> Tree:
        return _rebuilt(xs, [_row(each, number) for each in stacks])

    def at(number: Tensor) -> Tensor:
        return trips - 1 - number if reverse else number

    seen: list[Tree] = []

    def carry_of(carry: Tree) -> Tree:
        after, ys = f(carry, rows(tensor(0)))
        seen.append(_rebuilt(ys, [tensor(leaf) for leaf in _leaves(ys)]))
        return after

    first = _carried(init, carry_of, "scan")
    ys_like = seen[0]
    made = [zeros((trips, *each.shape), each.type.dtype) for each in _leaves(ys_like)]

    def step(number: Tensor, *values: Tensor) -> list[Tensor]:
        after, ys = f(_rebuilt(init, values[: len(first)]), rows(at(number)))
        carry = [tensor(leaf, each.type.dtype) for leaf, each in zip(_leaves(after), first, strict=True)]
        stacked = [_with_row(stack, y, at(number)) for stack, y in zip(values[len(first) :], _leaves(ys), strict=True)]
        return [number + 1, *carry, *stacked]

    _, *results = _loop(lambda number, *_: number < trips, step, [tensor(0), *first, *made])
    return _rebuilt(init, results[: len(first)]), _rebuilt(ys_like, results[len(first) :])


def _row(stack: Tensor, number: Tensor) -> Tensor:
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
    trees = [_inside(trace, branch, operands) for trace, branch in zip(traces, branches, strict=True)]
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


def _inside(trace: Trace, branch: Callable[..., Tree], operands: Sequence[Tree]) -> Tree:
    with recording(trace):
        return branch(*operands)


def tensor_type(leaf: Operand) -> TensorType:
    """The type of a tensor or an array."""
    return leaf.type if isinstance(leaf, Tensor) else tensor(leaf).type
