"""The content of `manifest.json`: signature, launch ABI of the kernels, plan, toolchain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from meshgen.calls.signature import Signature
from meshgen.calls.state import State
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Schedule
from meshgen.spec import Sharding

FORMAT = 14  # up to format 13 the next values of donated arguments were not in the manifest
PARTS_FORMAT = 15  # of a program on several meshes: a manifest of manifests
OPEN_FORMAT = 16  # of a program with open sizes: a manifest of specialisations
ENTRIES_FORMAT = 17  # of a program with several entry functions: a manifest of modules
Json = dict[str, Any]
SCRATCH = (
    "global_scratch_size",
    "profile_scratch_size",
)  # of a binary's metadata: bytes per block of Triton's two pointers


class Binding(NamedTuple):
    """One argument or result of the step.

    Attributes:
        type: global type.
        local_shape: shape of every rank's buffer.
        buffer: its number in the plan.
        stored: whether the module stores its value (a weight), so that callers do not pass it.
        donated_to: of a donated argument, the number of the result that is its next value.
    """

    name: str
    type: TensorType
    sharding: Sharding
    local_shape: tuple[int, ...]
    buffer: int
    stored: bool = False
    donated_to: int | None = None


@dataclass(frozen=True)
class Binary:
    """A cubin: its member, and the resources that a launch needs (bytes, per thread or block).

    `ptx` is the member with what it was assembled from; empty in modules that have none.
    """

    file: str
    regs: int
    spill_bytes: int
    stack_bytes: int
    shared: int
    threads: int
    instructions: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    ptx: str = ""


@dataclass(frozen=True)
class Param:
    """One launch parameter: a pointer to operand or result `index`, or the device's i32 index over `axes`."""

    kind: str
    index: int = -1
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """What differs between architectures of how a kernel is written and launched: its source, the tile chosen, which is in `constants` and
    the options after it, and the grid that follows from that.
    """

    source: str
    grid: tuple[int, int, int]
    constants: Mapping[str, Any]
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class Kernel:
    """The launch configuration of a kernel. `source` is empty for one without a Triton form (it runs as its body).

    Attributes:
        template: names what its source was made from; the tile chosen is in `constants` and the options after it.
        forms: by architecture, for those of `binaries` that were made from another form.
    """

    source: str = ""
    entry: str = ""
    params: tuple[Param, ...] = ()
    grid: tuple[int, int, int] = (1, 1, 1)
    constants: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4
    num_stages: int = 3
    flops: float = 0.0
    nbytes: float = 0.0
    template: str = ""
    binaries: Mapping[str, Binary] = field(default_factory=dict)
    forms: Mapping[str, Form] = field(default_factory=dict)

    def on(self, arch: str) -> Kernel:
        """The kernel as it is launched on an architecture."""
        form = self.forms.get(arch)
        if form is None:
            return replace(self, forms={}) if self.forms else self
        return replace(self, source=form.source, grid=form.grid, constants=form.constants, num_warps=form.num_warps,
                       num_stages=form.num_stages, forms={})  # fmt: skip

    @property
    def files(self) -> list[str]:
        """The members that it names: sources, cubins and PTX."""
        sources = [self.source, *(form.source for form in self.forms.values())]
        binaries = [file for binary in self.binaries.values() for file in (binary.file, binary.ptx)]
        return [file for file in dict.fromkeys((*sources, *binaries)) if file]


@dataclass(frozen=True)
class Manifest:
    """A module without its code and weights. `plan.kernels` and `kernels` have the same names.

    `call` is what callers pass and get, where that is more than arrays in order; `state` the arguments that sessions keep, None in
    a module that was written without a signature.
    """

    name: str
    mesh: Mesh
    arguments: str
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    kernels: Mapping[str, Kernel]
    plan: Schedule
    toolchain: Mapping[str, Any] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    call: Signature | None = None
    state: State | None = None


@dataclass(frozen=True)
class Parts:
    """A program on several meshes: per part its mesh, and the numbers of its inputs and outputs in the program.

    Part number n is a module by itself, in the folder `parts/n/` of the file.
    """

    name: str
    parts: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    report: Mapping[str, Any] = field(default_factory=dict)
    call: Signature | None = None
    state: State | None = None
