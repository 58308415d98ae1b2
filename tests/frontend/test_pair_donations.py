"""Next values of donated arguments: which result of a step is the next value of which argument. They are paired by
structure and path, not by the order of equal types.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.calls.argument_tree import Branch, Slot
from meshgen.calls.signature import Signature
from meshgen.errors import Diagnostic, UsageError

W, S = "f32[4]", "f32[]"
TREE, STATE = {"w": W, "b": W}, {"w": W, "lr": S}


def paths(node: Any, path: str = "result") -> dict[int, str]:
    if isinstance(node, Slot):
        return {node.number or 0: path}
    return {n: p for key, branch in node.items() for n, p in paths(branch, f"{path}.{key}").items()}


def signature_of(step: Any, args: Any, donate: Any) -> Signature:
    return read(step, {"d": 2}, args=args, donate=donate)[1]


def next_values(step: Any, args: Any, donate: Any) -> dict[str, str]:
    """Return, for each donated array, the path of the result that is its next value."""
    signature = signature_of(step, args, donate)
    path_of_result = paths(signature.result or Branch())
    return {name: path_of_result[result_index] for name, result_index in signature.state.next_values.items()}


def warnings(step: Any, args: Any, donate: Any) -> list[Diagnostic]:
    return [warning for warning in signature_of(step, args, donate).warnings if warning.code == "MG0112"]


def updated(tree: Any) -> Any:
    return {name: value + 1.0 for name, value in tree.items()}


@pytest.mark.parametrize(
    "step, result_path",
    [
        (lambda state, x: (x.sum(), updated(state)), "result.1"),
        (lambda state, x: (updated(state), x.sum()), "result.0"),
        (lambda state, x: {"state": updated(state), "loss": x.sum()}, "result.state"),
        (lambda state, x: (x.sum(), (x.sum(), {"new": updated(state)})), "result.1.1.new"),
        (lambda state, x: updated(state), "result"),
        # this step returns the leaf `lr` unchanged
        (lambda state, x: (x.sum(), {"lr": state["lr"], "w": state["w"] - x}), "result.1"),
    ],
)
def test_next_state_is_result_of_same_structure(step: Any, result_path: str) -> None:
    expected = {"state.lr": f"{result_path}.lr", "state.w": f"{result_path}.w"}
    assert next_values(step, [STATE, W], "state") == expected


def test_equal_structures_are_paired_in_order_of_results() -> None:
    paths_of_next = next_values(lambda p, v, x: (x.sum(), updated(p), updated(v)), [TREE, TREE, W], ["p", "v"])
    assert paths_of_next == {"p.b": "result.1.b", "p.w": "result.1.w", "v.b": "result.2.b", "v.w": "result.2.w"}


def test_structure_of_one_array_is_paired_before_arrays() -> None:
    paths_of_next = next_values(lambda p, q, x: ([p[0] + x], q - x), [[W], W, W], ["p", "q"])
    assert paths_of_next == {"p.0": "result.0.0", "q": "result.1"}


def test_result_names_take_precedence_over_order() -> None:
    paths_of_next = next_values(lambda p, v, x: {"v": updated(v), "p": updated(p)}, [TREE, TREE, W], ["p", "v"])
    assert paths_of_next == {"p.b": "result.p.b", "p.w": "result.p.w", "v.b": "result.v.b", "v.w": "result.v.w"}
    paths_of_next = next_values(lambda p, x: {"grads": updated(p), "p": updated(p)}, [TREE, W], "p")
    assert paths_of_next == {"p.b": "result.p.b", "p.w": "result.p.w"}


def test_subtrees_are_paired_if_whole_state_is_not_returned() -> None:
    args = [{"params": TREE, "lr": S}, W]
    paths_of_next = next_values(
        lambda state, x: (updated(state["params"]), {"lr": state["lr"], "x": x.sum()}), args, "state"
    )
    assert paths_of_next == {"state.params.b": "result.0.b", "state.params.w": "result.0.w", "state.lr": "result.1.lr"}


def gradients_first(p: Any, x: Any) -> Any:
    return updated(p), updated(p)


def test_several_candidate_results_warn_as_ambiguous() -> None:
    assert next_values(gradients_first, [TREE, W], "p") == {}
    (warning,) = warnings(gradients_first, [TREE, W], "p")
    assert warning.message == "the next value of donated argument 'p' is ambiguous: result.0 and result.1 fit"
    assert warning.hint == 'name it: donate={"p": "result.1"}'
    (first, second) = warnings(lambda p, v, x: (x, updated(p)), [TREE, TREE, W], ["p", "v"])
    assert "'p' is ambiguous: result.1 fits 'v' as well" in first.message and "'v'" in second.message


@pytest.mark.parametrize("result", ["result.1", 1])
def test_named_result_resolves_ambiguity(result: Any) -> None:
    paths_of_next = next_values(gradients_first, [TREE, W], {"p": result})
    assert paths_of_next == {"p.b": "result.1.b", "p.w": "result.1.w"}


def test_next_value_of_another_type_warns() -> None:
    step = lambda state, x: (x.sum(), {"w": state["w"], "n": state["n"] + 0.5})  # noqa: E731
    assert next_values(step, [{"w": W, "n": "i32[]"}, W], "state") == {"state.w": "result.1.w"}
    (warning,) = warnings(step, [{"w": W, "n": "i32[]"}, W], "state")
    assert warning.message == "donated argument 'state.n' is i32[], but its next value result.1.n is f32[]"


def test_session_with_ambiguous_state_is_rejected(tmp_path: Path) -> None:
    exe = mg.compile(gradients_first, {"d": 2}, args=[TREE, W], donate=["p"], target="cpu")
    tree, x = {"w": np.ones(4, np.float32), "b": np.ones(4, np.float32)}, np.ones(4, np.float32)
    exe.save(tmp_path / "m.mgx")
    module = mg.load(tmp_path / "m.mgx")
    np.testing.assert_array_equal(module(tree, x)[1]["w"], tree["w"] + 1)  # calls outside a session need no next values
    with pytest.raises(UsageError, match=r'MG0112.*\n.*\n.*\n?.*donate=\{"p": "result.1"\}'):
        module.session()


# --- JAX ------------------------------------------------------------------------------------------------------------------


def jax_step(state: Any, x: Any) -> Any:
    loss = (state["w"] * x).mean()
    return loss, {"w": state["w"] - state["lr"] * x, "lr": state["lr"] * 0.9, "unread": state["lr"] * 2}


JAX_STATE = {"w": np.ones(4, np.float32), "lr": np.float32(0.1), "unread": np.float32(0)}


def test_session_continues_state_like_jax_loop(tmp_path: Path) -> None:
    """In JAX's text the learning rate aliases the loss, and one array of the state is unused."""
    jax = pytest.importorskip("jax")
    jitted, x = jax.jit(jax_step, donate_argnums=0), np.ones(4, np.float32)
    mg.compile(jitted, {"d": 2}, args=(JAX_STATE, x), target="cpu").save(tmp_path / "m.mgx")
    expected = JAX_STATE
    with mg.load(tmp_path / "m.mgx").session() as session:
        session["state"] = JAX_STATE
        assert session["state"]["unread"] == 0
        for _ in range(3):
            loss, expected = jax.jit(jax_step)(expected, x)
            assert float(np.asarray(session(x))) == pytest.approx(float(loss), rel=1e-6)
            for name, value in session["state"].items():
                np.testing.assert_allclose(value, expected[name], rtol=1e-6)


def test_jax_text_is_paired_by_paths_in_debug_info(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    text = jax.jit(jax_step, donate_argnums=0).lower(JAX_STATE, np.ones(4, np.float32)).as_text(debug_info=True)
    module, signature = read(text, {"d": 2})
    assert signature.state.next_values == {"state.lr": 1, "state.w": 3} and module.donations == {0: 1, 1: 3}


def test_text_without_paths_keeps_its_aliasing() -> None:
    text = "func.func @main(%a: tensor<4xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<4xf32>, tensor<4xf32>) {\n  %r = stablehlo.negate %a : tensor<4xf32>\n  return %r, %r : tensor<4xf32>, tensor<4xf32>\n}\n"
    assert read(text, {"d": 2})[1].state.next_values == {"a": 1}
