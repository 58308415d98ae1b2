"""The benchmark programs in PyTorch, on one device. Each function creates the operands and returns a step. Call
`no_device.load` before you import this module.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[], object]
_BF16 = torch.bfloat16
_tensor = partial(torch.empty, device="cuda")
_linear = partial(nn.Linear, bias=False, device="cuda")


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention of q[b, h, t, d] with k and v[b, h / g, t, d].

    The op is the one that `F.scaled_dot_product_attention` selects on CUDA: flash attention for half precision (on an
    H100 possibly cuDNN's, also one call), and memory-efficient attention for single precision. It is called directly,
    because a build of PyTorch without CUDA would select plain matmuls.
    """
    ops = torch.ops.aten
    if q.dtype == torch.float32:
        return ops._scaled_dot_product_efficient_attention(q, k, v, None, torch.is_grad_enabled(), 0.0, True)[0]
    return ops._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]


class GptBlock(nn.Module):
    """The transformer block of case `block_dp_tp`: layer norms, attention without biases, and an MLP with biases and
    tanh GELU.
    """

    def __init__(self, width: int, heads: int, hidden: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = (nn.LayerNorm(width, device="cuda", dtype=dtype) for _ in range(2))
        self.q, self.k, self.v, self.o = (_linear(width, width, dtype=dtype) for _ in range(4))
        self.up = _linear(width, hidden, bias=True, dtype=dtype)
        self.down = _linear(hidden, width, bias=True, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(x)
        q, k, v = (p(y).view(*x.shape[:2], self.heads, -1).transpose(1, 2) for p in (self.q, self.k, self.v))
        x = x + self.o(attention(q, k, v).transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class LlamaBlock(nn.Module):
    """The transformer block of cases `llama_*`: RMS norms, rotary embedding, grouped-query attention, SwiGLU. It
    computes in bf16, whatever the dtype of the parameters.
    """

    def __init__(self, width: int, heads: int, groups: int, hidden: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.size = width // heads
        self.norm1, self.norm2 = (nn.Parameter(_tensor(width, dtype=dtype)) for _ in range(2))
        self.q, self.o = (_linear(width, width, dtype=dtype) for _ in range(2))
        self.k, self.v = (_linear(width, groups * self.size, dtype=dtype) for _ in range(2))
        self.gate, self.up = (_linear(width, hidden, dtype=dtype) for _ in range(2))
        self.down = _linear(hidden, width, dtype=dtype)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = rms_norm(x, self.norm1)
        q, k, v = (product(y, p).view(*x.shape[:2], -1, self.size) for p in (self.q, self.k, self.v))
        q, k, v = (a.transpose(1, 2) for a in (rotated(q, cos, sin), rotated(k, cos, sin), v))
        x = x + product(attention(q, k, v).transpose(1, 2).reshape(x.shape), self.o)
        y = rms_norm(x, self.norm2)
        return x + product(F.silu(product(y, self.gate)) * product(y, self.up), self.down)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(_BF16) * weight.to(_BF16)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply rotary embeddings to x[b, t, h, d], with cos, sin[t, 1, d / 2]."""
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def product(x: Tensor, layer: nn.Linear) -> Tensor:
    return F.linear(x, layer.weight.to(_BF16))


def forward(model: nn.Module, *operands: Tensor) -> Step:
    return lambda: _without_gradients(torch.compile(model), *operands)


@torch.no_grad()
def _without_gradients(function: Callable[..., Any], *operands: Tensor) -> object:
    return function(*operands)


def training(model: nn.Module, optimizer: torch.optim.Optimizer, target: Tensor, *operands: Tensor) -> Step:
    """Return a training step as users write it. Inductor compiles it into three modules: the loss forward, the loss
    backward, and the optimizer's step.
    """
    made_state(model, optimizer)
    loss = torch.compile(lambda *x: mean_square(model(*x), target))
    update = torch.compile(optimizer.step)

    def step() -> None:
        loss(*operands).backward()
        update()
        optimizer.zero_grad()

    return step


def mean_square(x: Tensor, target: Tensor) -> Tensor:
    return (x - target).float().square().mean()


def made_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Run one uncompiled step of `optimizer`, so that its state exists."""
    for parameter in model.parameters():
        parameter.grad = torch.empty_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


def in_one_module(
    model: nn.Module, update: Callable[..., None], copies: int, target: Tensor, *operands: Tensor
) -> Step:
    """Return the training step as one function, so that Inductor can fuse all of it.

    It computes gradients with `torch.func` and then calls `update(parameters, gradients, *states)`.
    """
    parameters = dict(model.named_parameters())
    states = [[torch.empty_like(p) for p in parameters.values()] for _ in range(copies)]

    def loss(values: dict[str, Tensor]) -> Tensor:
        return mean_square(torch.func.functional_call(model, values, operands), target)

    def step() -> Tensor:
        gradients, value = torch.func.grad_and_value(loss)(parameters)
        update(list(parameters.values()), list(gradients.values()), *states)
        return value

    return lambda: _without_gradients(torch.compile(step))


def sgd(parameters: list[Tensor], gradients: list[Tensor]) -> None:
    torch._foreach_add_(parameters, gradients, alpha=-0.01)


def adamw(parameters: list[Tensor], gradients: list[Tensor], means: list[Tensor], squares: list[Tensor]) -> None:
    """Update parameters and states in place by AdamW without bias correction, as the cases do."""
    torch._foreach_lerp_(means, gradients, 0.1)
    torch._foreach_mul_(squares, 0.95)
    torch._foreach_addcmul_(squares, gradients, gradients, 0.05)
    roots = torch._foreach_add(torch._foreach_sqrt(squares), 1e-8)
    torch._foreach_mul_(parameters, 1 - 1e-5)
    torch._foreach_addcdiv_(parameters, means, roots, -1e-4)


def torch_adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, capturable=True)


def gpt_operands(dtype: torch.dtype) -> tuple[GptBlock, Tensor]:
    return GptBlock(1024, 16, 4096, dtype), _tensor(8, 256, 1024, dtype=dtype)


def llama_operands(dtype: torch.dtype) -> tuple[LlamaBlock, Tensor, Tensor, Tensor]:
    cos, sin = (_tensor(4096, 1, 64, dtype=_BF16) for _ in range(2))
    return LlamaBlock(4096, 32, 8, 14336, dtype), _tensor(1, 4096, 4096, dtype=_BF16), cos, sin


def gpt_training() -> Step:
    block, x = gpt_operands(torch.float32)
    return training(block, torch.optim.SGD(block.parameters(), lr=0.01), torch.empty_like(x), x)


def gpt_training_in_one_module() -> Step:
    block, x = gpt_operands(torch.float32)
    return in_one_module(block, sgd, 0, torch.empty_like(x), x)


def llama_training() -> Step:
    block, x, *tables = llama_operands(torch.float32)
    return training(block, torch_adamw(block.parameters()), torch.empty_like(x), x, *tables)


def llama_training_in_one_module() -> Step:
    block, x, *tables = llama_operands(torch.float32)
    return in_one_module(block, adamw, 2, torch.empty_like(x), x, *tables)


def adamw_many() -> Step:
    parameters = nn.ParameterList(_tensor(1024, 1024 + 64 * i) for i in range(8))
    optimizer = torch_adamw(parameters)
    made_state(parameters, optimizer)
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    return torch.compile(optimizer.step)


def adamw_many_by_hand() -> Step:
    four = [[_tensor(1024, 1024 + 64 * i) for i in range(8)] for _ in range(4)]
    return lambda: torch.compile(adamw)(*four)


def product_gelu_residual() -> Step:
    x, residual = (_tensor(8192, 4096, dtype=_BF16) for _ in range(2))
    w, bias = _tensor(4096, 4096, dtype=_BF16), _tensor(4096, dtype=_BF16)
    return lambda: torch.compile(lambda: F.gelu(x @ w + bias, approximate="tanh") + residual)()


def cross_entropy(vocabulary: int) -> tuple[Callable[[], Tensor], Tensor, Tensor]:
    """Return the loss of a language model's head with cross entropy, and the operands that need gradients."""
    x, w = (_tensor(shape, dtype=_BF16, requires_grad=True) for shape in ((4096, 4096), (4096, vocabulary)))
    labels = _tensor(4096, dtype=torch.int64)
    return torch.compile(lambda: F.cross_entropy((x @ w).float(), labels)), x, w


def cross_entropy_forward() -> Step:
    loss, *_ = cross_entropy(128256)
    return lambda: _without_gradients(loss)


def cross_entropy_training() -> Step:
    loss, *_ = cross_entropy(32768)
    return lambda: loss().backward()


STEPS: dict[str, Callable[[], Step]] = {
    "block_dp_tp_bf16": lambda: forward(*gpt_operands(_BF16)),
    "block_train_dp_tp": gpt_training,
    "block_train_dp_tp, one module": gpt_training_in_one_module,
    "llama_fwd_bf16": lambda: forward(*llama_operands(_BF16)),
    "llama_train_adamw_bf16": llama_training,
    "llama_train_adamw_bf16, one module": llama_training_in_one_module,
    "adamw_many": adamw_many,
    "adamw_many, without corrections": adamw_many_by_hand,
    "mm_gelu_res": product_gelu_residual,
    "xent_vocab": cross_entropy_forward,
    "xent_vocab_train": cross_entropy_training,
}
"""Steps by the name of the equivalent case. The text after a comma describes the PyTorch variant."""
