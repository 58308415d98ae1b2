"""The ways in which a random PyTorch module is entered, each with the numbers of torch for it. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import meshgen as mg
from tests.frontend.pytorch.torch_maker import Maker, Program
from tests.frontend.random_models import CannotMake

OPTIMIZERS = (
    lambda parameters: torch.optim.SGD(parameters, lr=0.125, momentum=0.5),
    lambda parameters: torch.optim.Adam(parameters, lr=0.125, eps=0.1),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.125, eps=0.1),
)


class Entered(NamedTuple):
    """A program, the arguments that it is read for, those of a call, and what the call returns in torch.

    Attributes:
        state: tensors by name as they are after the call.
        changed: the names of those that the call has changed, where the program knows them by these names.
    """

    program: Any
    args: Any
    call: tuple[Any, ...]
    wanted: Any
    state: dict[str, Any] = {}
    changed: frozenset[str] = frozenset()


def as_module(maker: Maker, folder: Path) -> Entered:
    return _entered(maker, maker.program(), maker.arguments())


def exported(maker: Maker, folder: Path) -> Entered:
    return _entered(maker, _exported(maker), None)


def decomposed(maker: Maker, folder: Path) -> Entered:
    return _entered(maker, _by_torch(lambda: _exported(maker).run_decompositions()), None)


def archived(maker: Maker, folder: Path) -> Entered:
    if "vmapped" in maker.kinds:
        raise CannotMake("the marks of torch.vmap need torch to be written out, as docs/torch.md says")
    path = folder / "program.pt2"
    program = _exported(maker)
    _by_torch(lambda: torch.export.save(program, path))
    return _entered(maker, path, None)


def recorded(maker: Maker, folder: Path) -> Entered:
    """What `make_fx` records of a call."""
    program, args = maker.program(), maker.arguments()
    traced = _recorded(program, *args)
    with torch.no_grad():  # the call has changed the tensors that the record holds
        for each, start in zip(_tensors(program), _tensors(maker.program()), strict=True):
            each.copy_(start)
    entered = _entered(maker, traced, args)
    state = {f"arg{n}_1": entered.state[f"args_{n}"] for n in range(len(args))}
    return entered._replace(state=state, changed=frozenset())


def gradients(maker: Maker, folder: Path) -> Entered:
    """The loss and its gradients towards parameters and arguments, as `make_fx` records them."""
    program, args = maker.program(), maker.arguments()
    tensors = {name: each.detach() for name, each in program.named_parameters()}
    tensors |= {f"x{n}": each for n, each in enumerate(args) if each.is_floating_point()}
    others = {f"x{n}": each for n, each in enumerate(args) if f"x{n}" not in tensors}
    buffers = dict(program.named_buffers())

    def loss_of(tensors: Any, others: Any) -> Any:
        both = {name: each.clone() for name, each in {**tensors, **others, **buffers}.items()}
        call = tuple(both.pop(f"x{n}") for n in range(len(args)))
        return loss(lambda *xs: torch.func.functional_call(program, both, xs), *call)

    function = torch.func.grad_and_value(loss_of)
    wanted = _by_torch(lambda: function(tensors, others))
    _refuse_poles(wanted)
    return Entered(_recorded(function, tensors, others), (tensors, others), (tensors, others), wanted)


def trained(maker: Maker, folder: Path) -> Entered:
    """A training step."""
    program, args, begin = maker.program().train(), maker.arguments(), maker.one_of(OPTIMIZERS)
    if not [*program.parameters()]:
        return gradients(maker, folder)
    reference = deepcopy(program)
    optimizer = begin(reference.parameters())
    value = _by_torch(lambda: loss(reference, *maker.arguments()))
    _by_torch(value.backward)
    _refuse_poles([each.grad for each in reference.parameters()])
    optimizer.step()
    step = mg.training_step(program, loss, begin(program.parameters()))
    return Entered(step, args, args, value.detach(), reference.state_dict())


WAYS: dict[str, Callable[[Maker, Path], Entered]] = {
    each.__name__: each for each in (as_module, exported, decomposed, archived, recorded, gradients, trained)
}


def loss(model: Any, *args: Any) -> Any:
    """The mean squares of all results of numbers with a fraction. Raises CannotMake if there are none."""
    results = [each for each in pytree.tree_leaves(model(*args)) if isinstance(each, torch.Tensor) and each.numel()]
    real = [torch.view_as_real(each.resolve_conj()) if each.is_complex() else each for each in results]
    parts = [each.float().square().mean() for each in real if each.is_floating_point()]
    if not parts:
        raise CannotMake("no result has a gradient")
    return torch.stack(parts).sum()


def _entered(maker: Maker, program: Any, args: Any) -> Entered:
    """A program with the results of torch, and with the tensors that a call changes."""
    model, given = maker.program(), maker.arguments()
    with torch.no_grad():
        result = model(*given)
    after = dict(model.named_buffers()) | {f"args_{n}": each for n, each in enumerate(given)}
    before = dict(maker.program().named_buffers()) | {f"args_{n}": each for n, each in enumerate(maker.arguments())}
    changed = frozenset(name for name, each in after.items() if not torch.equal(each, before[name]))
    return Entered(program, args, maker.arguments(), result, after, changed)


def results_of(found: Any, is_step: bool) -> tuple[Any, dict[str, Any]]:
    """What a call of a compiled program returns, and the tensors that it changes by name."""
    if is_step:
        return found
    if isinstance(found, dict) and "result" in found:
        return found["result"], {**found.get("buffers", {}), **found.get("inputs", {})}
    return found, {}


def _exported(maker: Maker) -> Any:
    return _by_torch(lambda: torch.export.export(maker.program(), maker.arguments()))


def _recorded(function: Callable[..., Any], *args: Any) -> Any:
    with torch.backends.mkldnn.flags(enabled=False):  # as docs/torch.md says of recurrent layers
        return _by_torch(lambda: make_fx(function)(*args))


def _tensors(program: Program) -> Sequence[Any]:
    return [*program.parameters(), *program.buffers()]


def _by_torch(function: Callable[[], Any]) -> Any:
    """What torch makes of a module. Raises CannotMake for what torch refuses itself."""
    try:
        return function()
    except Exception as error:
        raise CannotMake(f"by torch: {' '.join(str(error).split())[:200]}") from error


def _refuse_poles(tensors: Any) -> None:
    """Raise CannotMake where a gradient is infinite, or NaN."""
    if not all(bool(each.isfinite().all()) for each in pytree.tree_leaves(tensors) if each is not None):
        raise CannotMake("a gradient is not finite")
