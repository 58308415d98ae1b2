"""Updates of torch.optim optimizers as functions of tensors by name: parameters, gradients and optimizer state."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any

from meshgen.frontend.torch.recognition import unusable

Tensors = dict[str, Any]


class Update:
    """The update of an optimizer as a function: (tensors by name, gradients by name) -> next optimizer state.

    Attributes:
        trained: names of the parameters that the optimizer updates.
    """

    def __init__(self, optimizer: Any, parameters: Mapping[Any, str]) -> None:
        """Wrap an optimizer.

        `parameters` maps the model's parameters, which torch compares by identity, to their names.

        Raises:
            UsageError: MG0001, the optimizer is unsupported, or updates a parameter that is not in `parameters`.
        """
        self._optimizer, self._names = optimizer, parameters
        listed = [
            parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad
        ]
        unknown = [parameter for parameter in listed if parameter not in parameters]
        if unknown or not listed:
            text = f"{len(unknown)} trained parameters of the optimizer are not in the model, and {len(listed) - len(unknown)} are"
            raise unusable(text, "create it from model.parameters(), after the model is on its device")
        if not hasattr(optimizer, "_init_group"):
            text = f"the optimizer {type(optimizer).__name__} is not a torch.optim optimizer that initializes its state by itself"
            hint = "use SGD, Adam or AdamW, or write the update in a function for make_fx, as in docs/torch.md"
            raise unusable(text, hint)
        self.trained = [parameters[parameter] for parameter in listed]
        self._keys: dict[str, bool] = {}  # For each state key, whether the state is one number for all parameters.

    def initial_state(self, tensors: Mapping[str, Any]) -> Tensors:
        """Return the optimizer's current state by name, initialized for parameters without state."""
        torch: Any = import_module("torch")
        state: Tensors = {}
        for key, values in self._states({name: tensors[name] for name in self.trained}).items():
            self._keys[key] = _is_shared([*values.values()], len(self.trained))
            for name, tensor in values.items():
                state.setdefault(self._full_name(key, name), tensor)
        if self._takes_rate:
            groups = enumerate(self._optimizer.param_groups)
            state |= {self._rate(group_index): torch.tensor(float(group["lr"])) for group_index, group in groups}
        return state

    def __call__(self, tensors: Mapping[str, Any], gradients: Mapping[str, Any]) -> Tensors:
        """Update the parameters in `tensors` in place and return the next state of the optimizer.

        Parameters without a gradient do not change.
        """
        optimizer = self._copy(tensors)
        for group_index, group in enumerate(optimizer.param_groups):
            # With a learning rate that may require gradients, the optimizer computes with the tensor instead of a
            # number.
            if self._takes_rate:
                group["lr"] = tensors[self._rate(group_index)].detach().requires_grad_()
        for name in self.trained:
            parameter = tensors[name]
            parameter.grad = gradients[name]
            for key, is_shared in self._keys.items():
                if (full_name := self._full_name(key, name)) in tensors:
                    optimizer.state[parameter][key] = tensors[full_name].clone() if is_shared else tensors[full_name]
        optimizer.step()
        next_state: Tensors = {}
        for name in (name for name in self.trained if gradients[name] is not None):
            for key, value in optimizer.state[tensors[name]].items():
                if key in self._keys:
                    next_state[self._full_name(key, name)] = value
        return next_state

    def _full_name(self, key: str, parameter: str) -> str:
        """Return the name of the state `key` of a parameter.

        State shared by all parameters has no parameter in its name.
        """
        return f"optimizer.{key}" if self._keys[key] else f"optimizer.{key}.{parameter}"

    @property
    def _takes_rate(self) -> bool:
        """Whether the optimizer accepts a tensor as learning rate."""
        classes = type(self._optimizer).__mro__
        return any(cls.__name__ in ("SGD", "Adam") and cls.__module__.startswith("torch.optim.") for cls in classes)

    def _rate(self, group_index: int) -> str:
        return "optimizer.lr" if len(self._optimizer.param_groups) == 1 else f"optimizer.lr.{group_index}"

    def _copy(self, tensors: Mapping[str, Any]) -> Any:
        """Copy the optimizer without its state, with `tensors` instead of the parameters.

        The copy uses the differentiable implementation of the update, which make_fx can record.
        """
        optimizer: Any = copy(self._optimizer)
        optimizer.state = defaultdict(dict)
        optimizer.param_groups = []
        for group in self._optimizer.param_groups:
            names = [self._names[parameter] for parameter in group["params"] if parameter.requires_grad]
            names_of_options = group.keys() & {"foreach", "fused", "capturable", "differentiable"}
            options = {key: key == "differentiable" for key in names_of_options}
            optimizer.param_groups.append({**group, **options, "params": [tensors[name] for name in names]})
        return optimizer

    def _states(self, tensors: Mapping[str, Any]) -> dict[str, Tensors]:
        """Map each state key to the state tensors by parameter name.

        Missing state is initialized as the optimizer does.
        """
        torch: Any = import_module("torch")
        named_states = [
            (self._names.get(tensor), state) for tensor, state in self._optimizer.state.items() if not tensor.is_meta
        ]
        current = {name: state for name, state in named_states if name is not None}
        fresh = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        initial = self._copy(fresh)
        for tensor in fresh.values():
            tensor.grad = torch.zeros_like(tensor)
        for group in initial.param_groups:
            num_lists = len(inspect.signature(initial._init_group).parameters) - 1
            initial._init_group(group, *([] for _ in range(num_lists)))
            if group.get("momentum") and type(initial).__name__ == "SGD":
                _begin_momentum(initial, group, current)
        states: dict[str, Tensors] = {}
        for name, tensor in fresh.items():
            for key, value in (current.get(name) or initial.state[tensor]).items():
                if isinstance(value, torch.Tensor):
                    states.setdefault(key, {})[name] = value.detach()
        return states


def _begin_momentum(optimizer: Any, group: Mapping[str, Any], current_state: Mapping[str, Any]) -> None:
    """Initialize the momentum of SGD to zero.

    SGD itself starts with the first gradient, which gives the same update without dampening.

    Raises:
        UsageError: MG0001, the optimizer uses dampening and has taken no step.
    """
    torch: Any = import_module("torch")
    if group.get("dampening") and not current_state:
        text = "SGD with dampening starts its momentum with the undamped first gradients"
        raise unusable(text, "take the first step in PyTorch, or leave dampening out")
    for parameter in group["params"]:
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)


def _is_shared(values: list[Any], count: int) -> bool:
    """Whether the values of an optimizer state for `count` parameters are one number, such as the step count."""
    if len(values) != count or any(value.ndim for value in values):
        return False
    is_fake = any(type(value).__name__ == "FakeTensor" for value in values)
    return is_fake or all(bool(value == values[0]) for value in values)
