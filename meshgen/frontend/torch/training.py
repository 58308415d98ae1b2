"""Training steps of PyTorch models: forward pass, gradients and the update of a torch.optim optimizer as one program.

    optimizer = torch.optim.AdamW(model.parameters())
    step = mg.training_step(model, lambda model, x, y: F.cross_entropy(model(x), y), optimizer)
    exe = mg.compile(step, mesh, args=(x, y), in_specs={"*.up.weight": P("tp"), "x": P("dp"), "y": P("dp")})
    loss, state = exe(x, y)

The loss is exported as a module first, so that models which check `torch.compiler.is_exporting()` take that branch.
Then `make_fx` records the exported loss, its gradients and the optimizer's update, and the recorded step is exported
again. Its first inputs are the state:

    layers.0.up.weight                     parameters and buffers, as in the model
    optimizer.exp_avg.layers.0.up.weight   the optimizer's state of a parameter
    optimizer.step, optimizer.lr           state shared by all parameters; a step does not change the learning rate
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from meshgen.calls.argument_tree import Branch, Slot, slots_of
from meshgen.calls.signature import Signature
from meshgen.calls.structure_forms import Form
from meshgen.errors import MeshgenError
from meshgen.frontend.arguments import Args
from meshgen.frontend.torch.export import arrays, as_tensors, replace_meta_tensors, serialized
from meshgen.frontend.torch.optimizers import Tensors, Update
from meshgen.frontend.torch.program import Exported, read_exported
from meshgen.frontend.torch.recognition import unusable
from meshgen.ir.graph import Module

_LOSS = "give loss=lambda model, x, y: F.cross_entropy(model(x), y), a function of the model and a batch that returns a zero-dim tensor"


@dataclass(frozen=True)
class TrainingStep:
    """A training step to compile: a model, a loss function, and a torch.optim optimizer of the model's parameters."""

    model: Any
    loss: Callable[..., Any]
    optimizer: Any


def training_step(model: Any, loss: Callable[..., Any], optimizer: Any) -> TrainingStep:
    """Return a training step that `mg.compile` accepts.

    The compiled program takes the arguments of `loss` after the model.

    Args:
        model: a `torch.nn.Module`, in the mode (`train()` or `eval()`) in which it is to run.
        loss: called as `loss(model, *batch)`; returns the loss, or a tuple that begins with it.
        optimizer: a `torch.optim` optimizer of the model's parameters. If it has taken steps, its current state is the
            initial state.

    Returns:
        The step. A call of the compiled program returns the result of `loss` and a dict of the tensors that the step
        changes: parameters, buffers and the optimizer's state, by name. They are donated, so that a session keeps and
        updates them.

    Raises:
        UsageError: MG0001, an argument is not a module, a function or an optimizer.
    """
    kinds = ("torch.nn.modules.module", "Module"), ("torch.optim.optimizer", "Optimizer")
    for argument, (module_name, title) in zip((model, optimizer), kinds, strict=True):
        if not any((cls.__module__, cls.__name__) == (module_name, title) for cls in type(argument).__mro__):
            raise unusable(f"expected a torch {title}, got {argument!r:.60}", "training_step(model, loss, optimizer)")
    if not callable(loss):
        raise unusable(f"expected a function that returns the loss, got {loss!r:.60}", _LOSS)
    return TrainingStep(model, loss, optimizer)


def read_step(step: TrainingStep, args: Args) -> tuple[Module, Signature]:
    """Import a training step: return its module and its call signature.

    Raises:
        UsageError: MG0001, torch cannot export the step for these `args`; otherwise as `read_exported`.
    """
    if args is None:
        hint = "give args=(x, y), tensors or types, as the loss takes them after the model"
        raise unusable("a training step needs a batch, or its types", hint)
    try:
        exported, state_names = _export_step(step, args)
    except MeshgenError:
        raise
    except Exception as error:  # Tracing the model can raise anything.
        text = " ".join(str(error).split())[:300]
        raise unusable(f"torch cannot export the training step for these args: {text}", _LOSS) from error
    module, signature = read_exported(exported, None)
    module, signature = _with_state(module, signature, state_names)
    ties = [(name, signature.weight(first)) for name, first in _first_names(step.model).items() if name != first]
    aliases = {name: slot.name for name, slot in ties if isinstance(slot, Slot)}
    return module, replace(signature, aliases={**signature.aliases, **aliases})


def _first_names(model: Any) -> dict[str, str]:
    """Map each name of a parameter or buffer of `model` to the first name of the same tensor."""
    tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first: dict[Any, str] = {}
    return {name: first.setdefault(tensor, name) for name, tensor in tensors}


def _with_state(module: Module, signature: Signature, state_names: Sequence[str]) -> tuple[Module, Signature]:
    """Donate each state input that the step changes to the output with its next value, and name that output after it.

    Outputs for state that the step does not change are dropped.
    """
    assert isinstance(signature.result, Branch)  # `_record_step` returns a pair of results.
    result, next_values = signature.result.values()
    outputs, count = module.graph.outputs, len([*slots_of(result)])
    state = Branch()
    donations: dict[int, int | None] = {}
    kept_outputs = outputs[:count]
    for name, slot in zip(state_names, slots_of(next_values), strict=True):
        input_slot, value = signature.weight(name), outputs[slot.number or 0]
        if (
            isinstance(input_slot, Slot)
            and input_slot.number is not None
            and value is not module.graph.inputs[input_slot.number]
        ):
            donations[input_slot.number] = len(kept_outputs)
            state[input_slot.name] = Slot(f"result.{len(kept_outputs)}", len(kept_outputs))
            kept_outputs.append(value)
    graph = replace(module.graph, outputs=kept_outputs)
    structure = Branch([("0", result), ("1", state)], Form("tuple"))
    module = replace(
        module, graph=graph, donations=donations, out_annotations=module.out_annotations[: len(kept_outputs)]
    )
    return module, replace(signature, result=structure)


def _export_step(step: TrainingStep, args: Args) -> tuple[Exported, list[str]]:
    """Return the serialized step and the names of its state tensors, whose next values are the last results."""
    torch: Any = import_module("torch")
    model, mode = replace_meta_tensors(step.model)
    # The importer cannot read mkldnn's recurrent layers, which are opaque operations.
    with mode, torch.backends.mkldnn.flags(enabled=False):
        batch = _batch(step.loss, args, next(iter(model.parameters()), torch.zeros(())))
        program = torch.export.export(_loss_module(model, step.loss), batch).module()
        update = Update(step.optimizer, {tensor: name for name, tensor in step.model.named_parameters()})
        state = {name: tensor.detach() for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
        state |= update.initial_state(state)
        traced = _record_step(Forward(program, model), update, state, batch)
        exported = torch.export.export(traced, ([*state.values()], *batch))
    names = tuple(inspect.signature(step.loss).parameters)[1:]
    program_data = serialized(exported)  # The tensors inside of the exported step are constants of the loss.
    constants = {**program_data.weights, **program_data.constants}
    return replace(program_data, weights=arrays(state), constants=constants, held=tuple(state), names=names), [*state]


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


def _batch(loss: Callable[..., Any], args: Args, example: Any) -> tuple[Any, ...]:
    """Return `args` as tensors in the order of the loss's parameters. Raises UsageError MG0001 for unknown names."""
    if not isinstance(args, Mapping):
        return tuple(as_tensors(argument, example) for argument in args or ())
    try:
        bound = inspect.signature(loss).bind(None, **args)
    except TypeError as error:
        raise unusable(f"args do not fit the loss: {error}", "name its parameters after the model") from error
    return tuple(as_tensors(argument, example) for argument in bound.args[1:])


class Forward:
    """The exported loss of a model as a function of (tensors by name, batch).

    A tied tensor is passed once, by the first of its names in the model.
    """

    def __init__(self, program: Any, model: Any) -> None:
        self._program = program
        first_names = {f"model.{name}": first for name, first in _first_names(model).items()}
        program_tensors = [
            *program.named_parameters(remove_duplicate=False),
            *program.named_buffers(remove_duplicate=False),
        ]
        self._homes = {name: first_names[name] for name, _ in program_tensors if name in first_names}

    def __call__(self, tensors: Mapping[str, Any], batch: Sequence[Any]) -> Any:
        """Return the result of the loss function for `batch`. Buffers in `tensors` are updated in place."""
        program_tensors = {name: tensors[first_name] for name, first_name in self._homes.items()}
        return import_module("torch.func").functional_call(
            self._program, program_tensors, tuple(batch), tie_weights=False
        )


def _record_step(forward: Forward, update: Update, state: Tensors, batch: Sequence[Any]) -> Any:
    """Record the training step with make_fx: a function of the state tensors and the batch.

    Returns:
        A graph module that returns the result of the loss and the next values of the state.
    """
    torch, proxies = (import_module(name) for name in ("torch", "torch.fx.experimental.proxy_tensor"))
    pytree = torch.utils._pytree

    def step(values: Sequence[Any], *batch: Any) -> Any:
        tensors = {name: tensor.detach().clone() for name, tensor in zip(state, values, strict=True)}
        trained = {name: tensors[name].requires_grad_() for name in update.trained}
        # Clone the batch, because the loss may mutate it.
        own_batch = pytree.tree_map_only(torch.Tensor, lambda x: x.clone(), batch)
        result = forward(tensors, own_batch)
        gradients = torch.autograd.grad(_loss_of(result, torch), [*trained.values()], allow_unused=True)
        with torch.no_grad():
            next_state = tensors | update(tensors, dict(zip(trained, gradients, strict=True)))
        return pytree.tree_map_only(torch.Tensor, lambda x: x.detach(), (result, [next_state[name] for name in state]))

    is_fake = any(type(tensor).__name__ == "FakeTensor" for tensor in state.values())
    make = proxies.make_fx(step, tracing_mode="real" if is_fake else "fake", _allow_non_fake_inputs=True)
    with torch.backends.mkldnn.flags(enabled=False):  # mkldnn's recurrent layers have no decomposition.
        return make([*state.values()], *batch)


def _loss_of(result: Any, torch: Any) -> Any:
    """Return the loss, which is the first tensor of `result`.

    Raises UsageError MG0001 unless it is a zero-dim tensor that requires gradients.
    """
    loss: Any = next(iter(torch.utils._pytree.tree_leaves(result)), None)
    if not isinstance(loss, torch.Tensor) or loss.ndim or not loss.requires_grad:
        shape = list(getattr(loss, "shape", ()))
        raise unusable(f"the loss is of shape {shape}, not a number that depends on trained parameters", _LOSS)
    return loss
