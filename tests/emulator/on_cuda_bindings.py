"""Run a module through NVIDIA's cuda-bindings on the emulated driver.

    python -m tests.emulator.on_cuda_bindings MODULE LIBRARY

Prints the number of calls of each driver function. Fails if results differ from the reference.
"""

from __future__ import annotations

import ctypes
import sys
from collections import Counter
from typing import Any

import numpy as np

from meshgen.api import load
from meshgen.codegen.tuning.tuner import Bench
from meshgen.errors import RuntimeFailure
from meshgen.runtime.cuda.api import Api, emulated, require_driver
from meshgen.runtime.cuda.code import code_of
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.cuda.kernel_runner import OneKernel
from meshgen.runtime.cuda.timing import EventTimer, Timing
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_array
from tests.emulator.libcuda import LibCuda


class Counted:
    """A wrapper of the module `cuda.bindings.driver` that counts the calls of each function."""

    def __init__(self, driver: Any) -> None:
        self._driver, self.calls = driver, Counter[str]()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._driver, name)
        if not (name.startswith("cu") and callable(attribute)):
            return attribute

        def counted(*args: Any) -> Any:
            self.calls[name] += 1
            return attribute(*args)

        return counted


def timing(module: LoadedModule, api: Api) -> Timing:
    """Measure the execution time of the first kernel in the step."""
    launched = next(launched_item for launched_item in module.schedule.launches() if launched_item.item.kernel)
    name = launched.item.kernel
    operands = [random_array(value.type, [0, n]) for n, value in enumerate(module.schedule.kernels[name].inputs)]
    with OneKernel(api, module.mesh, launched.plan, launched.item, operands) as kernel:
        launch = kernel.launch(module.manifest.kernels[name], module.loaded.member)
        assert launch
        assert all(np.isfinite(array).all() for array in kernel.results(launch))
        return EventTimer(kernel.device).seconds(launch)


def main(path: str, library: str) -> None:
    """Run the executor through NVIDIA's bindings; the driver behind them, NCCL and the kernels are emulated."""
    module = load(path)
    emulated_api = emulated(module.ranks, "sm_80", seed=1, races=True)
    thunks = LibCuda(emulated_api.driver)
    thunks.install(ctypes.CDLL(library))
    from cuda.bindings import driver

    counted = Counted(driver)
    api = Api(counted, None, emulated_api.nccl)
    require_driver(api)
    kernels, member = module.manifest.kernels, module.loaded.member
    for name in kernels:
        code_of(kernels, member, emulated_api)(name, (8, 0))  # registers the PTX of the cubins with the emulated driver
    arguments = {b.name: random_array(b.type, [0, n]) for n, b in enumerate(module.inputs)}
    program = Program(module.manifest, module.loaded.constants, code_of(kernels, member, api))
    executor = Executor([program], api)
    for _ in range(2):
        (results,) = executor.run([module.filled(arguments)])
    executor.rebind(0, {})  # the graph of the step is captured again and updated in place
    (results,) = executor.run([module.filled(arguments)])
    executor.close()
    for name, count in sorted(counted.calls.items()):
        sys.stdout.write(f"{name} {count}\n")
    for result, expected in zip(results, module.run(arguments), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    measured = Bench(api, lambda device, _: EventTimer(device))
    sys.stdout.write(f"{measured.name_and_capability()}: {timing(module, api)}\n")
    try:
        api.cuda("cuMemAlloc", 16)
    except RuntimeFailure as failure:
        sys.stdout.write(f"{failure}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
