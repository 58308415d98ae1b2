"""The content of `manifest.json`: call signature, launch ABI of the kernels, schedule and toolchain versions."""

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

FORMAT = 14  # format of a single-mesh module; until format 13, manifests lacked the next values of donated arguments
PARTS_FORMAT = 15  # format of a program on several meshes, whose manifest lists one module per mesh
OPEN_FORMAT = 16  # format of a program with open sizes, whose manifest lists specializations
ENTRIES_FORMAT = 17  # format of a program with several entry functions, whose manifest lists modules
Json = dict[str, Any]
SCRATCH = (
    "global_scratch_size",
    "profile_scratch_size",
)  # keys in Triton's metadata of a binary: bytes per block that its last two pointer parameters (scratch) point to


class Binding(NamedTuple):
    """An argument or result of the program.

    Attributes:
        type: global type.
        local_shape: shape of the buffer that holds the shard, equal on all ranks.
        buffer: index of the buffer in the schedule.
        stored: whether the module stores the value (a weight), so that callers do not pass it.
        donated_to: for a donated argument, the index of the result that is its next value.
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
    """A compiled kernel (cubin): its member name, and the resources that a launch needs.

    `shared` is in bytes per block, `spill_bytes` and `stack_bytes` per thread, and `regs` in registers per thread.
    `ptx` is the member with the PTX from which the cubin was assembled, or empty if the module has no PTX.
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
    """A launch parameter: a pointer to operand or result `index`, or the device's i32 coordinate along `axes`."""

    kind: str
    index: int = -1
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Form:
    """The architecture-specific part of a kernel: source, tile sizes (in `constants`), launch options and grid."""

    source: str
    grid: tuple[int, int, int]
    constants: Mapping[str, Any]
    num_warps: int
    num_stages: int


@dataclass(frozen=True)
class Kernel:
    """The launch configuration of a kernel.

    Attributes:
        source: member with the Triton source; empty if the kernel has none and is run by evaluating its body.
        template: name of the template that generated the source.
        constants: compile-time constants of the source, among them the tile sizes.
        forms: architecture -> source, tile and grid of its binary, if they differ from those of the kernel.
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
        """Return the kernel with the source, tile and grid of its binary for `arch`."""
        form = self.forms.get(arch)
        if form is None:
            return replace(self, forms={}) if self.forms else self
        return replace(self, source=form.source, grid=form.grid, constants=form.constants, num_warps=form.num_warps,
                       num_stages=form.num_stages, forms={})  # fmt: skip

    @property
    def files(self) -> list[str]:
        """Return the names of the members that contain the kernel's sources, cubins and PTX."""
        sources = [self.source, *(form.source for form in self.forms.values())]
        binaries = [file for binary in self.binaries.values() for file in (binary.file, binary.ptx)]
        return [file for file in dict.fromkeys((*sources, *binaries)) if file]


@dataclass(frozen=True)
class Manifest:
    """The manifest of a single-mesh module.

    `plan.kernels` has the body of each kernel, and `kernels` its launch configuration, under the same names.

    Attributes:
        call: the call signature, or None if the program takes and returns arrays in order.
        state: the arguments that sessions keep between steps, or None if the module was written without a signature.
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
    """The manifest of a program on several meshes.

    Part n is a complete module in folder `parts/n/` of the file.

    Attributes: parts: (name of the mesh, program-wide indices of the inputs, and of the outputs) of each part.
    """

    name: str
    parts: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    report: Mapping[str, Any] = field(default_factory=dict)
    call: Signature | None = None
    state: State | None = None
