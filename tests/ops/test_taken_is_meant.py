"""Fuzz tests: if the verifier accepts a random node, evaluating the node must give results of the declared types."""

from __future__ import annotations

import functools
import random
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from meshgen.errors import MeshgenError
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.regions import all_nodes, captured
from meshgen.mesh import make_mesh
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.evaluate.memory import body_bytes
from meshgen.ops.registry import evaluable_ops
from meshgen.ops.types.inference import infer_types, verify_node
from meshgen.runtime.simulate import rank_handlers
from meshgen.testing.generators import USUAL, WIDE
from meshgen.testing.random_graphs import random_program
from tests.runtime.deep_mutations import OPS, TYPES, Forger, operands_of

MESH = make_mesh({"a": 2, "x": 3})
MANIFEST = {"mesh": {"axes": [{"name": axis.name, "size": axis.size} for axis in MESH.axes]}}
EVALUATOR = Evaluator(rank_handlers(MESH, 1))
MOST = 1 << 24  # bytes of the largest body that is evaluated; chosen: keeps the test fast
TERMINATING_OPS = [op for op in OPS if op != "while"]  # a random loop seldom terminates


def random_node(rng: random.Random, op: str) -> Node:
    """Return a random node with a valid operand count and similar operand types."""
    forger = Forger(MANIFEST, rng)
    sizes = [rng.choice([0, 1, 2, 2, 3, 4, 4]) for _ in range(rng.choice([0, 1, 1, 2, 2, 3]))]
    first = TensorType(tuple(sizes), rng.choice(TYPES))
    count = operands_of(op, rng)
    kinds = [first if rng.random() < 0.6 else _near(first, rng) for _ in range(count)]
    attrs = forger.attributes(op, kinds)
    regions = forger.regions(op, kinds, Graph("none"))
    try:
        types = infer_types(op, attrs, kinds, regions)
    except MeshgenError:
        types = None
    results = types or [_near(first, rng) for _ in range(2 if op == "rng_bit_generator" else 1)]
    return Node(op, [Value(kind) for kind in kinds], [Value(kind) for kind in results], attrs, regions=regions)


@functools.cache
def sound() -> dict[str, list[Node]]:
    """Return nodes of random programs, grouped by op. All have attributes and capture no values."""
    table: dict[str, list[Node]] = {}
    for seed in range(150):
        for node in all_nodes(random_program(seed, WIDE if seed % 2 else USUAL).graph):
            if node.op in TERMINATING_OPS and node.attrs and not captured(node):
                table.setdefault(node.op, []).append(node)
    return table


def tweaked(rng: random.Random, op: str) -> Node:
    """Return one of the `sound` nodes with one to three changed attributes."""
    node, attrs = rng.choice(sound()[op]), {}
    attrs |= node.attrs
    for _ in range(rng.choice([1, 1, 2, 3])):
        Forger(MANIFEST, rng).tweak(attrs)
    try:
        types = infer_types(op, attrs, [v.type for v in node.operands], node.regions)
    except MeshgenError:
        types = None
    results = types if types and rng.random() < 0.8 else [v.type for v in node.results]
    return Node(op, node.operands, [Value(kind) for kind in results], attrs, regions=node.regions)


def _near(kind: TensorType, rng: random.Random) -> TensorType:
    draw = rng.random()
    if draw < 0.3:
        return TensorType((), rng.choice([kind.dtype, "i32", "i1"]))
    if draw < 0.6:
        return TensorType(kind.shape, rng.choice(TYPES))
    return TensorType(
        tuple(rng.choice([n, n, 1, 2, n + 1 if n is not None else 1]) for n in kind.shape),
        rng.choice([kind.dtype, "i32"]),
    )


def array(kind: TensorType, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return np.asarray(rng.integers(-9, 9, kind.sizes)).astype(kind.numpy_dtype)


def evaluation_fault(node: Node, seed: int) -> str:
    """Return the fault in the results of an accepted node, or "" if they are right.

    "refused" (by the evaluator) and "big" (not evaluated) are no faults.
    """
    if any(None in value.type.shape for value in node.results) or verify_node(node, MESH):
        return "refused"
    graph = Graph("one", node.operands, [node], node.results)
    if body_bytes(graph) > MOST:
        return "big"
    rng = np.random.default_rng(seed)
    results = EVALUATOR.graph(graph, [array(value.type, rng) for value in node.operands])
    expected_types = [(value.type.sizes, value.type.numpy_dtype) for value in node.results]
    actual_types = [(result.shape, result.dtype) for result in results]
    return "" if actual_types == expected_types else f"gives {actual_types} instead of {expected_types}"


def count_outcomes(
    make: Callable[[random.Random, str], Node], ops: Sequence[str], first: int, count: int, seconds: float = 0
) -> tuple[Counter[str], list[str]]:
    """Return the number of nodes per outcome, and the faults with their seeds.

    `make` creates one random node for each of `count` seeds from `first` on. `seconds`, if positive, limits each node.
    """
    table: Counter[str] = Counter()
    faults: list[str] = []
    for seed in range(first, first + count):
        rng = random.Random(seed)
        op = ops[seed % len(ops)]
        signal.setitimer(signal.ITIMER_REAL, seconds)
        node = None
        try:
            node = make(rng, op)
            outcome = evaluation_fault(node, seed)
        except Exception as error:  # any exception is a fault
            outcome = f"{type(error).__name__}: {error}"
        signal.setitimer(signal.ITIMER_REAL, 0)
        table["taken" if outcome == "" else outcome if outcome in ("refused", "big") else "wrong"] += 1
        if outcome not in ("", "refused", "big"):
            types = node and ([str(v.type) for v in node.operands], [str(v.type) for v in node.results], node.attrs)
            faults.append(f"seed {seed}: {op} {types}: {outcome}")
    return table, faults


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_nodes_accepted_by_verifier_evaluate() -> None:
    assert set(OPS) >= evaluable_ops()
    table, faults = count_outcomes(random_node, TERMINATING_OPS, 0, 4000)
    assert faults == []
    assert table["taken"] > 400


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_changed_nodes_accepted_by_verifier_evaluate() -> None:
    table, faults = count_outcomes(tweaked, sorted(sound()), 0, 2000)
    assert faults == []
    assert min(table["taken"], table["refused"]) > 200


def _too_long(*_: Any) -> None:
    raise TimeoutError("more than 5 s")


if __name__ == "__main__":  # command-line arguments: FIRST COUNT
    signal.signal(signal.SIGALRM, _too_long)
    warnings.simplefilter("ignore")
    for make, ops in ((random_node, TERMINATING_OPS), (tweaked, sorted(sound()))):
        sys.stdout.write("\n".join(map(str, count_outcomes(make, ops, int(sys.argv[1]), int(sys.argv[2]), 5.0))) + "\n")
