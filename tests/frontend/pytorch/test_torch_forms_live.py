"""PyTorch programs in memory (not from files): structures, names and compositions, compared with torch. Needs torch."""

from __future__ import annotations

import warnings
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import UsageError
from tests.frontend.pytorch import forms
from tests.frontend.pytorch.test_torch_ops import check

torch = pytest.importorskip("torch")
from tests.frontend.pytorch.torch_cases import flat, module_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
Pair = namedtuple("Pair", "first second")


@dataclass
class Output:
    """A class of model outputs that is registered with torch but has no serialized name."""

    logits: Any
    count: int = 0
    cache: Any = None


torch.utils._pytree.register_dataclass(Output)


class Returning(torch.nn.Module):
    """A model whose results are structures of several classes."""

    def forward(self, x: Any) -> Any:
        return (
            Output(x * 2, x.shape[0]),
            Pair(x + 1, 0.5),
            OrderedDict(b=x, a=None),
            {1: x, 2: "two"},
            torch.topk(x, 1),
        )


def test_results_have_classes_of_program(tmp_path: Path) -> None:
    x = torch.randn(4, 3)
    executable = mg.compile(Returning(), {"d": 2}, args=(x,), in_specs={"x": mg.P("d")}, target="cpu")
    executable.save(tmp_path / "forms.mgx")
    for program in (executable, mg.load(tmp_path / "forms.mgx")):
        output, pair, ordered, numbered, top = program(x)
        assert type(output) is Output and output.count == 4 and output.cache is None
        assert type(pair) is Pair and pair.second == 0.5
        assert [*ordered] == ["b", "a"] and numbered[2] == "two" and top._fields == ("values", "indices")
        np.testing.assert_array_equal(output.logits, 2 * x.numpy())
        np.testing.assert_array_equal(top.values, torch.topk(x, 1).values.numpy())


def test_result_integers_follow_open_sizes_of_call() -> None:
    class Sizes(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2, x.shape[0], {"twice": 2 * x.shape[0] + 1, "width": x.shape[1]}

    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Sizes(), (torch.ones(6, 3),), dynamic_shapes=({0: rows},))
    executable = mg.compile(program, {"d": 2}, target="cpu")
    for count in (4, 7):
        _, row_count, sizes = executable(np.ones((count, 3), np.float32))
        assert (row_count, sizes) == (count, {"twice": 2 * count + 1, "width": 3}) and type(row_count) is int


@pytest.mark.parametrize("by_name", [False, True])
def test_module_binds_state_and_arguments_by_origin(by_name: bool) -> None:
    model, (ids, scale) = forms.tied()
    args = {"ids": ids, "scale": scale} if by_name else (ids, scale)
    executable = mg.compile(model, {"d": 2}, args=args, in_specs={"scale": mg.P("d")}, target="cpu")
    expected = model(ids, scale)["logits"].detach().numpy()
    for result in (
        executable(ids, scale),
        executable(ids, scale=scale),
        executable(ids, scale, **{"self.scale": model.scale}),
    ):
        np.testing.assert_allclose(result["logits"], expected, rtol=1e-5, atol=1e-5)
    halved = {
        name: tensor * 0.5 for name, tensor in model.state_dict().items() if name != "scale"
    }  # both names of the tied tensor are included
    model.load_state_dict(halved, strict=False)
    np.testing.assert_allclose(
        executable(ids, scale, **halved)["logits"], model(ids, scale)["logits"].detach().numpy(), rtol=1e-5, atol=1e-5
    )


COMPOSITIONS = {
    "ravel": lambda x: x.ravel(),
    "atleast_3d": lambda x: torch.atleast_3d(x),
    "tensor_split": lambda x: torch.tensor_split(x, [1, 3])[1],
    "unsafe_chunk": lambda x: torch.unsafe_chunk(x, 2)[1],
    "cartesian_prod": lambda x: torch.cartesian_prod(x[0], x[1]),
    "linalg.diagonal": lambda x: torch.linalg.diagonal(x),
    "H": lambda x: x.H @ x,
    "kron": lambda x: torch.kron(x, x),
    "batch_norm": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
}


@pytest.mark.parametrize("name", COMPOSITIONS)
def test_composite_operations_are_decomposed(name: str) -> None:
    x = torch.randn(4, 4)
    program = torch.export.export(module_of(name, COMPOSITIONS[name], [x]), (x,))
    for form in (program, program.run_decompositions()) if name == "batch_norm" else (program,):
        check(name, mg.compile(form, {"d": 2}, target="cpu")(x), flat(COMPOSITIONS[name](x)))


def norm_gradients(mask: tuple[bool, ...]) -> dict[str, Any]:
    """Return functions that compute gradients of norms, with their arguments. Only the gradients in `mask` are
    computed.
    """
    draw, aten = torch.randn, torch.ops.aten
    x, grad = draw(4, 6, 5), draw(4, 6, 5)

    def of(backward: Any, *args: Any) -> Any:
        return lambda *tensors: [gradient for gradient in backward(*tensors, *args, [*mask]) if gradient is not None]

    layer, group = (
        aten.native_layer_norm(x, [6, 5], None, None, 1e-5)[1:],
        aten.native_group_norm(x, None, None, 4, 6, 5, 3, 1e-5)[1:],
    )
    batch, running = (
        aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[1:],
        (draw(6), torch.rand(6) + 0.1),
    )
    return {
        "layer": (
            lambda g, x, *rest: of(aten.native_layer_norm_backward)(g, x, [6, 5], *rest),
            (grad, x, *layer, draw(6, 5), draw(6, 5)),
        ),
        "group": (of(aten.native_group_norm_backward, 4, 6, 5, 3), (grad, x, *group, draw(6))),
        "batch": (of(aten.native_batch_norm_backward, True, 1e-5), (grad, x, draw(6), *running, *batch)),
        "batch, eval": (of(aten.native_batch_norm_backward, False, 1e-5), (grad, x, draw(6), *running, *batch)),
    }


@pytest.mark.parametrize(
    "mask", [(True, True, True), (False, True, True), (True, False, False), (False, True, False)], ids=str
)
def test_norm_gradients_support_any_output_mask(mask: tuple[bool, ...]) -> None:
    make_fx = pytest.importorskip("torch.fx.experimental.proxy_tensor").make_fx
    torch.manual_seed(0)
    for name, (function, args) in norm_gradients(mask).items():
        results = mg.compile(make_fx(function)(*args), {"d": 2}, args=args, target="cpu")(*args)
        for actual, expected in zip(results, function(*args), strict=True):
            np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-4, err_msg=name)


def test_fused_rms_norm_gradients_match_autograd() -> None:
    """Torch has no CPU kernel for this gradient, so the program is traced with fake tensors."""
    make_fx = pytest.importorskip("torch.fx.experimental.proxy_tensor").make_fx
    torch.manual_seed(0)
    grad, x, weight = torch.randn(4, 6, 5), torch.randn(4, 6, 5, requires_grad=True), torch.randn(5, requires_grad=True)

    def function(grad: Any, x: Any, weight: Any) -> Any:
        result, factor = torch.ops.aten._fused_rms_norm(x, [5], weight, 1e-5)
        return result, *torch.ops.aten._fused_rms_norm_backward(grad, x, [5], factor, weight, [True, True])

    args = grad, x.detach(), weight.detach()
    results = mg.compile(make_fx(function, tracing_mode="fake")(*args), {"d": 2}, args=args, target="cpu")(*args)
    result = torch.nn.functional.rms_norm(x, (5,), weight, 1e-5)
    expected = [result.detach(), *torch.autograd.grad(result, (x, weight), grad)]
    for actual, reference in zip(results, expected, strict=True):
        np.testing.assert_allclose(actual, reference.numpy(), rtol=1e-4, atol=1e-5)


def test_executable_breaks_graph_of_torch_compile() -> None:
    executable = mg.compile(torch.nn.Linear(8, 4), {"d": 2}, args=["f32[4,8]"], target="cpu")
    x = torch.randn(4, 8)

    def doubled(x: Any) -> Any:
        return torch.from_numpy(np.asarray(executable(x))) * 2

    np.testing.assert_array_equal(torch.compile(doubled, backend="eager")(x).numpy(), 2 * executable(x))
    torch._dynamo.reset()
    with pytest.raises(Exception, match=r"torch\.library\.custom_op"):
        torch.compile(doubled, backend="eager", fullgraph=True)(x)


def test_argument_with_requires_grad_warns() -> None:
    executable = mg.compile(torch.nn.Linear(8, 4), {"d": 2}, args=["f32[4,8]"], target="cpu")
    x = torch.randn(4, 8, requires_grad=True)
    with pytest.warns(UserWarning, match=r"without a gradient: input; pass \.detach\(\)"):
        executable(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.no_grad():
            executable(x)
        executable(x.detach(), weight=torch.nn.Parameter(torch.ones(4, 8)))


def test_unsupported_torch_objects_are_rejected_with_hint() -> None:
    with pytest.raises(UsageError, match=r"got the class Linear(?s:.)*object of the class"):
        mg.compile(torch.nn.Linear, {"d": 2}, args=["f32[4,8]"], target="cpu")
    with pytest.raises(UsageError, match=r"calls operations of PyTorch(?s:.)*torch\.nn\.Module"):
        mg.compile(lambda x: torch.relu(x), {"d": 2}, args=["f32[4,8]"], target="cpu")
    model = torch.nn.Linear(8, 4)
    model.weight.placements = ()  # attribute that DTensors have
    with pytest.raises(UsageError, match=r"are DTensors(?s:.)*before it is parallelized"):
        mg.compile(model, {"d": 2}, args=["f32[4,8]"], target="cpu")
