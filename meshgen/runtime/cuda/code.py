"""The code that a device loads for a kernel of a module: its cubin, its PTX, or on an emulated device its body."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meshgen.errors import Diagnostic, MissingError
from meshgen.ir.graph import Graph, TensorType
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.device import Device, Launch, ParameterBlock
from meshgen.runtime.emulate import KernelSource
from meshgen.runtime.module_file.manifest import SCRATCH, Binary, Kernel
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.simulate import rank_handlers

POINTER, COORDINATE = 8, 4  # bytes of a launch parameter


@dataclass(frozen=True)
class Code:
    """A kernel for one device.

    Attributes:
        image: a cubin or PTX text.
        grid: blocks.
        threads, shared_bytes: of a block.
        scratch_bytes: of the memory that its two last parameters point to; 0: they are null.
    """

    image: bytes
    entry: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    scratch_bytes: tuple[int, int] = (0, 0)


Capability = tuple[int, int]  # of a device, major and minor number
# The code of a kernel for a device; None: it has no form for GPUs. Raises MissingError MG0602
CodeOf = Callable[[str, Capability], Code | None]


def code_of(kernels: Mapping[str, Kernel], member: Callable[[str], bytes], api: Api) -> CodeOf:
    """The code of a module's kernels: the cubin for the device, or else PTX that its driver can compile.

    `member`: the content of a file of the module.
    """

    def find(name: str, capability: Capability) -> Code | None:
        kernel = kernels[name]
        if not kernel.source:
            return None
        for arch in sorted(kernel.binaries, key=number_of, reverse=True):
            binary, own = kernel.binaries[arch], kernel.on(arch)
            shape = own.grid, binary.threads, binary.shared, scratch_bytes(own, binary)
            ptx = member(binary.ptx).decode() if binary.ptx else ""
            if runs_on(arch, capability):
                cubin = member(binary.file)
                if api.machine:  # emulated devices execute the PTX in place of the cubin
                    _require_ptx(name, ptx)
                    _keep_source(api, own, member)
                    api.driver.register(cubin, ptx)
                return Code(cubin, kernel.entry, *shape)
            if (target := target_of(ptx)) and compiles_on(target, capability):
                _keep_source(api, own, member)
                return Code(ptx.encode(), kernel.entry, *shape)
        device = f"sm_{capability[0]}{capability[1]}"
        text = f"kernel '{name}' was compiled for {', '.join(kernel.binaries) or 'no GPU'}; the device is {device}"
        raise MissingError(Diagnostic("MG0602", text, hint=f"compile again with --target cuda:{device}"))

    return find


def _keep_source(api: Api, kernel: Kernel, member: Callable[[str], bytes]) -> None:
    """For faults of emulated devices, which show lines of it."""
    if api.machine:
        api.sources[kernel.entry] = KernelSource(kernel, api.machine.kind.arch, member(kernel.source).decode())


def _require_ptx(name: str, ptx: str) -> None:
    if not ptx:
        text = f"the module has no PTX of kernel '{name}', which emulated GPUs execute"
        raise MissingError(Diagnostic("MG0602", text, hint="compile it again: older modules have cubins only"))


def number_of(arch: str) -> int:
    """90 for `sm_90`"""
    return int("".join(each for each in arch if each.isdigit()))


def runs_on(arch: str, capability: Capability) -> bool:
    """Whether a device executes cubins for `arch`: those of its major version, up to its own minor one."""
    major, minor = divmod(number_of(arch), 10)
    return major == capability[0] and minor <= capability[1]


def compiles_on(target: str, capability: Capability) -> bool:
    """Whether the driver of a device compiles PTX for a target: for all earlier ones, and `sm_90a` for 9.0 alone."""
    own = 10 * capability[0] + capability[1]
    return number_of(target) == own if target.endswith("a") else number_of(target) <= own


def target_of(ptx: str) -> str:
    """`sm_90a`; empty where the text names none."""
    found = re.search(r"^\s*\.target\s+(sm_\d{2,3}[a-z]?)\b", ptx, re.MULTILINE)
    return found[1] if found else ""


def scratch_bytes(kernel: Kernel, binary: Binary) -> tuple[int, int]:
    """Bytes of the memory of the last two pointers of a Triton kernel, all blocks together: scratch and profile."""
    blocks = math.prod(kernel.grid)
    sizes = (binary.metadata.get(name) for name in SCRATCH)
    first, second = (int(size or 0) * blocks for size in sizes)
    return first, second


@dataclass(frozen=True)
class Launcher:
    """Makes launches of a module's kernels."""

    api: Api
    mesh: Mesh
    kernels: Mapping[str, Kernel]
    bodies: Mapping[str, Graph]
    code_of: CodeOf

    def launch(self, device: Device, rank: int, item: Item, plan: Schedule, addresses: Sequence[int]) -> Launch | None:
        """The launch of an item on a rank; None where its grid is empty.

        Args:
            addresses: of its operands, then of its results.
        Raises:
            MissingError: MG0602, the kernel has no code for the device.
        """
        kernel, code = self.kernels[item.kernel], self.code_of(item.kernel, device.capability)
        if code is None:
            return self._body(device, rank, item, plan, addresses)
        if 0 in code.grid:
            return None
        function = device.function(code.image, code.entry, code.shared_bytes)
        scratch = [(device.allocate(n, f"scratch of '{item.kernel}'") if n else 0, n) for n in code.scratch_bytes]
        block = ParameterBlock(
            [*self._values(kernel, rank, item, addresses), *((start, POINTER) for start, _ in scratch)]
        )
        more = [(start, nbytes, True) for start, nbytes in scratch if nbytes]
        self.api.limit_launch(block.address, [*_ranges(item, plan, addresses), *more])
        return Launch(function, code.grid, code.threads, code.shared_bytes, block)

    def _values(self, kernel: Kernel, rank: int, item: Item, addresses: Sequence[int]) -> list[tuple[int, int]]:
        """Of the parameters that the module lists: each with its size in bytes."""
        first = {"operand": 0, "result": len(item.inputs)}
        return [
            (self.mesh.index(rank, param.axes), COORDINATE)
            if param.kind == "coordinate"
            else (addresses[first[param.kind] + param.index], POINTER)
            for param in kernel.params
        ]

    def _body(self, device: Device, rank: int, item: Item, plan: Schedule, addresses: Sequence[int]) -> Launch:
        """A kernel without a form for GPUs runs as its body, where devices are emulated."""
        if self.api.machine is None:
            text = f"kernel '{item.kernel}' has no code for any GPU"
            raise MissingError(Diagnostic("MG0602", text, hint="run it with --device reference or --device emulate"))
        body, evaluator = self.bodies[item.kernel], Evaluator(rank_handlers(self.mesh, rank))
        operands, results = ([plan.buffers[n].type for n in numbers] for numbers in (item.inputs, item.outputs))
        sizes = [POINTER] * len(addresses)
        image = self.api.driver.define(item.kernel, sizes, _evaluated(self.api, evaluator, body, operands, results))
        function = device.function(image, item.kernel, 0)
        return Launch(function, (1, 1, 1), 1, 0, ParameterBlock([(address, POINTER) for address in addresses]))


def _ranges(item: Item, plan: Schedule, addresses: Sequence[int]) -> list[tuple[int, int, bool]]:
    """The memory that a kernel may touch: its operands, and its results, which it writes."""
    numbers = (*item.inputs, *item.outputs)
    return [
        (address, plan.buffers[number].type.nbytes, place >= len(item.inputs))
        for place, (address, number) in enumerate(zip(addresses, numbers, strict=True))
    ]


def _evaluated(api: Api, evaluator: Evaluator, body: Graph, operands: Sequence[TensorType],
               results: Sequence[TensorType]) -> Callable[..., None]:  # fmt: skip
    """A kernel of the emulated driver that evaluates a body on the memory that its parameters point to."""
    machine = api.machine
    assert machine

    def run(work: Any, device: int, values: Sequence[int]) -> None:
        given = [
            machine.read(work, device, address, kind.nbytes).copy().view(kind.numpy_dtype).reshape(kind.sizes)
            for address, kind in zip(values, operands, strict=False)
        ]
        for address, kind, array in zip(values[len(operands) :], results, evaluator.graph(body, given), strict=True):
            target = machine.write(work, device, address, kind.nbytes)
            target.view(kind.numpy_dtype).reshape(kind.sizes)[...] = array

    return run
