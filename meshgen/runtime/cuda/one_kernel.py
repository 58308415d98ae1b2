"""One kernel of a module by itself on a GPU, real or emulated: in different forms, on the same operands."""

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
from meshgen.runtime.launch import before_launch
from meshgen.runtime.module_file.manifest import Kernel
from meshgen.runtime.plan import Item, Schedule

Array = np.ndarray[Any, Any]


class OneKernel:
    """A context: memory for a kernel's operands and results on device 0, and what its forms load."""

    def __init__(self, api: Api, mesh: Mesh, plan: Schedule, item: Item, operands: Sequence[Array]) -> None:
        """`item`: a launch of the kernel in `plan`; it runs as on the last rank, which is the one with padding.

        Raises RuntimeFailure MG0604: the device has too little memory.
        """
        self._api, self._mesh, self._plan, self._item = api, mesh, plan, item
        self.device = Device(api, 0)
        self._body, self._operands = plan.kernels[item.kernel], operands
        kinds = [value.type for value in (*self._body.inputs, *self._body.outputs)]
        self._addresses = [
            self.device.allocate(kind.nbytes, f"buffer {number} of '{item.kernel}'")
            for number, kind in enumerate(kinds)
        ]
        for address, array in zip(self._addresses, operands, strict=False):
            self.device.upload(address, array)

    def launch(self, kernel: Kernel, member: Callable[[str], bytes]) -> Launch | None:
        """The launch of a form; None where its grid is empty. `member`: the files that it names. Raises MissingError MG0602."""
        kernels = {self._item.kernel: kernel}
        launcher = Launcher(self._api, self._mesh, kernels, self._plan.kernels, code_of(kernels, member, self._api))
        return launcher.launch(self.device, self._mesh.size - 1, self._item, self._plan, self._addresses)

    def results(self, launch: Launch) -> list[Array]:
        """What a launch computes; elements that it does not write are poison, or those of an operand that it updates in place.

        Raises RuntimeFailure MG0604, MG0608.
        """
        places = self._addresses[len(self._body.inputs) :]
        found = before_launch(self._body, self._operands)
        for address, array in zip(places, found, strict=True):
            self.device.upload(address, array)
        stream = self.device.streams[0]
        self.device.launch(launch, stream)
        self._api.cuda("cuStreamSynchronize", stream)
        return [self.device.download(address, array) for address, array in zip(places, found, strict=True)]

    def __enter__(self) -> OneKernel:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Free everything; on a device that has failed every call fails, and the first failure counts."""
        with contextlib.suppress(*([RuntimeFailure] if kind else [])):
            self.device.close()
