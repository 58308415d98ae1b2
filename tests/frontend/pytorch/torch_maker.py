"""Random PyTorch modules under construction: tensors that a module has already, and calls that are appended to it. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.frontend.random_models import CannotMake, Draws, Steps

Tensor = torch.Tensor
MOST_ELEMENTS = 4096
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
WHOLE = (torch.int64, torch.int32)
NARROW = {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}  # types of 16 bits, and their roundings
PACKAGE_ERRORS = (
    RuntimeError,
    IndexError,
    ValueError,
    TypeError,
    NotImplementedError,
)  # for arguments that torch refuses


class Call(NamedTuple):
    """A function of values, or a layer by its name, and the values that it gives."""

    function: Callable[..., Any]
    layer: str
    operands: tuple[int, ...]
    results: tuple[int, ...]


class Ref(NamedTuple):
    """A value among the results of a module."""

    number: int


class Maker(Draws):
    """A module under construction, with the tensor that torch has computed for the number of each value.

    Attributes:
        start: inputs, parameters and buffers by number, as they are before the first step.
        names: parameters and buffers, of which a tied one has two names.
        exact: values that no rounding has touched.
        rounding: the largest rounding to 16 bits among what a value depends on.
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

    def at(self, number: int) -> Tensor:
        return self.values[number]

    def input(self, tensor: Tensor) -> int:
        """A new argument of the module."""
        self.inputs.append(self._begin(tensor))
        return self.inputs[-1]

    def parameter(self, tensor: Tensor) -> int:
        return self._named("p", torch.nn.Parameter(tensor))

    def buffer(self, tensor: Tensor) -> int:
        return self._named("b", tensor)

    def weight(self, *shape: int, like: int | None = None) -> int:
        """An argument, parameter, buffer or constant of this shape, and of the type of another value."""
        tensor = torch.from_numpy(self.numbers(*shape)).to(torch.float32 if like is None else self.at(like).dtype)
        return self.one_of((self.input, self.parameter, self.parameter, self.buffer, self.constant))(tensor)

    def rows(self, high: int, *shape: int, low: int = 0) -> int:
        """Whole numbers from `low` to below `high`."""
        tensor = torch.from_numpy(np.asarray(self.rng.integers(low, high, shape)))
        return self.one_of((self.input, self.input, self.constant, self.buffer))(tensor)

    def distinct(self, *shape: int) -> int:
        """An argument without equal elements."""
        size = int(np.prod(shape))
        return self.input(
            torch.from_numpy((self.rng.permutation(size) - size // 2).astype(np.float32) / 4).reshape(shape)
        )

    def constant(self, tensor: Tensor) -> int:
        number = self.add(lambda: tensor, keeps=True)
        self.constants.add(number)
        return number

    def pick(
        self, fits: Callable[[Tensor], bool] = lambda each: True, *, kinds: Any = FLOATS, exact: bool = False
    ) -> int:
        """A value of one of these types that fits, often a late one."""
        held = {*self.names.values()}
        numbers = [n for n, each in enumerate(self.values) if each.dtype in kinds and n not in held and fits(each)]
        numbers = [n for n in numbers if not exact or n in self.exact]
        if not numbers:
            raise CannotMake
        return self.one_of(numbers[-6:] if self.integer(0, 3) else numbers)

    def of_rank(self, rank: int, most: int = 6, *, kinds: Any = FLOATS, exact: bool = False) -> int:
        """A value of this rank, or of a higher one up to `most`."""
        return self.pick(lambda each: rank <= each.ndim <= most and each.numel() > 0, kinds=kinds, exact=exact)

    def axis(self, x: int) -> int:
        """A dim of a value, from either end."""
        return self.integer(-self.at(x).ndim, self.at(x).ndim - 1)

    def add(self, function: Callable[..., Any], *operands: int, keeps: bool = False) -> Any:
        """Append a call and compute its results. `keeps`: results are exact if the operands are."""
        return self._add(function, "", operands, keeps)

    def layer(self, layer: torch.nn.Module, *operands: int) -> Any:
        """Append a call of a layer, whose buffers may change."""
        name = f"{type(layer).__name__.lower()}{len(self.layers)}"
        start = deepcopy(layer)
        found = self._add(layer, name, operands, False)
        self.layers[name] = start
        return found

    def change(self, function: Callable[..., Any], x: int, *operands: int) -> None:
        """Append a call that changes a value in place, and whatever has the same memory; exact values stay so."""
        memory = self.at(x).untyped_storage()._cdata
        sharing = [n for n, each in enumerate(self.values) if each.untyped_storage()._cdata == memory]
        if set(sharing) & (self.constants | {n for name, n in self.names.items() if name[0] == "p"}):
            raise CannotMake
        self.add(function, x, *operands, keeps=True)
        if not all(n in self.exact for n in (x, *operands)) or self.at(x).abs().max() >= 64:
            self.exact.difference_update(sharing)
        widest = max((self.rounding.get(n, 0.0) for n in (x, *operands)), default=0.0)
        self.rounding |= {n: max(widest, self.rounding.get(n, 0.0)) for n in sharing}

    def program(self) -> Program:
        """The module, with its tensors as they are before the first step."""
        return Program(self)

    def arguments(self) -> tuple[Tensor, ...]:
        return tuple(self.start[n].clone() for n in self.inputs)

    def finish(self) -> None:
        """Choose the structure of the results: all values that nothing reads, sometimes another one, and what is no tensor."""
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
        number = len(self.values) - 1
        self.start[number] = deepcopy(tensor)
        if not tensor.is_floating_point() or bool((tensor * 4 == (tensor * 4).round()).all()):
            self.exact.add(number)
        return number

    def _named(self, kind: str, tensor: Tensor) -> int:
        number = self._begin(tensor)
        self.names[f"{kind}{number}"] = number
        return number

    def _add(self, function: Callable[..., Any], layer: str, operands: tuple[int, ...], keeps: bool) -> Any:
        try:
            with torch.no_grad():
                found = function(*(self.values[n] for n in operands))
        except PACKAGE_ERRORS as error:
            raise CannotMake from error
        results = [*found] if isinstance(found, tuple | list) else [found]
        if not all(map(_is_usable, results)):
            raise CannotMake
        first = len(self.values)
        numbers = tuple(range(first, first + len(results)))
        widest = max((self.rounding.get(n, 0.0) for n in operands), default=0.0)
        for number, each in zip(numbers, results, strict=True):
            self.values.append(each)
            is_whole = not (each.is_floating_point() or each.is_complex())
            if is_whole or (keeps and all(n in self.exact for n in operands) and bool((each.abs() < 64).all())):
                self.exact.add(number)
            self.rounding[number] = 0.0 if is_whole else max(widest, NARROW.get(each.dtype, 0.0))
        self.used.update(operands)
        self.calls.append(Call(function, layer, operands, numbers))
        return numbers[0] if len(numbers) == 1 else list(numbers)


def _is_usable(tensor: Tensor) -> bool:
    if tensor.numel() > MOST_ELEMENTS:
        return False
    is_whole = not (tensor.is_floating_point() or tensor.is_complex())
    return is_whole or bool((tensor.abs() < 1e4).all())


class Program(torch.nn.Module):
    """The module that a maker has made."""

    def __init__(self, maker: Maker) -> None:
        super().__init__()
        self.calls, self.inputs, self.names, self.results = maker.calls, maker.inputs, maker.names, maker.results
        tensors, layers = deepcopy((maker.start, maker.layers))
        for name, number in self.names.items():
            if isinstance(tensors[number], torch.nn.Parameter):
                self.register_parameter(name, tensors[number])
            else:
                self.register_buffer(name, tensors[number])
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, *args: Tensor) -> Any:
        values = dict(zip(self.inputs, args, strict=True))
        values |= {number: getattr(self, name) for name, number in self.names.items()}
        for call in self.calls:
            function = getattr(self, call.layer) if call.layer else call.function
            found = function(*(values[n] for n in call.operands))
            values.update(zip(call.results, found if isinstance(found, tuple | list) else (found,), strict=True))
        return filled(self.results, values)


def filled(results: Any, values: dict[int, Any]) -> Any:
    """A structure with values in place of references to them."""
    if isinstance(results, Ref):
        return values[results.number]
    if isinstance(results, dict):
        return {key: filled(each, values) for key, each in results.items()}
    return type(results)(filled(each, values) for each in results) if isinstance(results, tuple | list) else results


STEPS = Steps[Maker]()
step = STEPS.step
