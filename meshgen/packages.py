"""The packages that meshgen uses, with their purpose and install command, as `pyproject.toml` declares them.

Commands name the packages themselves, because the distribution `meshgen-spmd` is not on a package index yet.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping

RUNTIME = ("numpy", "ml_dtypes")  # packages needed to run a module without the compiler

# requirement -> purpose
CORE = {
    "numpy>=2": "everything",
    "ml_dtypes>=0.5": "everything",
    "xdsl>=0.74,<0.75": "compiling",
    "triton>=3.6": "compiling for GPUs and run --device interpret",
    "jinja2>=3.1": "reports",
    "scipy>=1.14": "search, matrix factorizations, fast special functions",
}
# extra -> requirement -> purpose; an empty purpose marks a dependency of another package of the extra
EXTRAS: Mapping[str, Mapping[str, str]] = {
    "cuda12": {
        "cuda-bindings>=12.9,<13": "running on GPUs",
        "nvidia-nccl-cu12>=2.28": "running on several GPUs",
        "cupy-cuda12x>=14": "arrays on GPUs, in and out",
    },
    "cuda13": {
        "cuda-bindings>=13": "running on GPUs",
        "nvidia-nccl-cu13>=2.28": "running on several GPUs",
        "cupy-cuda13x>=14": "arrays on GPUs, in and out",
    },
    "jax": {"jax>=0.10": "programs lowered in process"},
    "torch": {"torch>=2.9": "programs of PyTorch in process"},
    "onnx": {"onnx>=1.20": "ONNX models"},
    "orbax": {"tensorstore>=0.1.60": "weights in orbax checkpoints"},
    "mpi": {"mpi4py>=4.1": "several processes on CPUs", "mpich>=5": ""},
    "sign": {"cryptography>=42": "signatures of modules"},
    "completion": {"shtab>=1.7": "completion in shells"},
}
# Python modules whose package has another name, with the extra that contains it
_EXTRA_OF = {"cupy": "cuda12", "cuda": "cuda12", "nvidia": "cuda12", "jaxlib": "jax"}


def install(extra: str) -> str:
    """Return the command that installs the packages of an extra. For the extra of CUDA 12, the text also has the
    command for CUDA 13.
    """
    command = install_command(EXTRAS[extra])
    return f"{command}; if the driver supports CUDA 13: {install('cuda13')}" if extra == "cuda12" else command


def install_command(requirements: Iterable[str]) -> str:
    return f"pip install {shlex.join(requirements)}"


def install_line(module: str) -> str:
    """Return how to install a missing Python module: the command if it is a module that meshgen uses, else general
    advice.
    """
    name = module.partition(".")[0]
    for extra, packages in EXTRAS.items():
        if name in map(name_of, packages) or _EXTRA_OF.get(name) == extra:
            return install(extra)
    core = next((requirement for requirement in CORE if name_of(requirement) == name), None)
    return install_command([core]) if core else f"install the package that has the Python module '{name}'"


def name_of(requirement: str) -> str:
    """Return the package name in a requirement such as `numpy>=1.26`."""
    return re.split(r"[<>=!~ ;\[]", requirement, maxsplit=1)[0]


def allows(requirement: str, version: str) -> bool:
    """Whether a requirement with lower and upper bounds allows a version."""
    bounds = re.findall(r"(>=|<)([\w.]+)", requirement)
    return all((_release(version) >= _release(bound)) == (sign == ">=") for sign, bound in bounds)


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without trailing zeros, such as (2, 9) for `2.9.0rc1`."""
    match = re.match(r"\d+(\.\d+)*", version)
    parts = [int(part) for part in match[0].split(".")] if match else []
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


def report_request(attachment: str) -> str:
    """Return a hint that asks the user to report an internal error of meshgen, and to attach `attachment`."""
    return (
        f"this is a fault of meshgen; please report it as an issue of its repository, with {attachment} and the output "
        "of 'meshgen doctor'"
    )
