"""Clusters: layers share theirs, and what differs does not."""

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


def test_the_weights_of_layers_between_others_are_one_cluster() -> None:
    found = _inputs(_problem(6))
    for kind in ("wq", "wo", "w1", "w2"):
        assert len({found[f"layers.{layer}.{kind}"] for layer in range(1, 5)}) == 1
    assert len({found[f"layers.2.{kind}"] for kind in ("wq", "wv", "wo", "w1", "w2")}) == 5


def test_more_layers_are_no_larger_problem() -> None:
    few, many = _problem(6), _problem(9)
    assert len(few.sizes) == len(many.sizes) and len(few.tables) == len(many.tables)
    assert sum(each.max() for each in many.memory.values()) > sum(each.max() for each in few.memory.values())


def test_an_annotated_argument_is_a_cluster_of_its_own() -> None:
    found = _inputs(_problem(6, **{"layers.2.w1": "_,tp"}))
    assert Counter(found.values())[found["layers.2.w1"]] == 1
