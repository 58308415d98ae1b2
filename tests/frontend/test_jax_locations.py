"""JAX programs that are printed with locations (as debug information, or by jax.export). They are parsed like programs
without locations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen.api import compile as compile_program
from meshgen.api import read
from meshgen.errors import ProgramError
from meshgen.ir.regions import all_nodes
from meshgen.mlir.text import parse_text

jax = pytest.importorskip("jax")
jnp, lax, P = jax.numpy, jax.lax, jax.sharding.PartitionSpec
MESH = jax.sharding.AbstractMesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
A = np.arange(96, dtype=np.float32).reshape(8, 12) / 64 - 0.5


def mapped(body: Callable[[Any], Any], ins: Any, outs: Any, **more: Any) -> Callable[[Any], Any]:
    return jax.shard_map(body, mesh=MESH, in_specs=ins, out_specs=outs, check_vma=False, **more)


@jax.custom_vjp
def _square(x: Any) -> Any:
    return x * x


_square.defvjp(lambda x: (x * x, x), lambda x, g: (2 * x * g,))


def _ring(a: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, c: lax.ppermute(c, "y", [(i, (i + 1) % 4) for i in range(4)]) + a, a)


def _nested(a: Any) -> Any:
    inner = jax.shard_map(lambda b: lax.psum(b, "y"), in_specs=P(None, "y"), out_specs=P(), axis_names={"y"}, check_vma=False)  # fmt: skip
    return inner(a) * 2


def _cond(x: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda v: v * 2, lambda v: v - 1, x)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "shard_map": mapped(lambda a: lax.psum(a, "x") * lax.axis_index("y"), P("x", "y"), P(None, "y")),
    "loop in shard_map": mapped(_ring, P("x", "y"), P("x", "y")),
    "nested shard_map": mapped(_nested, P("x"), P("x"), axis_names={"x"}),
    "gradient through shard_map": jax.grad(lambda v: mapped(lambda a: _square(a), P("x", "y"), P("x", "y"))(v).sum()),
    "scan": lambda x: lax.scan(lambda c, a: (c + jnp.tanh(a), c.sum()), jnp.zeros(12), x),
    "while": lambda x: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x))[1],
    "cond": _cond,
    "switch": lambda x: lax.switch(jnp.int32(x[0, 0] > 0) + 1, [lambda v: v, lambda v: v * 2, lambda v: v * 3], x),
    "custom_vjp": jax.grad(lambda v: _square(v).sum()),
    "reductions": lambda x: (jnp.argmax(x, 1), jnp.sort(x, 0), jnp.cumsum(x, 0), lax.reduce(x, 1.0, lambda a, b: a * b + b, (1,))),
    "accuracy": lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST) + lax.tanh(x, accuracy=lax.Tolerance(1e-5, 0.0, 1)),
    "random": lambda x: x + jax.random.uniform(jax.random.key(0), x.shape),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_locations_do_not_change_results(name: str) -> None:
    jitted = jax.jit(PROGRAMS[name])
    lowered = jitted.trace(A).lower(lowering_platforms=("cpu",))
    plain, debug = str(lowered.compiler_ir("stablehlo")), lowered.as_text(debug_info=True)
    exported = jax.export.export(jitted, platforms=["cpu"])(A).mlir_module()
    mesh = None if "sdy.mesh" in plain else {"x": 2}
    expected = compile_program(plain, mesh, target="cpu", arguments="global")(A)
    for text in (debug, exported):
        assert text.count("loc(") > 10
        results = compile_program(text, mesh, target="cpu", arguments="global")(A)
        for actual, reference in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(
                actual, reference, rtol=1e-6, atol=1e-6
            )  # jax.export lowers some functions differently than jax.jit(...).lower


def test_shard_map_with_locations_computes_expected_sums() -> None:
    text = jax.jit(PROGRAMS["nested shard_map"]).trace(A).lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    result = compile_program(text, target="cpu", arguments="global")(A)
    np.testing.assert_allclose(result, 2 * np.add.reduce(np.split(A, 4, 1)), rtol=1e-6)


LOCATED = """#loc1 = loc("model.py":7:3)
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32> loc("input.py":1:1), %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%c: tensor<2xf32> {foo.bar} loc(#loc1)) {
    %1 = stablehlo.tanh %c : tensor<2xf32> loc(fused<"pass">["jit(f)/tanh"(#loc2)])
    sdy.return %1 : tensor<2xf32> loc(#loc)
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc(callsite("f"("model.py":8:5) at "main.py":2:1))
"""


def test_arguments_and_nodes_have_their_locations() -> None:
    graph = parse_text(LOCATED, "m.mlir").graph
    (manual,) = [node for node in graph.nodes if node.op == "manual"]
    assert [str(value.loc) for value in graph.inputs] == ["input.py:1", "m.mlir:3"]
    assert str(manual.loc) == "m.mlir:4" and str(manual.regions[0].inputs[0].loc) == "model.py:7"
    assert [str(node.loc) for node in all_nodes(manual.regions[0]) if node.op == "tanh"] == ["model.py:8"]


def test_unclosed_location_is_rejected() -> None:
    with pytest.raises(ProgramError, match=r"this '\(' is not closed") as caught:
        parse_text(LOCATED.replace("(#loc2)])", "(#loc2))"))
    assert caught.value.diagnostics[0].code == "MG0101"


def test_outlined_jax_function_has_location_of_its_call() -> None:
    """JAX outlines loop bodies among others. The locations of such functions in the text are names without a line."""

    def loss(x: Any) -> Any:
        picked = jnp.take_along_axis(x, jnp.zeros((8, 1), "int32"), 1)
        return jax.nn.silu(picked).sum() + jax.random.uniform(jax.random.key(0))

    jax.clear_caches()  # otherwise JAX reuses the text of inner functions, with the locations of an earlier caller
    program = jax.jit(jax.grad(loss)).lower(A)
    assert 'loc("scatter-add")' in program.as_text(debug_info=True)
    module, _ = read(program, {"x": 2})
    nodes = [*all_nodes(module.graph)]
    assert "scatter" in {node.op for node in nodes}
    assert {node.loc and node.loc.file for node in nodes} == {__file__}
