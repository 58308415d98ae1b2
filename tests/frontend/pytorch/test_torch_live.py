"""PyTorch programs in memory (not from files), compared with torch. Needs torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError, UsageError
from meshgen.frontend.torch.ops import find_op
from meshgen.frontend.torch.views import READ_ONLY, SAME, SPLITS, VIEWS
from tests.frontend.pytorch import archives
from tests.frontend.pytorch.cases import arguments
from tests.frontend.pytorch.test_torch_ops import check

torch = pytest.importorskip("torch")
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tests.frontend.pytorch.torch_cases import cases, flat, module_of  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
EXPORTED_OPERATIONS = (
    "promotion",
    "indexed",
    "scatter",
    "attention_masked",
    "conv_transpose",
    "in_place",
    "cross_entropy",
    "batch_norm_training",
    "lstm",
    "vmap",
    "trained",
    "distances",
    "named_result",
    "stft",
)


@pytest.mark.parametrize("name", EXPORTED_OPERATIONS)
def test_exported_operation_matches_torch(name: str) -> None:
    function, kinds = cases()[name]
    tensors = [torch.from_numpy(array) for array in arguments(name, kinds)]
    expected = flat(function(*tensors))
    exported = torch.export.export(module_of(name, function, tensors), tuple(tensors))
    results = mg.compile(exported, {"d": 2}, target="cpu")(*(array.numpy() for array in tensors))
    check(name, tuple(torch.utils._pytree.tree_leaves(results)), expected)


@pytest.mark.parametrize(
    ("equation", "is_view"), [("ij->ji", True), ("ij", True), ("ii->i", True), ("ij->i", False), ("ii", False)]
)
def test_write_to_einsum_view_is_rejected(equation: str, is_view: bool) -> None:
    class Written(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            x = x * 1
            torch.einsum(equation, x).add_(1)
            return x

    x = torch.arange(9.0).reshape(3, 3)
    exported = torch.export.export(Written(), (x,))
    if is_view:
        with pytest.raises(ProgramError, match="MG0103: a write to a view of this kind is not supported"):
            mg.compile(exported, {"d": 1}, target="cpu")
    else:
        np.testing.assert_array_equal(mg.compile(exported, {"d": 1}, target="cpu")(x), x)


COMPLEX = {
    "norms": lambda z: tuple(torch.linalg.vector_norm(z, p, dim=-1) for p in (0, 1, 2, 2.5, float("inf"), -float("inf"))),
    "matrix norm": lambda z: (torch.linalg.matrix_norm(z), torch.linalg.norm(z, 1), z.norm()),
    "normalized": lambda z: (torch.nn.functional.normalize(z), torch.dist(z, z * 2)),
    "deviations": lambda z: (z.std(), *torch.std_mean(z, 0)),
    "inverse": lambda z: torch.linalg.pinv(z, hermitian=True),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions_match_torch(name: str) -> None:
    class Function(torch.nn.Module):
        def forward(self, z: Any) -> Any:
            return COMPLEX[name](z)

    z = torch.randn(4, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    results = mg.compile(torch.export.export(Function(), (z,)), {"d": 2}, in_specs={"z": mg.P("d")}, target="cpu")(z)
    for actual, expected in zip(torch.utils._pytree.tree_leaves(results), flat(COMPLEX[name](z)), strict=True):
        assert actual.dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_norm_statistics_have_declared_type(dtype: str, training: bool) -> None:
    """On CPUs the statistics of a norm have the type of the input, except that a functional batch norm has f32. On GPUs
    all have f32.
    """

    class Norms(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.group, self.batch = (
                torch.nn.LayerNorm(8),
                torch.nn.GroupNorm(2, 4),
                torch.nn.BatchNorm1d(4),
            )

        def forward(self, x: Any) -> Any:
            return self.layer(x) + self.group(x) + self.batch(x)

    model = Norms().to(getattr(torch, dtype)).train(training)
    x = torch.randn(4, 4, 8, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    exported = torch.export.export(model, (x,)).run_decompositions()
    results = mg.compile(exported, {"dp": 2}, in_specs={"x": mg.P("dp")}, target="cpu")(x)
    (result,) = (
        leaf for leaf in torch.utils._pytree.tree_leaves(results) if leaf.shape == x.shape
    )  # leaves of other shapes are buffers
    np.testing.assert_allclose(np.asarray(result, np.float32), model(x).detach().float().numpy(), rtol=0.02, atol=0.02)


def test_module_is_exported_and_accepts_tensors() -> None:
    model, (ids,) = archives.decoder()
    executable = mg.compile(model, {"dp": 2}, args=("i64[4,6]",), in_specs={"ids": mg.P("dp")}, target="cpu")
    np.testing.assert_allclose(executable(ids), model(ids).detach().numpy(), rtol=1e-5, atol=1e-5)
    halved = {name: tensor * 0.5 for name, tensor in model.state_dict().items()}
    model.load_state_dict(halved)
    np.testing.assert_allclose(executable(ids, **halved), model(ids).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_model_on_meta_device_is_planned() -> None:
    with torch.device("meta"):
        model, _ = archives.decoder()
    executable = mg.compile(model, {"dp": 2}, args=("i64[4,6]",), target="cpu")
    assert not executable.signature.weights
    assert executable.signature.node("layers.1.attn.wq.weight") is not None


def test_module_without_matching_args_is_rejected() -> None:
    with pytest.raises(UsageError, match="needs its arguments"):
        mg.compile(torch.nn.Linear(4, 4), {"dp": 2}, target="cpu")
    with pytest.raises(UsageError, match=r"torch.export cannot export the module"):
        mg.compile(torch.nn.Linear(4, 4), {"dp": 2}, args=("f32[2,5]",), target="cpu")


def test_open_sizes_stay_open_or_come_from_args() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Flatten(0))
    exported = torch.export.export(
        model, (torch.zeros(6, 4),), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=64)},)
    )
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    open_executable = mg.compile(exported, {"dp": 2}, in_specs={"input": mg.P("dp")}, target="cpu")
    for rows in (2, 7, 8):
        expected = model(torch.from_numpy(x[:rows])).detach().numpy()
        np.testing.assert_allclose(open_executable(x[:rows]), expected, rtol=1e-5, atol=1e-5)
    result = mg.compile(exported, {"dp": 2}, args=[x], in_specs={"input": mg.P("dp")}, target="cpu")(x)
    np.testing.assert_allclose(result, model(torch.from_numpy(x)).detach().numpy(), rtol=1e-5, atol=1e-5)
    with pytest.raises(UsageError, match="the program is for 2 to 64"):
        mg.compile(exported, {"dp": 2}, args=["f32[128,4]"], target="cpu")


@pytest.mark.parametrize(
    "function", ["x[x > 0]", "x.nonzero()", "x.masked_select(x > 0)", "x.unique()", "x.int().flatten().bincount()"]
)
def test_operation_with_data_dependent_size_is_rejected(function: str) -> None:
    module = module_of("", eval(f"lambda x: {function}"), [])
    with pytest.raises(ProgramError, match=r"MG0103.*(is data|data-dependent)"):
        mg.compile(module, {"d": 2}, args=("f32[4,3]",), target="cpu")


def test_unknown_operations_are_decomposed_by_torch() -> None:
    argument = torch.rand(4, 6) + 0.5
    module = module_of("", lambda x: torch.special.entr(x) + torch.logit(x / 4), [])
    result = mg.compile(module, {"d": 2}, args=(argument,), target="cpu")(argument)
    np.testing.assert_allclose(result, module(argument).numpy(), rtol=1e-5, atol=1e-6)


# Functions that write to views or copies of x[3,4]. The memory layout of x decides whether torch returns a view or a
# copy.
WRITES = {
    "dense": lambda x: (x.contiguous().add_(1), x.reshape(-1)[1:].mul_(2), x.flatten()[:1].neg_()),
    "turned": lambda x: (x.t().contiguous().add_(1), x.t().reshape(-1).add_(2), x.t().flatten()[2:].add_(3), x.t().ravel().add_(4)),
    "rows": lambda x: (x[:, :2].contiguous().add_(1), x[:, :2].reshape(-1).add_(2), x[:, :2].reshape(3, 2, 1).add_(3)),
    "types": lambda x: (x.to(x.dtype).add_(1), x.to(x.dtype, copy=True).add_(2), x.float().mul_(2), x.double().add_(3)),
    "turned_by_nothing": lambda x: (x.rot90(0).add_(1), x.roll(0).add_(2), x.tril(9).add_(3), x.repeat(1, 1).add_(4)),
    "names": lambda x: (x.swapaxes(0, 1)[1].mul_(5), x.swapdims(0, 1)[0].neg_(), x.hsplit(2)[1].mul_(3), x.vsplit(3)[2].add_(1)),
    "shapes": lambda x: [y for y in [x[:, :3]] for z in [y.add_(1)] for t in [y.t()] for _ in (z.transpose_(0, 1), y[0].mul_(2), t[:, 1].neg_(), y.unsqueeze_(0), y.squeeze_())],
    "conjugates": lambda x: [torch.view_as_real(z) for z in [torch.complex(x, x + 1)] for _ in [z.conj().mul_(2j)]],
}  # fmt: skip


@pytest.mark.parametrize("name", WRITES)
def test_write_changes_all_values_that_share_memory(name: str) -> None:
    def function(x: Any) -> Any:
        x = x.clone()
        return *WRITES[name](x), x

    argument = torch.arange(12.0).reshape(3, 4)
    exported = torch.export.export(module_of("", function, []), (argument,))
    check(name, mg.compile(exported, {"d": 2}, target="cpu")(argument), flat(function(argument)))


def test_view_tables_cover_alias_schemas_of_torch() -> None:
    view_names = {*VIEWS, *SPLITS, *READ_ONLY, *SAME}
    for schema in torch._C._jit_get_all_schemas():
        aliases = [alias.alias_info for alias in schema.returns if alias.alias_info is not None]
        name = schema.name.removeprefix("aten::")
        if (
            schema.name != name
            and any(not alias.is_write for alias in aliases)
            and find_op(f"aten.{name}.{schema.overload_name or 'default'}")
        ):
            assert name in view_names, schema


def test_row_is_selected_by_tensor_index() -> None:
    x, row = torch.arange(20.0).reshape(4, 5), torch.tensor(2)
    module = module_of("", lambda x, i: (x[i], x[:, i - 3], x[i, 1:3]), [])
    for program in (torch.export.export(module, (x, row)), torch.export.export(module, (x, row)).run_decompositions()):
        results = mg.compile(program, {"d": 2}, in_specs=[mg.P("d"), None], target="cpu")(x, row)
        check("rows", results, flat(module(x, row)))
    gradient = make_fx(torch.func.grad(lambda x, i: (x[i] * x[i]).sum()), tracing_mode="symbolic")(x, row)
    check(
        "gradient",
        mg.compile(gradient, {"d": 2}, args=(x, row), target="cpu")(x, row),
        [2 * x.numpy() * (np.arange(4) == 2)[:, None]],
    )
    for function in (lambda x, i: x * i.item(), lambda x, i: x[i.item() + 1], lambda x, i: torch.arange(i.item())):
        with pytest.raises(ProgramError, match="converts a tensor, which is data, to a Python number"):
            mg.compile(module_of("", function, []), {"d": 2}, args=(x, row), target="cpu")


def test_lstm_recorded_by_make_fx_is_rejected_with_hint() -> None:
    layer, x = torch.nn.LSTM(3, 2), torch.randn(4, 2, 3)
    function = torch.func.grad(lambda x: layer(x)[0].square().mean())
    with pytest.raises(ProgramError, match=r"mkldnn_rnn_layer(?s:.)*enabled=False"):
        mg.compile(make_fx(function)(x), {"d": 2}, args=(x,), target="cpu")
    with torch.backends.mkldnn.flags(enabled=False):
        recorded = make_fx(function)(x)
    check("lstm", mg.compile(recorded, {"d": 2}, args=(x,), target="cpu")(x), flat(function(x)))


def test_detached_gradients_inside_module_are_rejected() -> None:
    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(4)

        def forward(self, x: Any) -> Any:
            return torch.autograd.grad(self.norm(x).square().sum(), [*self.parameters()])

    # a message of meshgen, or of torch from version 2.11 on
    text = r"(as constants without elements|fake tensor in the exported program)(?s:.)*make_fx"
    with pytest.raises((ProgramError, UsageError), match=text):
        mg.compile(Step(), {"d": 2}, args=("f32[2,4]",), target="cpu")


def test_branch_on_data_is_rejected_with_hint() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(UsageError, match=r"data-dependent(?s:.)*torch\.cond"):
        mg.compile(Branch(), {"d": 2}, args=("f32[2,4]",), target="cpu")


def test_active_dropout_is_rejected_with_location_and_count() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)).train()
    with pytest.raises(ProgramError, match=r"dropout draws random numbers.*\(2 times\)") as error:
        mg.compile(model, {"dp": 2}, args=("f32[2,4]",), target="cpu")
    assert error.value.diagnostics[0].loc is not None


class Loss(torch.nn.Module):
    """A loss whose model has a norm, attention, a convolution and an embedding."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.embed, self.norm, self.up, self.out = (
            nn.Embedding(16, 8),
            nn.LayerNorm(8),
            nn.Linear(8, 8),
            nn.Linear(8, 16),
        )
        self.bn, self.conv = nn.BatchNorm1d(8), nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, ids: Any, labels: Any) -> Any:
        F = torch.nn.functional
        x = self.norm(self.embed(ids))
        q = F.gelu(self.up(x)).unflatten(-1, (2, 4)).transpose(1, 2)
        x = F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(-2)
        x = F.relu(self.bn(self.conv(x.transpose(1, 2)))).transpose(1, 2)
        return F.cross_entropy(self.out(x).flatten(0, 1), labels.flatten())


@pytest.mark.parametrize("mesh", [{"dp": 2}, {"dp": 2, "tp": 2}], ids=str)
def test_exported_gradients_match_torch(mesh: dict[str, int]) -> None:
    experimental = pytest.importorskip("torch.export.experimental")
    torch.manual_seed(0)
    model, args = Loss(), (torch.randint(0, 16, (4, 6)), torch.randint(0, 16, (4, 6)))
    joint = experimental._export_forward_backward(torch.export.export(model, args))
    specs = {"ids": mg.P("dp"), "labels": mg.P("dp")} | ({"out.weight": mg.P("tp")} if "tp" in mesh else {})
    results = mg.compile(joint, mesh, in_specs=specs, target="cpu")(*args)
    loss = model(*args)
    loss.backward()
    np.testing.assert_allclose(results["result"], loss.detach().numpy(), rtol=1e-5)
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(results["gradients"][name], parameter.grad.numpy(), rtol=1e-4, atol=1e-6)
    for name, buffer in model.named_buffers():
        np.testing.assert_allclose(results["buffers"][name], buffer.numpy(), rtol=1e-5, atol=1e-6)


def test_final_lstm_states_match_torch() -> None:
    class Tagger(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = torch.nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True)
            self.head = torch.nn.Linear(12, 4)

        def forward(self, x: Any) -> Any:
            rows, (hidden, cell) = self.lstm(x)
            return self.head(rows), self.head(torch.cat([hidden[-1], cell[-2]], -1))

    torch.manual_seed(0)
    model, x = Tagger().eval(), torch.randn(4, 5, 8)
    specs = {"x": mg.P("dp"), "lstm.weight_ih_l*": mg.P("tp"), "lstm.weight_hh_l*": mg.P("tp")}
    results = mg.compile(model, {"dp": 2, "tp": 2}, args=(x,), in_specs=specs, target="cpu")(x)
    check("lstm", results, flat(model(x)))
