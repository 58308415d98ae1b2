"""Training steps of PyTorch models: forward pass, gradients and the update of an optimizer of torch.optim as one program.

    step = mg.training_step(model, lambda model, x, y: F.cross_entropy(model(x), y), torch.optim.AdamW(model.parameters()))
    exe = mg.compile(step, mesh, args=(x, y), in_specs={"*.up.weight": P("tp"), "x": P("dp"), "y": P("dp")})
    loss, state = exe(x, y)

The loss is exported as a module, so that models which ask whether they are exported are written as for that. What `make_fx` records of the
program, its gradients and the optimizer is exported in turn, with the state as the first inputs. They are named:

    layers.0.up.weight                     parameters and buffers, as in the model
    optimizer.exp_avg.layers.0.up.weight   the optimizer's state of a parameter
    optimizer.step, optimizer.lr           what all parameters share; the rate of learning is not changed by a step
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from meshgen.calls.classes import Form
from meshgen.calls.nodes import Branch, Slot, slots_of
from meshgen.calls.signature import Signature
from meshgen.errors import MeshgenError
from meshgen.frontend.arguments import Args
from meshgen.frontend.torch.kinds import unusable
from meshgen.frontend.torch.live import arrays, as_tensors, off_meta, serialized
from meshgen.frontend.torch.program import Exported, read_exported
from meshgen.frontend.torch.updates import Tensors, Update
from meshgen.ir.graph import Module

_LOSS = "give loss=lambda model, x, y: F.cross_entropy(model(x), y), a function of the model and of a batch that returns a number of dim 0"


@dataclass(frozen=True)
class TrainingStep:
    """A model, a function of the model and a batch that returns the loss, and an optimizer of torch.optim of the model's parameters."""

    model: Any
    loss: Callable[..., Any]
    optimizer: Any


def training_step(model: Any, loss: Callable[..., Any], optimizer: Any) -> TrainingStep:
    """Return a program for `mg.compile`: a step of training, whose `args` are a batch as `loss` takes it after the model.

    Args:
        model: a `torch.nn.Module`, in the mode (`train()` or `eval()`) in which it is to run.
        loss: called as `loss(model, *batch)`; returns the loss, or a tuple that begins with it.
        optimizer: of `torch.optim`, with parameters of the model. Its state is the first one, if it has taken steps.
    Returns:
        The step. A call of the compiled program returns what `loss` returns, and a dict of the tensors that the step changes: parameters,
        buffers and the optimizer's state, by name. They are donated, so that a session keeps and updates them.
    Raises:
        UsageError: MG0001, these are not a module, a function and an optimizer.
    """
    kinds = ("torch.nn.modules.module", "Module"), ("torch.optim.optimizer", "Optimizer")
    for what, (place, title) in zip((model, optimizer), kinds, strict=True):
        if not any((each.__module__, each.__name__) == (place, title) for each in type(what).__mro__):
            raise unusable(f"expected a torch {title}, got {what!r:.60}", "training_step(model, loss, optimizer)")
    if not callable(loss):
        raise unusable(f"expected a function that returns the loss, got {loss!r:.60}", _LOSS)
    return TrainingStep(model, loss, optimizer)


def read_step(step: TrainingStep, args: Args) -> tuple[Module, Signature]:
    """Return the program of a step, and its signature. Raises UsageError MG0001 for args or a model that torch cannot export, else as `read_exported`."""
    if args is None:
        hint = "give args=(x, y), tensors or types, as the loss takes them after the model"
        raise unusable("a training step needs a batch, or its types", hint)
    try:
        exported, held = _exported(step, args)
    except MeshgenError:
        raise
    except Exception as error:  # whatever tracing the model raises
        text = " ".join(str(error).split())[:300]
        raise unusable(f"torch cannot export the training step for these args: {text}", _LOSS) from error
    module, signature = read_exported(exported, None)
    module, signature = _with_state(module, signature, held)
    ties = [(name, signature.weight(first)) for name, first in _first_names(step.model).items() if name != first]
    homes = {name: home.name for name, home in ties if isinstance(home, Slot)}
    return module, replace(signature, aliases={**signature.aliases, **homes})


def _first_names(model: Any) -> dict[str, str]:
    """Return, for each name of a tensor of a model, the first name of the same tensor."""
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first: dict[Any, str] = {}
    return {name: first.setdefault(each, name) for name, each in tensors}


def _with_state(module: Module, signature: Signature, held: Sequence[str]) -> tuple[Module, Signature]:
    """Name the outputs that are next values of state, and donate the state to them. State that a step leaves as it was has no output."""
    assert isinstance(signature.result, Branch)  # of the recorded step
    result, after = signature.result.values()
    outputs, count = module.graph.outputs, len([*slots_of(result)])
    state = Branch()
    donations: dict[int, int | None] = {}
    kept = outputs[:count]
    for name, slot in zip(held, slots_of(after), strict=True):
        home, value = signature.weight(name), outputs[slot.number or 0]
        if isinstance(home, Slot) and home.number is not None and value is not module.graph.inputs[home.number]:
            donations[home.number] = len(kept)
            state[home.name] = Slot(f"result.{len(kept)}", len(kept))
            kept.append(value)
    graph = replace(module.graph, outputs=kept)
    whole = Branch([("0", result), ("1", state)], Form("tuple"))
    module = replace(module, graph=graph, donations=donations, out_annotations=module.out_annotations[: len(kept)])
    return module, replace(signature, result=whole)


def _exported(step: TrainingStep, args: Args) -> tuple[Exported, list[str]]:
    """Return the serialized step, and the names of its state, whose next values are the last results."""
    torch: Any = import_module("torch")
    model, mode = off_meta(step.model)
    with mode, torch.backends.mkldnn.flags(enabled=False):  # whose recurrent layers are opaque
        batch = _batch(step.loss, args, next(iter(model.parameters()), torch.zeros(())))
        program = torch.export.export(_loss_module(model, step.loss), batch).module()
        update = Update(step.optimizer, {each: name for name, each in step.model.named_parameters()})
        held = {name: each.detach() for name, each in [*model.named_parameters(), *model.named_buffers()]}
        held |= update.begun(held)
        traced = _traced(Forward(program, model), update, held, batch)
        exported = torch.export.export(traced, ([*held.values()], *batch))
    names = tuple(inspect.signature(step.loss).parameters)[1:]
    own = serialized(exported)  # its own tensors are constants of the loss
    constants = {**own.weights, **own.constants}
    return replace(own, weights=arrays(held), constants=constants, held=tuple(held), names=names), [*held]


def _loss_module(model: Any, loss: Callable[..., Any]) -> Any:
    nn: Any = import_module("torch.nn")

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.loss = loss

        def forward(self, *batch: Any) -> Any:
            return self.loss(self.model, *batch)

    return Loss().train(model.training)


def _batch(loss: Callable[..., Any], args: Args, like: Any) -> tuple[Any, ...]:
    """Return the batch as tensors, in the order of the loss's parameters. Raises UsageError MG0001 for unknown names."""
    if not isinstance(args, Mapping):
        return tuple(as_tensors(each, like) for each in args or ())
    try:
        bound = inspect.signature(loss).bind(None, **args)
    except TypeError as error:
        raise unusable(f"args do not fit the loss: {error}", "name its parameters after the model") from error
    return tuple(as_tensors(each, like) for each in bound.args[1:])


class Forward:
    """The exported loss of a model: its tensors have names as in the model, tied ones the first of theirs."""

    def __init__(self, program: Any, model: Any) -> None:
        self._program = program
        homes = {f"model.{name}": first for name, first in _first_names(model).items()}
        own = [*program.named_parameters(remove_duplicate=False), *program.named_buffers(remove_duplicate=False)]
        self._homes = {name: homes[name] for name, _ in own if name in homes}

    def __call__(self, tensors: Mapping[str, Any], batch: Sequence[Any]) -> Any:
        """Return what the loss returns; buffers are changed in place."""
        own = {name: tensors[home] for name, home in self._homes.items()}
        return import_module("torch.func").functional_call(self._program, own, tuple(batch), tie_weights=False)


def _traced(forward: Forward, update: Update, held: Tensors, batch: Sequence[Any]) -> Any:
    """Return the recorded step: a function of the held tensors and the batch, whose results are those of the loss and the next values of what is held."""
    torch, proxies = (import_module(name) for name in ("torch", "torch.fx.experimental.proxy_tensor"))
    pytree = torch.utils._pytree

    def step(values: Sequence[Any], *batch: Any) -> Any:
        tensors = {name: each.detach().clone() for name, each in zip(held, values, strict=True)}
        trained = {name: tensors[name].requires_grad_() for name in update.trained}
        own_batch = pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), batch)  # which the loss may change
        result = forward(tensors, own_batch)
        gradients = torch.autograd.grad(_loss_of(result, torch), [*trained.values()], allow_unused=True)
        with torch.no_grad():
            after = tensors | update(tensors, dict(zip(trained, gradients, strict=True)))
        return pytree.tree_map_only(torch.Tensor, lambda x: x.detach(), (result, [after[name] for name in held]))

    is_fake = any(type(each).__name__ == "FakeTensor" for each in held.values())
    make = proxies.make_fx(step, tracing_mode="real" if is_fake else "fake", _allow_non_fake_inputs=True)
    with torch.backends.mkldnn.flags(enabled=False):  # whose recurrent layers are operations without rules
        return make([*held.values()], *batch)


def _loss_of(result: Any, torch: Any) -> Any:
    """Return the loss: the result, or its first part. Raises UsageError MG0001 for anything but a number."""
    loss: Any = next(iter(torch.utils._pytree.tree_leaves(result)), None)
    if not isinstance(loss, torch.Tensor) or loss.ndim or not loss.requires_grad:
        shape = list(getattr(loss, "shape", ()))
        raise unusable(f"the loss is of shape {shape}, not a number that depends on trained parameters", _LOSS)
    return loss
