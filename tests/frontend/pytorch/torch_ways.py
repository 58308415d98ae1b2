"""The ways to import a random PyTorch module. Each returns a program and the results that torch computes for it. Needs
torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

import meshgen as mg
from tests.frontend.pytorch.torch_maker import Program, RandomBuilder
from tests.frontend.random_models import CannotBuild

OPTIMIZERS = (
    lambda parameters: torch.optim.SGD(parameters, lr=0.125, momentum=0.5),
    lambda parameters: torch.optim.Adam(parameters, lr=0.125, eps=0.1),
    lambda parameters: torch.optim.AdamW(parameters, lr=0.125, eps=0.1),
)


class ImportCase(NamedTuple):
    """A program, its compile-time arguments, the arguments of a call, and the result that torch computes for this call.

    Attributes:
        state: tensors by name, as they are after the call.
        changed: names of the tensors in `state` that the call changes. Empty if the program does not know these names.
    """

    program: Any
    args: Any
    call: tuple[Any, ...]
    expected: Any
    state: dict[str, Any] = {}
    changed: frozenset[str] = frozenset()


def as_module(builder: RandomBuilder, folder: Path) -> ImportCase:
    return _import_case(builder, builder.program(), builder.arguments())


def exported(builder: RandomBuilder, folder: Path) -> ImportCase:
    return _import_case(builder, _exported(builder), None)


def decomposed(builder: RandomBuilder, folder: Path) -> ImportCase:
    return _import_case(builder, _by_torch(lambda: _exported(builder).run_decompositions()), None)


def archived(builder: RandomBuilder, folder: Path) -> ImportCase:
    if "vmapped" in builder.kinds:
        raise CannotBuild("the marks of torch.vmap need torch to be written out, as docs/torch.md says")
    path = folder / "program.pt2"
    program = _exported(builder)
    _by_torch(lambda: torch.export.save(program, path))
    return _import_case(builder, path, None)


def recorded(builder: RandomBuilder, folder: Path) -> ImportCase:
    """Return a test case whose program is a call of the module that `make_fx` recorded."""
    program, args = builder.program(), builder.arguments()
    traced = _recorded(program, *args)
    with torch.no_grad():  # the recorded call already changed the tensors that the recording refers to
        for tensor, start in zip(_tensors(program), _tensors(builder.program()), strict=True):
            tensor.copy_(start)
    import_case = _import_case(builder, traced, args)
    state = {f"arg{n}_1": import_case.state[f"args_{n}"] for n in range(len(args))}
    return import_case._replace(state=state, changed=frozenset())


def gradients(builder: RandomBuilder, folder: Path) -> ImportCase:
    """Return a test case whose program `make_fx` recorded. It returns the loss and its gradients with respect to
    parameters and arguments.
    """
    program, args = builder.program(), builder.arguments()
    tensors = {name: tensor.detach() for name, tensor in program.named_parameters()}
    tensors |= {f"x{n}": tensor for n, tensor in enumerate(args) if tensor.is_floating_point()}
    constants = {f"x{n}": tensor for n, tensor in enumerate(args) if f"x{n}" not in tensors}
    buffers = dict(program.named_buffers())

    def loss_of(tensors: Any, constants: Any) -> Any:
        both = {name: tensor.clone() for name, tensor in {**tensors, **constants, **buffers}.items()}
        call = tuple(both.pop(f"x{n}") for n in range(len(args)))
        return loss(lambda *xs: torch.func.functional_call(program, both, xs), *call)

    function = torch.func.grad_and_value(loss_of)
    expected = _by_torch(lambda: function(tensors, constants))
    _refuse_poles(expected)
    return ImportCase(_recorded(function, tensors, constants), (tensors, constants), (tensors, constants), expected)


def trained(builder: RandomBuilder, folder: Path) -> ImportCase:
    """Return a test case whose program is a training step of the module."""
    program, args, begin = builder.program().train(), builder.arguments(), builder.one_of(OPTIMIZERS)
    if not [*program.parameters()]:
        return gradients(builder, folder)
    reference = deepcopy(program)
    optimizer = begin(reference.parameters())
    value = _by_torch(lambda: loss(reference, *builder.arguments()))
    _by_torch(value.backward)
    _refuse_poles([parameter.grad for parameter in reference.parameters()])
    optimizer.step()
    step = mg.training_step(program, loss, begin(program.parameters()))
    return ImportCase(step, args, args, value.detach(), reference.state_dict())


IMPORT_METHODS: dict[str, Callable[[RandomBuilder, Path], ImportCase]] = {
    method.__name__: method for method in (as_module, exported, decomposed, archived, recorded, gradients, trained)
}


def loss(model: Any, *args: Any) -> Any:
    """Return the mean square of all real and complex numbers in the results. Raises CannotBuild if there are none."""
    results = [
        result for result in pytree.tree_leaves(model(*args)) if isinstance(result, torch.Tensor) and result.numel()
    ]
    real = [torch.view_as_real(result.resolve_conj()) if result.is_complex() else result for result in results]
    parts = [result.float().square().mean() for result in real if result.is_floating_point()]
    if not parts:
        raise CannotBuild("no result has a gradient")
    return torch.stack(parts).sum()


def _import_case(builder: RandomBuilder, program: Any, args: Any) -> ImportCase:
    """Return a test case for `program`, with the results that torch computes and the tensors that the call changes."""
    model, args_of_call = builder.program(), builder.arguments()
    with torch.no_grad():
        result = model(*args_of_call)
    after = dict(model.named_buffers()) | {f"args_{n}": tensor for n, tensor in enumerate(args_of_call)}
    before = dict(builder.program().named_buffers()) | {
        f"args_{n}": tensor for n, tensor in enumerate(builder.arguments())
    }
    changed = frozenset(name for name, tensor in after.items() if not torch.equal(tensor, before[name]))
    return ImportCase(program, args, builder.arguments(), result, after, changed)


def results_of(output: Any, is_step: bool) -> tuple[Any, dict[str, Any]]:
    """Return the result of a compiled program's call, and the changed tensors by name."""
    if is_step:
        return output
    if isinstance(output, dict) and "result" in output:
        return output["result"], {**output.get("buffers", {}), **output.get("inputs", {})}
    return output, {}


def _exported(builder: RandomBuilder) -> Any:
    return _by_torch(lambda: torch.export.export(builder.program(), builder.arguments()))


def _recorded(function: Callable[..., Any], *args: Any) -> Any:
    with torch.backends.mkldnn.flags(enabled=False):  # docs/torch.md requires it for recurrent layers
        return _by_torch(lambda: make_fx(function)(*args))


def _tensors(program: Program) -> Sequence[Any]:
    return [*program.parameters(), *program.buffers()]


def _by_torch(function: Callable[[], Any]) -> Any:
    """Call `function`, which uses only torch. Raises CannotBuild if torch fails."""
    try:
        return function()
    except Exception as error:
        raise CannotBuild(f"by torch: {' '.join(str(error).split())[:200]}") from error


def _refuse_poles(tensors: Any) -> None:
    """Raise CannotBuild if one of `tensors` (gradients) is infinite or NaN."""
    if not all(bool(tensor.isfinite().all()) for tensor in pytree.tree_leaves(tensors) if tensor is not None):
        raise CannotBuild("a gradient is not finite")
