"""The packages that meshgen uses: what each is needed for, and the command that installs it."""

from __future__ import annotations

# package -> what it is needed for, and the command that installs it
NEEDS = {
    "numpy": ("everything", "pip install numpy"),
    "ml_dtypes": ("everything", "pip install ml_dtypes"),
    "xdsl": ("compiling", "pip install 'xdsl>=0.74,<0.75'"),
    "triton": ("compiling for GPUs and run --device interpret", "pip install triton"),
    "jinja2": ("reports", "pip install jinja2"),
    "scipy": ("search, factorisations of matrices, fast special functions", "pip install scipy"),
}
EXTRAS = {
    "cuda-bindings": ("running on GPUs", "pip install 'meshgen[cuda12]'"),
    "nvidia-nccl-cu12": ("running on several GPUs", "pip install 'meshgen[cuda12]'"),
    "cupy-cuda12x": ("arrays on GPUs, in and out", "pip install 'meshgen[cuda12]'"),
    "jax": ("programs lowered in process", "pip install 'meshgen[jax]'"),
    "cryptography": ("signatures of modules", "pip install 'meshgen[sign]'"),
    "shtab": ("completion in shells", "pip install 'meshgen[completion]'"),
    "mpi4py": ("several processes on CPUs", "pip install 'meshgen[mpi]'"),
}
_IMPORTED_AS = {"cupy": "cupy-cuda12x"}


def install_line(module: str) -> str:
    """The command that installs a Python module."""
    package = _IMPORTED_AS.get(module, module)
    return {**NEEDS, **EXTRAS}.get(package, ("", f"pip install {module}"))[1]
