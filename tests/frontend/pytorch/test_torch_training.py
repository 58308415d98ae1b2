"""Training steps of a model, a loss and an optimizer, compared with torch. Needs torch."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import UsageError

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.filterwarnings("ignore")


class Net(nn.Module):
    """A model with a convolution of an image, a batch norm, an embedding that is tied to the head, and a frozen
    parameter.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm, self.embed = nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight
        self.rate = nn.Parameter(torch.full((4,), 0.5), requires_grad=False)
        self.unused = nn.Parameter(torch.ones(3))

    def forward(self, x: Any, ids: Any) -> Any:
        y = F.relu(self.norm(self.stem(x))).mean((2, 3)) * self.rate + self.embed(ids)
        return self.head(y)


def loss(model: Any, x: Any, ids: Any) -> Any:
    return F.cross_entropy(model(x, ids), ids)


def batches(count: int) -> list[tuple[Any, Any]]:
    torch.manual_seed(1)
    return [(torch.randn(4, 2, 4, 4), torch.randint(0, 6, (4,))) for _ in range(count)]


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_session_trains_like_torch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Net().train()
    reference = deepcopy(model)
    step = mg.training_step(model, loss, OPTIMIZERS[name](model.parameters()))
    data = batches(10)
    specs = {"x": mg.P("dp"), "ids": mg.P("dp"), "*stem.weight": mg.P("dp")}
    mg.compile(step, {"dp": 2}, args=data[0], in_specs=specs, target="cpu").save(tmp_path / "step.mgx")
    optimizer = OPTIMIZERS[name](reference.parameters())
    with mg.load(tmp_path / "step.mgx").session() as session:
        assert {"stem.weight", "norm.running_mean", "embed.weight"} <= {*session.state}
        assert not {"rate", "unused", "optimizer.lr", "head.weight"} & {*session.state}
        for x, ids in data:
            optimizer.zero_grad()
            expected = loss(reference, x, ids)
            expected.backward()
            optimizer.step()
            np.testing.assert_allclose(np.asarray(session(x.numpy(), ids.numpy())), expected.item(), rtol=1e-4)
        for key in ("stem.weight", "embed.weight", "head.weight", "norm.running_var", "norm.num_batches_tracked"):
            np.testing.assert_allclose(session[key], reference.state_dict()[key].numpy(), rtol=1e-3, atol=1e-4)


def test_step_continues_optimizer_state_with_rate_as_input() -> None:
    torch.manual_seed(0)
    model = Net().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = batches(2)
    loss(model, *data[0]).backward()
    optimizer.step()
    executable = mg.compile(mg.training_step(model, loss, optimizer), {"dp": 2}, args=data[1], target="cpu")
    value, state = executable(*data[1], **{"optimizer.lr": 0.5})  # computed with the current weights of the model
    optimizer.zero_grad()
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    expected = loss(model, *data[1])
    expected.backward()
    optimizer.step()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    # each parameter has its own step count, because torch does not step unused parameters
    assert state["optimizer.step.embed.weight"] == 2
    np.testing.assert_allclose(state["embed.weight"], model.embed.weight.detach().numpy(), rtol=1e-3, atol=1e-3)


def test_constants_of_loss_are_part_of_step() -> None:
    model, x = nn.Linear(3, 2), torch.ones(4, 3)
    rates = torch.tensor([1.0, 3.0])

    def weighted(model: Any, x: Any) -> Any:
        return (model(x) * rates + torch.tensor([2.0, 5.0])).square().mean()

    step = mg.training_step(model, weighted, torch.optim.SGD(model.parameters(), lr=0.1))
    executable = mg.compile(step, {"dp": 2}, args=(x,), target="cpu")
    assert {*executable.signature.weight_names} == {"weight", "bias", "optimizer.lr"}
    np.testing.assert_allclose(executable(x)[0], weighted(model, x).item(), rtol=1e-5)


def test_lstm_with_loss_that_changes_batch_is_trained() -> None:
    model, x = nn.LSTM(3, 2), torch.ones(4, 2, 3)

    def doubled(model: Any, x: Any) -> Any:
        x.mul_(2)
        return model(x)[0].square().mean()

    step = mg.training_step(model, doubled, torch.optim.SGD(model.parameters(), lr=0.1))
    value, state = mg.compile(step, {"dp": 2}, args=(x,), in_specs={"x": mg.P(None, "dp")}, target="cpu")(x)
    reference = deepcopy(model)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    expected = doubled(reference, x.clone())
    expected.backward()
    optimizer.step()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-5)
    for name, tensor in reference.state_dict().items():
        np.testing.assert_allclose(state[name], tensor.numpy(), rtol=1e-4, atol=1e-6)


def test_model_on_meta_device_has_training_step() -> None:
    with torch.device("meta"):
        model = Net().train()
    step = mg.training_step(model, loss, torch.optim.AdamW(model.parameters()))
    executable = mg.compile(step, {"dp": 2}, args=("f32[4,2,4,4]", "i64[4]"), in_specs={"x": mg.P("dp")}, target="cpu")
    assert "optimizer.exp_avg.stem.weight" in executable.signature.weight_names


def test_invalid_training_steps_are_rejected() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match="expected a torch Module"):
        mg.training_step(loss, model, optimizer)
    with pytest.raises(UsageError, match="expected a torch Optimizer"):
        mg.training_step(model, loss, model)
    args = batches(1)[0]
    with pytest.raises(UsageError, match="needs a batch"):
        mg.compile(mg.training_step(model, loss, optimizer), {"dp": 2}, target="cpu")
    with pytest.raises(UsageError, match=r"the loss is of shape \[4, 6\]"):
        mg.compile(
            mg.training_step(model, lambda model, *xs: model(*xs), optimizer), {"dp": 2}, args=args, target="cpu"
        )
    unsupported_optimizer = torch.optim.SGD(Net().parameters(), lr=0.1)
    with pytest.raises(UsageError, match="parameters of the optimizer are not in the model"):
        mg.compile(mg.training_step(model, loss, unsupported_optimizer), {"dp": 2}, args=args, target="cpu")
    unsupported_optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.1)
    with pytest.raises(UsageError, match="SGD with dampening"):
        mg.compile(mg.training_step(model, loss, unsupported_optimizer), {"dp": 2}, args=args, target="cpu")


def test_lstm_and_spectral_norm_train_like_torch() -> None:
    """On CPUs a recurrent layer is one opaque oneDNN operation. A spectral norm writes its result to a tensor that it
    receives as `out`.
    """
    torch.manual_seed(0)
    rows = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    model = nn.Sequential(rows, nn.LSTM(3, 4, batch_first=True)).train()
    reference = deepcopy(model)

    def square(model: Any, x: Any) -> Any:
        return model(x)[0].square().mean()

    x = torch.randn(4, 5, 3)
    step = mg.training_step(model, square, torch.optim.SGD(model.parameters(), lr=0.1))
    value, state = mg.compile(step, {"dp": 2}, args=(x,), in_specs={"x": mg.P("dp")}, target="cpu")(x)
    expected = square(reference, x)
    expected.backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    np.testing.assert_allclose(value, expected.item(), rtol=1e-4)
    for name, tensor in reference.state_dict().items():
        np.testing.assert_allclose(state[name], tensor.numpy(), rtol=1e-3, atol=1e-5)
