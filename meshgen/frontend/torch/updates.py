"""Updates of torch.optim's optimizers as functions of tensors: parameters, gradients and the optimizer's state by name."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any

from meshgen.frontend.torch.kinds import unusable

Tensors = dict[str, Any]


class Update:
    """The update of an optimizer.

    Attributes:
        trained: the names of the parameters that it updates.
    """

    def __init__(self, optimizer: Any, parameters: Mapping[Any, str]) -> None:
        """`parameters`: the names of the model's parameters by tensor, which torch compares by identity. Raises UsageError MG0001 for others, and for an unsupported optimizer."""
        self._optimizer, self._names = optimizer, parameters
        listed = [each for group in optimizer.param_groups for each in group["params"] if each.requires_grad]
        unknown = [each for each in listed if each not in parameters]
        if unknown or not listed:
            text = f"the optimizer has {len(unknown)} parameters that the model does not have, and {len(listed) - len(unknown)} of it"
            raise unusable(text, "make it of model.parameters(), after the model is on its device")
        if not hasattr(optimizer, "_init_group"):
            text = f"the optimizer {type(optimizer).__name__} is not one of torch.optim that begins its state by itself"
            hint = "take SGD, Adam or AdamW, or write the update in a function for make_fx, as in docs/torch.md"
            raise unusable(text, hint)
        self.trained = [parameters[each] for each in listed]
        self._keys: dict[str, bool] = {}  # states of a parameter, and whether all parameters share one number

    def begun(self, tensors: Mapping[str, Any]) -> Tensors:
        """Return the state that a step begins with: the optimizer's, or as it begins it for these parameters."""
        torch: Any = import_module("torch")
        held: Tensors = {}
        for key, values in self._states({name: tensors[name] for name in self.trained}).items():
            self._keys[key] = _is_shared([*values.values()], len(self.trained))
            for name, each in values.items():
                held.setdefault(self._full_name(key, name), each)
        if self._takes_rate:
            groups = enumerate(self._optimizer.param_groups)
            held |= {self._rate(number): torch.tensor(float(group["lr"])) for number, group in groups}
        return held

    def __call__(self, tensors: Mapping[str, Any], gradients: Mapping[str, Any]) -> Tensors:
        """Update parameters in place, and return the state after it. Parameters without a gradient stay as they are."""
        optimizer = self._copy(tensors)
        for number, group in enumerate(optimizer.param_groups):
            if self._takes_rate:  # the update takes a tensor where the rate may have a gradient
                group["lr"] = tensors[self._rate(number)].detach().requires_grad_()
        for name in self.trained:
            parameter = tensors[name]
            parameter.grad = gradients[name]
            for key, is_shared in self._keys.items():
                if (full := self._full_name(key, name)) in tensors:
                    optimizer.state[parameter][key] = tensors[full].clone() if is_shared else tensors[full]
        optimizer.step()
        after: Tensors = {}
        for name in (name for name in self.trained if gradients[name] is not None):
            for key, value in optimizer.state[tensors[name]].items():
                if key in self._keys:
                    after[self._full_name(key, name)] = value
        return after

    def _full_name(self, key: str, parameter: str) -> str:
        """Return the name of a state of a parameter, or of the one that all parameters share."""
        return f"optimizer.{key}" if self._keys[key] else f"optimizer.{key}.{parameter}"

    @property
    def _takes_rate(self) -> bool:
        """Whether the update takes the rate of learning as a tensor."""
        classes = type(self._optimizer).__mro__
        return any(each.__name__ in ("SGD", "Adam") and each.__module__.startswith("torch.optim.") for each in classes)

    def _rate(self, number: int) -> str:
        return "optimizer.lr" if len(self._optimizer.param_groups) == 1 else f"optimizer.lr.{number}"

    def _copy(self, tensors: Mapping[str, Any]) -> Any:
        """Return the optimizer with other tensors as its parameters, without state, and with operations on tensors only."""
        other: Any = copy(self._optimizer)
        other.state = defaultdict(dict)
        other.param_groups = []
        for group in self._optimizer.param_groups:
            names = [self._names[each] for each in group["params"] if each.requires_grad]
            names_of_options = group.keys() & {"foreach", "fused", "capturable", "differentiable"}
            options = {key: key == "differentiable" for key in names_of_options}
            other.param_groups.append({**group, **options, "params": [tensors[name] for name in names]})
        return other

    def _states(self, tensors: Mapping[str, Any]) -> dict[str, Tensors]:
        """Return the state of each parameter by the name of the state: as it is, or as the optimizer begins it."""
        torch: Any = import_module("torch")
        held = [(self._names.get(each), state) for each, state in self._optimizer.state.items() if not each.is_meta]
        known = {name: state for name, state in held if name is not None}
        fresh = {name: each.detach().clone() for name, each in tensors.items()}
        begun = self._copy(fresh)
        for each in fresh.values():
            each.grad = torch.zeros_like(each)
        for group in begun.param_groups:
            lists = len(inspect.signature(begun._init_group).parameters) - 1
            begun._init_group(group, *([] for _ in range(lists)))
            if group.get("momentum") and type(begun).__name__ == "SGD":
                _begin_momentum(begun, group, known)
        states: dict[str, Tensors] = {}
        for name, each in fresh.items():
            for key, value in (known.get(name) or begun.state[each]).items():
                if isinstance(value, torch.Tensor):
                    states.setdefault(key, {})[name] = value.detach()
        return states


def _begin_momentum(optimizer: Any, group: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Begin the momentum with zeros, which SGD makes of the first gradients. Raises UsageError MG0001 where that is not the same."""
    torch: Any = import_module("torch")
    if group.get("dampening") and not known:
        text = "SGD with dampening begins its momentum with the first gradients as they are"
        raise unusable(text, "take the first step in PyTorch, or leave dampening out")
    for each in group["params"]:
        optimizer.state[each]["momentum_buffer"] = torch.zeros_like(each)


def _is_shared(values: list[Any], count: int) -> bool:
    """Whether a state is one number for all parameters, such as the count of steps."""
    if len(values) != count or any(each.ndim for each in values):
        return False
    is_fake = any(type(each).__name__ == "FakeTensor" for each in values)
    return is_fake or all(bool(each == values[0]) for each in values)
