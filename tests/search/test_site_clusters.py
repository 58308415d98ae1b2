"""Tests of site clusters: equal layers share clusters, unequal sites do not."""

from __future__ import annotations

from collections import Counter

from meshgen import api
from meshgen.search.problem import Problem, problem_of
from meshgen.sharding.propagation.pseudo_ops import is_input
from tests.search.transformer import stack


def _problem(layers: int, **specs: str) -> Problem:
    forward, args = stack(layers, 8, 64)
    module, _ = api.read(forward, {"dp": 2, "tp": 4}, args=args, in_specs=specs or None)
    return problem_of(module)


def _inputs(problem: Problem) -> dict[str, int]:
    pairs = zip(problem.sites, problem.clusters, strict=True)
    return {site.value.name: cluster for site, cluster in pairs if is_input(site.node)}


def test_weights_of_inner_layers_share_a_cluster() -> None:
    clusters = _inputs(_problem(6))
    for kind in ("wq", "wo", "w1", "w2"):
        assert len({clusters[f"layers.{layer}.{kind}"] for layer in range(1, 5)}) == 1
    assert len({clusters[f"layers.2.{kind}"] for kind in ("wq", "wv", "wo", "w1", "w2")}) == 5


def test_problem_size_does_not_grow_with_layers() -> None:
    few, many = _problem(6), _problem(9)
    assert len(few.sizes) == len(many.sizes) and len(few.tables) == len(many.tables)
    assert sum(label_bytes.max() for label_bytes in many.memory.values()) > sum(
        label_bytes.max() for label_bytes in few.memory.values()
    )


def test_annotated_argument_has_its_own_cluster() -> None:
    clusters = _inputs(_problem(6, **{"layers.2.w1": "_,tp"}))
    assert Counter(clusters.values())[clusters["layers.2.w1"]] == 1
