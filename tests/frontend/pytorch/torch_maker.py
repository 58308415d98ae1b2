"""Builder of random PyTorch modules. It keeps the tensors that a module already has, and appends calls. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.frontend.random_models import CannotBuild, Draws, Steps

Tensor = torch.Tensor
MOST_ELEMENTS = 4096  # elements of a value (chosen: models stay fast to evaluate)
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32)
# types of 16 bits and their relative rounding errors
NARROW = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}  # types of 16 bits, and their roundings
PACKAGE_ERRORS = (
    RuntimeError,
    IndexError,
    ValueError,
    TypeError,
    NotImplementedError,
)  # torch raises these for invalid arguments


class Call(NamedTuple):
    """A call of a function, or of a layer given by its name. Operands and results are indices of values."""

    function: Callable[..., Any]
    layer: str
    operands: tuple[int, ...]
    results: tuple[int, ...]


class Ref(NamedTuple):
    """A leaf in the structure of a module's results that stands for a value."""

    number: int


class RandomBuilder(Draws):
    """A module under construction, with the tensor that torch computed for each value. A value is identified by its
    index.

    Attributes:
        start: the inputs, parameters and buffers by index, as they were before the first step.
        names: the indices of parameters and buffers by name. A tied parameter has two names.
        exact: the values without rounding errors.
        rounding: for each value, the largest 16-bit rounding error among the values that it depends on.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        torch.manual_seed(seed)
        self.values: list[Tensor] = []
        self.start: dict[int, Tensor] = {}
        self.inputs: list[int] = []
        self.names: dict[str, int] = {}
        self.layers: dict[str, torch.nn.Module] = {}
        self.calls: list[Call] = []
        self.exact: set[int] = set()
        self.used: set[int] = set()
        self.rounding: dict[int, float] = {}
        self.constants: set[int] = set()
        self.results: Any = None

    def at(self, index: int) -> Tensor:
        return self.values[index]

    def input(self, tensor: Tensor) -> int:
        """Add an argument to the module and return its index."""
        self.inputs.append(self._begin(tensor))
        return self.inputs[-1]

    def parameter(self, tensor: Tensor) -> int:
        return self._named("p", torch.nn.Parameter(tensor))

    def buffer(self, tensor: Tensor) -> int:
        return self._named("b", tensor)

    def weight(self, *shape: int, like: int | None = None) -> int:
        """Add an argument, parameter, buffer or constant of this shape, with the type of the value `like`."""
        tensor = torch.from_numpy(self.numbers(*shape)).to(torch.float32 if like is None else self.at(like).dtype)
        return self.one_of((self.input, self.parameter, self.parameter, self.buffer, self.constant))(tensor)

    def rows(self, high: int, *shape: int, low: int = 0) -> int:
        """Add random integers from `low` to `high` - 1."""
        tensor = torch.from_numpy(np.asarray(self.rng.integers(low, high, shape)))
        return self.one_of((self.input, self.input, self.constant, self.buffer))(tensor)

    def distinct(self, *shape: int) -> int:
        """Add an argument whose elements are distinct."""
        size = int(np.prod(shape))
        return self.input(
            torch.from_numpy((self.rng.permutation(size) - size // 2).astype(np.float32) / 4).reshape(shape)
        )

    def constant(self, tensor: Tensor) -> int:
        index = self.add(lambda: tensor, keeps=True)
        self.constants.add(index)
        return index

    def pick(
        self, fits: Callable[[Tensor], bool] = lambda tensor: True, *, kinds: Any = FLOATS, exact: bool = False
    ) -> int:
        """Return the index of a random value for which `fits` holds and whose type is in `kinds`. Recent values are
        more likely.
        """
        state_indices = {*self.names.values()}
        indices = [
            n
            for n, tensor in enumerate(self.values)
            if tensor.dtype in kinds and n not in state_indices and fits(tensor)
        ]
        indices = [n for n in indices if not exact or n in self.exact]
        if not indices:
            raise CannotBuild
        return self.one_of(indices[-6:] if self.integer(0, 3) else indices)

    def of_rank(self, rank: int, most: int = 6, *, kinds: Any = FLOATS, exact: bool = False) -> int:
        """Return the index of a random value whose rank is between `rank` and `most`."""
        return self.pick(lambda tensor: rank <= tensor.ndim <= most and tensor.numel() > 0, kinds=kinds, exact=exact)

    def axis(self, x: int) -> int:
        """Return a random dim of value `x`, sometimes as a negative number that counts from the end."""
        return self.integer(-self.at(x).ndim, self.at(x).ndim - 1)

    def add(self, function: Callable[..., Any], *operands: int, keeps: bool = False) -> Any:
        """Append a call and compute its results. `keeps` says whether the results are exact if the operands are."""
        return self._add(function, "", operands, keeps)

    def layer(self, layer: torch.nn.Module, *operands: int) -> Any:
        """Append a call of a layer, which may update its buffers."""
        name = f"{type(layer).__name__.lower()}{len(self.layers)}"
        start = deepcopy(layer)
        results = self._add(layer, name, operands, False)
        self.layers[name] = start
        return results

    def change(self, function: Callable[..., Any], x: int, *operands: int) -> None:
        """Append a call that changes value `x` in place, and with it all values that share its memory. Exact values
        stay exact.
        """
        memory = self.at(x).untyped_storage()._cdata
        sharing = [n for n, tensor in enumerate(self.values) if tensor.untyped_storage()._cdata == memory]
        if set(sharing) & (self.constants | {n for name, n in self.names.items() if name[0] == "p"}):
            raise CannotBuild
        self.add(function, x, *operands, keeps=True)
        if not all(n in self.exact for n in (x, *operands)) or self.at(x).abs().max() >= 64:
            self.exact.difference_update(sharing)
        widest = max((self.rounding.get(n, 0.0) for n in (x, *operands)), default=0.0)
        self.rounding |= {n: max(widest, self.rounding.get(n, 0.0)) for n in sharing}

    def program(self) -> Program:
        """Return the module, with its tensors as they were before the first step."""
        return Program(self)

    def arguments(self) -> tuple[Tensor, ...]:
        return tuple(self.start[n].clone() for n in self.inputs)

    def finish(self) -> None:
        """Choose the structure of the results: all values without a user, sometimes one more value, and leaves that are
        not tensors.
        """
        outs = [n for n in range(len(self.values)) if n not in self.used and n not in self.start] or [
            len(self.values) - 1
        ]
        if self.integer(0, 3) == 0:
            outs.append(self.integer(0, len(self.values) - 1))
        refs = [Ref(n) for n in outs]
        nested = {"first": refs[0], "rest": (refs[1:], None), "count": 3, "rate": 0.5, "kind": "random", "yes": True}
        self.results = self.one_of((refs[0] if len(refs) == 1 else (*refs,), refs, (*refs, None, 2), nested))

    def _begin(self, tensor: Tensor) -> int:
        self.values.append(tensor.detach())
        index = len(self.values) - 1
        self.start[index] = deepcopy(tensor)
        if not tensor.is_floating_point() or bool((tensor * 4 == (tensor * 4).round()).all()):
            self.exact.add(index)
        return index

    def _named(self, kind: str, tensor: Tensor) -> int:
        index = self._begin(tensor)
        self.names[f"{kind}{index}"] = index
        return index

    def _add(self, function: Callable[..., Any], layer: str, operands: tuple[int, ...], keeps: bool) -> Any:
        try:
            with torch.no_grad():
                output = function(*(self.values[n] for n in operands))
        except PACKAGE_ERRORS as error:
            raise CannotBuild from error
        results = [*output] if isinstance(output, tuple | list) else [output]
        if not all(map(_is_usable, results)):
            raise CannotBuild
        first = len(self.values)
        indices = tuple(range(first, first + len(results)))
        widest = max((self.rounding.get(n, 0.0) for n in operands), default=0.0)
        for index, tensor in zip(indices, results, strict=True):
            self.values.append(tensor)
            is_whole = not (tensor.is_floating_point() or tensor.is_complex())
            if is_whole or (keeps and all(n in self.exact for n in operands) and bool((tensor.abs() < 64).all())):
                self.exact.add(index)
            self.rounding[index] = 0.0 if is_whole else max(widest, NARROW.get(tensor.dtype, 0.0))
        self.used.update(operands)
        self.calls.append(Call(function, layer, operands, indices))
        return indices[0] if len(indices) == 1 else list(indices)


def _is_usable(tensor: Tensor) -> bool:
    if tensor.numel() > MOST_ELEMENTS:
        return False
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return is_whole or bool((tensor.abs() < 1e4).all())


class Program(torch.nn.Module):
    """The PyTorch module that a `RandomBuilder` has built."""

    def __init__(self, builder: RandomBuilder) -> None:
        super().__init__()
        self.calls, self.inputs, self.names, self.results = (
            builder.calls,
            builder.inputs,
            builder.names,
            builder.results,
        )
        tensors, layers = deepcopy((builder.start, builder.layers))
        for name, index in self.names.items():
            if isinstance(tensors[index], torch.nn.Parameter):
                self.register_parameter(name, tensors[index])
            else:
                self.register_buffer(name, tensors[index])
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *args: Tensor) -> Any:
        values = dict(zip(self.inputs, args, strict=True))
        values |= {index: getattr(self, name) for name, index in self.names.items()}
        for call in self.calls:
            function = getattr(self, call.layer) if call.layer else call.function
            output = function(*(values[n] for n in call.operands))
            values.update(zip(call.results, output if isinstance(output, tuple | list) else (output,), strict=True))
        return filled(self.results, values)


def filled(results: Any, values: dict[int, Any]) -> Any:
    """Return the structure `results` with each `Ref` replaced by its value in `values`."""
    if isinstance(results, Ref):
        return values[results.number]
    if isinstance(results, dict):
        return {key: filled(item, values) for key, item in results.items()}
    return type(results)(filled(item, values) for item in results) if isinstance(results, tuple | list) else results


STEPS = Steps[RandomBuilder]()
step = STEPS.step
