"""Execution of one kernel of a module on a GPU, real or emulated, to compare variants of the kernel on equal operands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.errors import RuntimeFailure
from meshgen.mesh import Mesh
from meshgen.runtime.cuda.api import Api
from meshgen.runtime.cuda.code import Launcher, code_of
from meshgen.runtime.cuda.device import Device, Launch
from meshgen.runtime.launch import initial_results
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.plan import Item, Schedule

Array = np.ndarray[Any, Any]


class OneKernel:
    """A context that owns a kernel's operands and results on device 0, and the code of the launched variants."""

    def __init__(self, api: Api, mesh: Mesh, plan: Schedule, item: Item, operands: Sequence[Array]) -> None:
        """Allocate buffers and upload the operands.

        `item` is a launch of the kernel in `plan`. The kernel runs as on the last rank, which is the rank with padding.
        Raises RuntimeFailure MG0604 if the device has too little memory.
        """
        self._api, self._mesh, self._plan, self._item = api, mesh, plan, item
        self.device = Device(api, 0)
        self._body, self._operands = plan.kernels[item.kernel], operands
        types = [value.type for value in (*self._body.inputs, *self._body.outputs)]
        self._addresses = [
            self.device.allocate(tensor_type.nbytes, f"buffer {index} of '{item.kernel}'")
            for index, tensor_type in enumerate(types)
        ]
        for address, array in zip(self._addresses, operands, strict=False):
            self.device.upload(address, array)

    def launch(self, kernel: Kernel, member: Callable[[str], bytes]) -> Launch | None:
        """Return the launch of `kernel`, a variant of this kernel, or None if the variant's grid is empty.

        Raises MissingError MG0602.

        `member` returns the content of the files that `kernel` names.
        """
        kernels = {self._item.kernel: kernel}
        launcher = Launcher(self._api, self._mesh, kernels, self._plan.kernels, code_of(kernels, member, self._api))
        return launcher.launch(self.device, self._mesh.size - 1, self._item, self._plan, self._addresses)

    def results(self, launch: Launch) -> list[Array]:
        """Run a launch and return the kernel's results.

        An element that the kernel does not write is poison, or the operand's element if the result updates this operand
        in place. Raises RuntimeFailure MG0604 or MG0608.
        """
        result_addresses = self._addresses[len(self._body.inputs) :]
        results = initial_results(self._body, self._operands)
        for address, array in zip(result_addresses, results, strict=True):
            self.device.upload(address, array)
        stream = self.device.streams[0]
        self.device.launch(launch, stream)
        self._api.cuda("cuStreamSynchronize", stream)
        return [self.device.download(address, array) for address, array in zip(result_addresses, results, strict=True)]

    def __enter__(self) -> OneKernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Free all resources. After an exception, further failures are suppressed: every call to a failed device fails."""
        with contextlib.suppress(*([RuntimeFailure] if kind else [])):
            self.device.close()
