"""Small models and their `.pt2` files.

`python -m tests.frontend.pytorch.archives` writes the files, and beside them the results that torch computes. So the
tests need no torch. `--new` writes `counter_new.pt2` with a newer torch, and `--open` writes programs with open sizes.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

DATA_FOLDER = Path(__file__).parents[2] / "data" / "torch"


def counter() -> tuple[Any, tuple[Any, ...]]:
    """Return a model with parameters, buffers (persistent and others) that it updates, a constant, and a dict as its
    result.
    """
    import torch
    from torch import nn

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.bn = nn.Linear(8, 16), nn.BatchNorm1d(16)
            self.register_buffer("mask", torch.arange(16.0) / 16, persistent=False)
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

        def forward(self, x: Any, scale: float = 2.0, *, shift: Any = None) -> Any:
            self.steps.add_(1)
            y = torch.relu_(self.bn(self.lin(x))) * self.mask * torch.tensor(3.0) + shift
            return {"y": y * scale, "sums": (y.sum(), y.mean(0))}

    torch.manual_seed(0)
    return Counter().train(), (torch.randn(4, 8), 2.0, torch.randn(16))


def decoder() -> tuple[Any, tuple[Any, ...]]:
    """Return a decoder like Llama's: RMS norms, rotary embeddings, grouped heads, a gated MLP."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wq, self.wk, self.wv, self.wo = nn.Linear(16, 16, False), nn.Linear(16, 8, False), nn.Linear(16, 8, False), nn.Linear(16, 16, False)  # fmt: skip

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            q, k, v = (w(x).unflatten(-1, (-1, 4)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
            q, k = (heads * cos + torch.cat((-heads[..., 2:], heads[..., :2]), -1) * sin for heads in (q, k))
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            return self.wo(out.transpose(1, 2).flatten(-2))

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn, self.norm1, self.norm2 = Attention(), nn.RMSNorm(16), nn.RMSNorm(16)
            self.w1, self.w2, self.w3 = nn.Linear(16, 24, False), nn.Linear(24, 16, False), nn.Linear(16, 24, False)

        def forward(self, x: Any, cos: Any, sin: Any) -> Any:
            x = x + self.attn(self.norm1(x), cos, sin)
            y = self.norm2(x)
            return x + self.w2(F.silu(self.w1(y)) * self.w3(y))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.norm, self.head = nn.Embedding(32, 16), nn.RMSNorm(16), nn.Linear(16, 32, False)
            self.layers = nn.ModuleList(Layer() for _ in range(2))
            self.register_buffer("rates", 1 / 100 ** (torch.arange(0, 4, 2) / 4), persistent=False)

        def forward(self, ids: Any) -> Any:
            angles = torch.arange(ids.shape[1], device=ids.device)[:, None] * self.rates
            cos, sin = (torch.cat((half, half), -1) for half in (angles.cos(), angles.sin()))
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x, cos, sin)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    return Decoder().eval(), (torch.randint(0, 32, (4, 6)),)


def block() -> tuple[Any, list[tuple[int, ...]], Any]:
    """Return a block like GPT-2's with embeddings, several shapes of its argument, and its open dims: batch and length."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wte, self.wpe, self.norm1, self.norm2 = nn.Embedding(32, 16), nn.Embedding(24, 16), nn.LayerNorm(16), nn.LayerNorm(16)  # fmt: skip
            self.c_attn, self.c_proj, self.c_fc, self.c_out = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 64), nn.Linear(64, 16)  # fmt: skip
            self.register_buffer("mask", torch.tril(torch.ones(24, 24, dtype=torch.bool)), persistent=False)

        def forward(self, ids: Any) -> Any:
            b, t = ids.shape
            x = self.wte(ids) + self.wpe(torch.arange(t))
            q, k, v = (
                projection.view(b, t, 4, 4).transpose(1, 2) for projection in self.c_attn(self.norm1(x)).split(16, 2)
            )
            scores = (q @ k.transpose(-1, -2) / 2).masked_fill(~self.mask[:t, :t], float("-inf"))
            x = x + self.c_proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, 16))
            x = x + self.c_out(F.gelu(self.c_fc(self.norm2(x)), approximate="tanh"))
            return x, x.reshape(b * t, 16).mean(0)

    torch.manual_seed(0)
    dims = {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=23)}
    return Block().eval(), [(4, 10), (2, 6), (8, 17)], dims


def conv() -> tuple[Any, list[tuple[int, ...]], Any]:
    """Return a convolutional net, several shapes of its argument, and its open dims: the batch, and a height that is a
    multiple of 4.
    """
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Conv(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2, self.norm = nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)  # fmt: skip
            self.head = nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            y = F.max_pool2d(F.relu(self.conv2(F.relu(self.norm(self.conv1(x))))), 2)
            return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1)), F.pad(y, (0, 0, 1, 0)).cumsum(2)

    torch.manual_seed(0)
    dims = {0: torch.export.Dim("batch", min=2), 2: 4 * torch.export.Dim("quarter", max=64)}
    return Conv().eval(), [(4, 3, 16, 8), (2, 3, 8, 8), (6, 3, 20, 8)], dims


def exported(name: str) -> tuple[Any, tuple[Any, ...], Any]:
    """Return the exported program of a model, its arguments, and the model."""
    import torch

    model, args = {"counter": counter, "decoder": decoder}[name]()
    positional, keywords = (args[:2], {"shift": args[2]}) if name == "counter" else (args, {})
    return torch.export.export(model, positional, keywords), args, model


def without_folders(content: bytes) -> bytes:
    """Make source paths in an archive's `content` relative to the repository or to the folder of installed packages."""
    packages = Path(np.__file__).parents[1], Path(sys.modules["torch"].__file__ or "").parents[1]
    for folder in packages:
        content = content.replace(f"{folder}/".encode(), b"site-packages/")
    return content.replace(f"{DATA_FOLDER.parents[2]}/".encode(), b"")


def save(program: Any, file: str) -> None:
    """Write the compressed archive of a program."""
    import torch

    torch.export.save(program, "_" + file)
    with zipfile.ZipFile("_" + file) as old, zipfile.ZipFile(DATA_FOLDER / file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:  # fmt: skip
        for member in old.namelist():
            new.writestr(zipfile.ZipInfo(member), without_folders(old.read(member)), zipfile.ZIP_DEFLATED)
    Path("_" + file).unlink()


def write(name: str, file: str) -> None:
    """Write the archive of a program, and beside it the arguments and the results of one call."""
    import torch

    program, args, model = exported(name)
    save(program, file)
    result = model(*args[:2], shift=args[2]) if name == "counter" else model(*args)
    arrays = {f"arg{i}": np.asarray(tensor) for i, tensor in enumerate(args)}
    arrays |= {
        f"result{i}": tensor.detach().numpy() for i, tensor in enumerate(torch.utils._pytree.tree_leaves(result))
    }
    arrays |= {
        f"state.{key}": tensor.numpy()
        for key, tensor in model.state_dict().items()
        if name == "counter" and "lin" not in key
    }
    if "_new" not in file:
        np.savez_compressed(DATA_FOLDER / f"{name}.npz", **arrays)


def write_open(name: str) -> None:
    """Write the archive of a program with open sizes, and the results that torch computes for arguments of several
    shapes.
    """
    import torch

    model, shapes, dims = {"block": block, "conv": conv}[name]()
    args = [torch.randint(0, 32, shape) if name == "block" else torch.randn(shape) for shape in shapes]
    save(torch.export.export(model, (args[0],), dynamic_shapes=(dims,)), f"{name}_open.pt2")
    results = {f"result{i}_{n}": tensor.detach().numpy() for i, arg in enumerate(args) for n, tensor in enumerate(model(arg))}  # fmt: skip
    np.savez_compressed(
        DATA_FOLDER / f"{name}_open.npz", **{f"arg{i}": arg.numpy() for i, arg in enumerate(args)}, **results
    )


if __name__ == "__main__":
    if "--open" in sys.argv:
        write_open("block")
        write_open("conv")
    elif "--new" in sys.argv:
        write("counter", "counter_new.pt2")
    else:
        write("counter", "counter.pt2")
        write("decoder", "decoder.pt2")
