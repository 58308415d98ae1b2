"""Lookup of the code of a module's kernels: a cubin or PTX for a GPU, or the kernel's body for an emulated device."""

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

POINTER, COORDINATE = 8, 4  # size in bytes of a launch parameter that is a pointer, and of one that is a coordinate


@dataclass(frozen=True)
class Code:
    """The code and launch configuration of a kernel for one device.

    Attributes:
        image: a cubin or PTX text.
        grid: number of blocks along each axis.
        threads: number of threads in a block.
        shared_bytes: dynamic shared memory of a block, in bytes.
        scratch_bytes: sizes of the two buffers that the last two parameters point to; 0 for a null pointer.
    """

    image: bytes
    entry: str
    grid: tuple[int, int, int]
    threads: int
    shared_bytes: int
    scratch_bytes: tuple[int, int] = (0, 0)


Capability = tuple[int, int]  # compute capability of a device: major and minor number
# Returns the code of a kernel for a device, or None for a kernel without GPU code. Raises MissingError MG0602.
CodeOf = Callable[[str, Capability], Code | None]


def code_of(kernels: Mapping[str, Kernel], member: Callable[[str], bytes], api: Api) -> CodeOf:
    """Return a function that finds the code of a module's kernel for a device.

    It returns the newest cubin that the device can execute, or else PTX that its driver can compile. `member` returns
    the content of a member of the module.
    """

    def find(name: str, capability: Capability) -> Code | None:
        kernel = kernels[name]
        if not kernel.source:
            return None
        for arch in sorted(kernel.binaries, key=number_of, reverse=True):
            binary, variant = kernel.binaries[arch], kernel.on(arch)
            configuration = variant.grid, binary.threads, binary.shared, scratch_bytes(variant, binary)
            ptx = member(binary.ptx).decode() if binary.ptx else ""
            if runs_on(arch, capability):
                cubin = member(binary.file)
                if api.machine:  # emulated devices execute the PTX in place of the cubin
                    _require_ptx(name, ptx)
                    _record_source(api, variant, member)
                    api.driver.register(cubin, ptx)
                return Code(cubin, kernel.entry, *configuration)
            if (target := target_of(ptx)) and compiles_on(target, capability):
                _record_source(api, variant, member)
                return Code(ptx.encode(), kernel.entry, *configuration)
        device = f"sm_{capability[0]}{capability[1]}"
        text = f"kernel '{name}' was compiled for {', '.join(kernel.binaries) or 'no GPU'}; the device is {device}"
        raise MissingError(Diagnostic("MG0602", text, hint=f"compile again with --target cuda:{device}"))

    return find


def _record_source(api: Api, kernel: Kernel, member: Callable[[str], bytes]) -> None:
    """Record the Triton source of a kernel in `api`, because error messages of emulated devices quote it."""
    if api.machine:
        api.sources[kernel.entry] = KernelSource(kernel, api.machine.kind.arch, member(kernel.source).decode())


def _require_ptx(name: str, ptx: str) -> None:
    if not ptx:
        text = f"the module has no PTX of kernel '{name}', which emulated GPUs execute"
        raise MissingError(Diagnostic("MG0602", text, hint="compile it again: older modules have cubins only"))


def number_of(arch: str) -> int:
    """Return the number in the name of an architecture, such as 90 for `sm_90`."""
    return int("".join(char for char in arch if char.isdigit()))


def runs_on(arch: str, capability: Capability) -> bool:
    """Whether a device executes cubins for `arch`.

    The major versions must be equal, and the minor version of the device must not be older.
    """
    major, minor = divmod(number_of(arch), 10)
    return major == capability[0] and minor <= capability[1]


def compiles_on(target: str, capability: Capability) -> bool:
    """Whether a device's driver can compile PTX for `target`.

    It can if `target` is equal or older. PTX for an exact target such as `sm_90a` runs on that architecture only.
    """
    device_number = 10 * capability[0] + capability[1]
    return number_of(target) == device_number if target.endswith("a") else number_of(target) <= device_number


def target_of(ptx: str) -> str:
    """Return the target that a PTX text names, such as `sm_90a`, or an empty text if the text names none."""
    match = re.search(r"^\s*\.target\s+(sm_\d{2,3}[a-z]?)\b", ptx, re.MULTILINE)
    return match[1] if match else ""


def scratch_bytes(kernel: Kernel, binary: Binary) -> tuple[int, int]:
    """Return the sizes of the scratch and profile buffers of a Triton kernel, for all blocks together."""
    blocks = math.prod(kernel.grid)
    sizes = (binary.metadata.get(name) for name in SCRATCH)
    first, second = (int(size or 0) * blocks for size in sizes)
    return first, second


@dataclass(frozen=True)
class Launcher:
    """A factory for launches of a module's kernels."""

    api: Api
    mesh: Mesh
    kernels: Mapping[str, Kernel]
    bodies: Mapping[str, Graph]
    code_of: CodeOf

    def launch(self, device: Device, rank: int, item: Item, plan: Schedule, addresses: Sequence[int]) -> Launch | None:
        """Return the launch of an item on a rank, or None if its grid is empty.

        Args:
            addresses: addresses of the item's operands, then of its results.
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
        scratch_ranges = [(start, nbytes, True) for start, nbytes in scratch if nbytes]
        self.api.limit_launch(block.address, [*_ranges(item, plan, addresses), *scratch_ranges])
        return Launch(function, code.grid, code.threads, code.shared_bytes, block)

    def _values(self, kernel: Kernel, rank: int, item: Item, addresses: Sequence[int]) -> list[tuple[int, int]]:
        """Return the value and the size in bytes of each parameter that the module lists."""
        first = {"operand": 0, "result": len(item.inputs)}
        return [
            (self.mesh.index(rank, param.axes), COORDINATE)
            if param.kind == "coordinate"
            else (addresses[first[param.kind] + param.index], POINTER)
            for param in kernel.params
        ]

    def _body(self, device: Device, rank: int, item: Item, plan: Schedule, addresses: Sequence[int]) -> Launch:
        """Return a launch that evaluates the body of a kernel without GPU code. Only emulated devices can run it."""
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
    """Return the memory ranges that a kernel may access, and whether it writes them: its operands and its results."""
    numbers = (*item.inputs, *item.outputs)
    return [
        (address, plan.buffers[number].type.nbytes, position >= len(item.inputs))
        for position, (address, number) in enumerate(zip(addresses, numbers, strict=True))
    ]


def _evaluated(api: Api, evaluator: Evaluator, body: Graph, operands: Sequence[TensorType],
               results: Sequence[TensorType]) -> Callable[..., None]:  # fmt: skip
    """Return a kernel for the emulated driver. It evaluates a body on the memory that its parameters point to."""
    machine = api.machine
    assert machine

    def run(work: Any, device: int, values: Sequence[int]) -> None:
        arrays = [
            machine.read(work, device, address, tensor_type.nbytes)
            .copy()
            .view(tensor_type.numpy_dtype)
            .reshape(tensor_type.sizes)
            for address, tensor_type in zip(values, operands, strict=False)
        ]
        for address, tensor_type, array in zip(
            values[len(operands) :], results, evaluator.graph(body, arrays), strict=True
        ):
            target = machine.write(work, device, address, tensor_type.nbytes)
            target.view(tensor_type.numpy_dtype).reshape(tensor_type.sizes)[...] = array

    return run
