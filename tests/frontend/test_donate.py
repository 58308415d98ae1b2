"""The option `donate`: arguments given by name, position or structure, and the results that reuse their memory.
Donations of JAX programs are kept.
"""

from __future__ import annotations

from typing import Any

import pytest

import meshgen as mg
from meshgen.api import plan, read
from meshgen.errors import ProgramError, UsageError

MESH = {"dp": 2}
KINDS = [{"w": "f32[8,4]", "b": "f32[8,4]"}, {"w": "f32[8,4]", "b": "f32[8,4]"}, "f32[8,4]"]


def step(params: Any, opt: Any, x: Any) -> Any:
    """Return the loss first and the parameters last."""
    opt = {name: 0.9 * opt[name] + x for name in opt}
    return (x * x).sum(), opt, {name: params[name] - opt[name] for name in params}


def donations(donate: Any) -> dict[int, int | None]:
    return read(step, MESH, args=KINDS, donate=donate)[0].donations


def test_structure_is_donated_to_result_of_same_structure() -> None:
    """The inputs are params.b, params.w, opt.b, opt.w and x. The outputs are the loss, then both dicts in insertion
    order.
    """
    by_key = {0: 3, 1: 4, 2: 1, 3: 2}
    assert donations({"params": 2, "opt": 1}) == by_key
    assert donations({0: 2, "arg1": 1}) == by_key
    assert donations({"params.w": "result.2.w"}) == {1: 4}
    # without names of results, donated arguments are matched to results in order
    assert donations(["params", 1]) == {0: 1, 1: 2, 2: 3, 3: 4}
    assert donations({"params": 2, 1: "result.1"}) == by_key
    assert donations(None) == {}


def test_donated_step_reuses_memory_of_state() -> None:
    plain, donated = (plan(step, MESH, args=KINDS, in_specs={"params": mg.P("dp"), "opt": mg.P("dp"), "x": mg.P("dp")}, donate=donation, target="cpu") for donation in (None, {"params": 2, "opt": 1}))  # fmt: skip
    assert donated.memory.peak_bytes < plain.memory.peak_bytes
    assert len(donated.plan.overwritten_inputs) == 4 and donated.warnings == []
    records = [(donation["argument"], donation["kept"]) for donation in donated.record()["donations"]]
    assert records == [(name, "") for name in ("params.b", "params.w", "opt.b", "opt.w")]


def test_donated_result_has_sharding_of_argument() -> None:
    """Only the donation determines the sharding of the result."""
    executable = plan(lambda w, x: w + x, MESH, args=["f32[8,4]"] * 2, in_specs={"w": mg.P("dp"), "x": mg.P(None, None)}, donate={"w": 0}, target="cpu")  # fmt: skip
    assert executable.fused.out_shardings == [executable.fused.in_shardings[0]] and executable.plan.overwritten_inputs


@pytest.mark.parametrize(
    "donate, message",
    [
        ("parms", "unknown argument 'parms'; did you mean 'params'"),
        ({"params": 7}, "unknown result 'result.7'"),
        ({"params": 0}, "'params' is 2 arrays, but '0' is 1"),
        (1.5, "donate must name arguments"),
        ([True], "donate must name arguments"),
        (7, "unknown argument 'arg7'"),
    ],
)
def test_donation_of_unknown_argument_is_rejected(donate: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"MG0001.*{message}"):
        donations(donate)


def test_two_donations_to_one_result_are_rejected() -> None:
    with pytest.raises(ProgramError, match=r"MG0110.*and so is another argument"):
        donations({"params.w": "result.1.w", "opt.w": "result.1.w"})


def test_donate_argnums_of_jax_is_honored() -> None:
    jax = pytest.importorskip("jax")
    kinds = [jax.ShapeDtypeStruct((8, 4), "float32")] * 2
    lowered = jax.jit(lambda w, g: (w - 0.1 * g, (g * g).sum()), donate_argnums=0).lower(*kinds)
    executable = plan(lowered, target="cpu")
    assert executable.stages["import"].donations in ({0: 0}, {0: None})
    assert executable.plan.overwritten_inputs and executable.warnings == []


def test_donate_option_donates_named_argument(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from meshgen.cli import main

    text = "func.func @main(%w: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {\n  %r = stablehlo.add %w, %g : tensor<8xf32>\n  return %r : tensor<8xf32>\n}\n"
    (tmp_path / "p.mlir").write_text(text)
    assert main(["compile", str(tmp_path / "p.mlir"), "--target", "cpu", "--donate", "w=result", "-o", str(tmp_path / "m.mgx")]) == 0  # fmt: skip
    assert mg.load(tmp_path / "m.mgx").inputs[0].donated_to == 0
    capsys.readouterr()
    assert main(["explain", "-v", str(tmp_path / "p.mlir"), "--target", "cpu", "--donate", "g"]) == 0
    assert "Donated arguments" in capsys.readouterr().out
