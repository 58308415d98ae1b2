"""Count the launches of a module that Inductor wrote.

The module's function `call` is straight-line Python: `triton_poi_fused_add_0.run(...)` launches a kernel,
`extern_kernels.mm(...)` and `torch.ops.aten. ...` call the library, and `x.copy_(y)` copies. The tables below list all
other functions that `call` may call, so that no launch is overlooked.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_LIBRARY = ("extern_kernels.", "torch.ops.", "aten.")
_COPIES = ("copy_", "fill_", "zero_")
_HOST = {
    "args.clear", "assert_alignment", "assert_size_stride", "copy_if_misaligned", "empty_strided_cpu", "empty_strided_cuda", "get_raw_stream",
    "reinterpret_tensor", "torch.cuda._DeviceGuard", "torch.cuda.set_device",
}  # fmt: skip


@dataclass(frozen=True)
class Launches:
    """Launches of one step.

    `library` has the number of calls of each library operation and of each copy. A call counts as one launch, even if
    it launches several kernels.
    """

    kernels: int = 0
    library: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Launches) -> Launches:
        return Launches(self.kernels + other.kernels, self.library + other.library)

    @property
    def total(self) -> int:
        return self.kernels + self.library.total()


def launches_of(text: str) -> Launches:
    """Count the launches in the text of a module.

    Raises:
        ValueError: the module calls a function that the tables above do not list.
    """
    tree = ast.parse(text)
    kernels = set(_kernels(tree))
    count, library = 0, Counter[str]()
    for name in _called(tree):
        owner, _, method = name.rpartition(".")
        if method == "run" and owner in kernels:
            count += 1
        elif name.startswith(_LIBRARY):
            library[_operation(name)] += 1
        elif method in _COPIES:
            library[method] += 1
        elif name not in _HOST:
            raise ValueError(f"the module calls '{name}', of which it is not known whether it launches a kernel")
    return Launches(count, library)


def _kernels(tree: ast.Module) -> Iterator[str]:
    """Yield the name of each kernel, the NAME of `NAME = async_compile.triton(...)`."""
    for line in tree.body:
        match line:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(ast.Name("async_compile"), "triton"))):
                yield name
            case _:
                pass


def _called(tree: ast.Module) -> Iterable[str]:
    """Return the dotted name of each function that the module's `call` calls."""
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"]
    if len(bodies) != 1:
        raise ValueError(f"a module has one function 'call', this one has {len(bodies)}")
    return [ast.unparse(node.func) for node in ast.walk(bodies[0]) if isinstance(node, ast.Call)]


def _operation(name: str) -> str:
    """Return `mm` for `extern_kernels.mm`, and `_fft_r2c` for `torch.ops.aten._fft_r2c.default`."""
    return name.split(".")[-2 if name.startswith(("torch.ops.", "aten.")) else -1]
