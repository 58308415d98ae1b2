"""PyTorch programs that test names of inputs, structures of results, and gradients.

`python -m tests.frontend.pytorch.forms` writes their `.pt2` files, and the results that torch computes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.torch.export import decompose_unsupported
from tests.frontend.pytorch.archives import DATA_FOLDER, save


def tied() -> tuple[Any, tuple[Any, ...]]:
    """Return a model whose head and embedding are one tensor, with a buffer named like an argument. Its results include
    numbers and texts.
    """
    import torch
    from torch import nn

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16, bias=False)
            self.head.weight = self.embed.weight
            self.register_buffer("scale", torch.full((8,), 10.0))

        def forward(self, ids: Any, scale: Any) -> Any:
            x = self.embed(ids) * self.scale + scale
            return {
                "logits": self.head(x),
                "rate": 0.5,
                "count": (ids.shape[0], True),
                "kind": "tied\n",
                "none": None,
                "limit": float("inf"),
            }

    torch.manual_seed(0)
    return Tied().eval(), (torch.randint(0, 16, (6,)), torch.full((8,), 2.0))


def gradients() -> tuple[Any, tuple[Any, ...]]:
    """Return a program that make_fx recorded: the gradients of a loss with a convolution of an image (which needs no
    gradient), a matrix inverse, and constant factors.
    """
    import torch
    import torch.nn.functional as F
    from torch.fx.experimental.proxy_tensor import make_fx

    def loss(params: Any, x: Any) -> Any:
        y = F.conv2d(x, params["stem.W"], params["stem.B"], stride=2).relu().mean((2, 3))
        return (y @ torch.linalg.inv(params["mix.W"]) * torch.tensor([1.0, 2.0, 3.0])).square().mean()

    torch.manual_seed(0)
    params = {
        "stem.W": torch.randn(3, 2, 2, 2),
        "stem.B": torch.randn(3),
        "mix.W": torch.randn(3, 3) + 3 * torch.eye(3),
    }
    args = params, torch.randn(4, 2, 6, 6)
    return make_fx(torch.func.grad(loss))(*args), args


def write(name: str) -> None:
    """Write the archive of a program, and the arguments and results of a call."""
    import torch

    model, args = {"tied": tied, "gradients": gradients}[name]()
    save(decompose_unsupported(torch.export.export(model, args)), f"{name}.pt2")
    inputs, results = (torch.utils._pytree.tree_leaves(tree) for tree in (args, model(*args)))
    arrays = {f"arg{i}": tensor.numpy() for i, tensor in enumerate(inputs)}
    arrays |= {
        f"result{i}": tensor.detach().numpy()
        for i, tensor in enumerate(tensor for tensor in results if isinstance(tensor, torch.Tensor))
    }
    np.savez_compressed(DATA_FOLDER / f"{name}.npz", **arrays)


if __name__ == "__main__":
    write("tied")
    write("gradients")
