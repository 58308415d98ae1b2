"""Families of benchmark programs.

Each family is a Python module. Its table `PROGRAMS` maps names to functions of `small`. The catalog also lists the
packages that each family needs besides JAX or PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Family:
    """A family of programs, with the packages that it needs besides its framework. The names of training steps end in
    `-train`.
    """

    needs: tuple[str, ...]
    programs: tuple[str, ...]
    framework: str = "jax"

    @property
    def missing(self) -> list[str]:
        """Return the packages that are not installed."""
        return [name for name in (self.framework, *self.needs) if find_spec(name) is None]


FAMILIES: Mapping[str, Family] = {
    "decoders": Family(
        ("flax", "optax", "transformers"),
        (
            "gpt2",
            "gpt2-decode",
            "gpt2-train",
            "llama",
            "llama-decode",
            "llama-fsdp-train",
            "llama-fsdp-tp-train",
            "mistral",
            "gemma",
        ),
    ),
    "encoders": Family(
        ("flax", "optax", "transformers"),
        ("bert", "bert-train", "t5", "t5-train", "whisper", "vit", "vit-train", "clip"),
    ),
    "convolutional": Family(("flax", "optax", "transformers"), ("resnet", "resnet-train", "unet", "unet-train")),
    "experts": Family((), ("mixtral", "mixtral-train")),
    "scanned": Family(("flax", "optax"), ("scan-train", "scan-fsdp")),
    "recurrent": Family(("haiku", "optax"), ("lstm-train",)),
    "state_space": Family((), ("mamba", "mamba-train")),
    "graphs": Family(("jraph", "optax"), ("graph-network", "graph-network-train", "graph-attention")),
    "recommender": Family((), ("dlrm", "dlrm-train")),
    "modules": Family(("equinox", "flax", "optax"), ("equinox-train", "nnx-train")),
    "mixing": Family((), ("fnet", "fnet-train", "ten-heads")),
    "particles": Family((), ("n-body", "heat", "heat-cg")),
    "manual": Family(("optax",), ("microbatch-train", "tied-train")),
    "periodic": Family(("flax",), ("periodic", "periodic-train")),
    "spectral": Family(
        ("equinox", "exponax", "matplotlib"), ("spectral-flame", "spectral-burgers", "spectral-vorticity")
    ),
    "fluids": Family(("jax_cfd",), ("cfd", "cfd-spectral")),
    "torch_models": Family(
        ("transformers",),
        (
            "torch-gpt2",
            "torch-llama",
            "torch-mixtral",
            "torch-bert",
            "torch-t5",
            "torch-vit",
            "torch-resnet",
            "torch-mamba",
            "torch-mamba-scan",
            "torch-unet",
        ),
        "torch",
    ),
}
FAMILY_OF = {name: family for family, entry in FAMILIES.items() for name in entry.programs}


def program(name: str, small: bool) -> Any:
    """Return the program called `name`. The packages of its family must be installed."""
    make: Mapping[str, Callable[[bool], Any]] = import_module(f"bench.models.{FAMILY_OF[name]}").PROGRAMS
    return make[name](small)
