"""Functions that launch one kernel on the CPU, from its body (NumPy), Triton source (interpreter) or PTX (emulator)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from meshgen.ir.graph import Graph, TensorType
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.runtime.in_place import updates
from meshgen.runtime.module_file.manifest import Kernel, Manifest
from meshgen.runtime.simulate import rank_handlers

if TYPE_CHECKING:
    from meshgen.runtime.emulate import EmulatedKernel

POISON = 0xFF  # the value of every byte, which is NaN in all float types
Array = np.ndarray[Any, Any]
# (kernel, rank, operands, result types) -> results
Launch = Callable[[str, int, Sequence[Array], Sequence[TensorType]], Sequence[Array]]


def evaluated(manifest: Manifest) -> Launch:
    """Return a launch function that evaluates the body of a kernel op by op with NumPy."""
    mesh, bodies = manifest.mesh, manifest.plan.kernels
    evaluators = [Evaluator(rank_handlers(mesh, rank)) for rank in range(mesh.size)]

    def launch(name: str, rank: int, operands: Sequence[Array], types: Sequence[TensorType]) -> Sequence[Array]:
        return evaluators[rank].graph(bodies[name], operands)

    return launch


def interpreted(manifest: Manifest, sources: Mapping[str, str]) -> Launch:
    """Return a launch function that executes the generated Triton source in the interpreter.

    A kernel without source is run by evaluating its body, as on every device.

    Raises:
        MissingError: MG0602, Triton is not installed.
    """
    from meshgen.runtime.interpret import InterpretedKernel

    kernels = {name: InterpretedKernel(text, manifest.kernels[name].entry) for name, text in sources.items() if text}
    by_body = evaluated(manifest)

    def launch(name: str, rank: int, operands: Sequence[Array], types: Sequence[TensorType]) -> Sequence[Array]:
        if name not in kernels:
            return by_body(name, rank, operands, types)
        results = initial_results(manifest.plan.kernels[name], operands)
        kernel = manifest.kernels[name]
        kernels[name].launch(kernel.grid, arguments(kernel, manifest.mesh, rank, operands, results), kernel.constants)
        return results

    return launch


def emulated(
    manifest: Manifest, codes: Mapping[str, EmulatedKernel], *, races: bool = False, issues: int = 0
) -> Launch:
    """Return a launch function that runs the PTX of kernels on the emulated GPU.

    A kernel without PTX is run from its body.
    """
    by_body = evaluated(manifest)

    def launch(name: str, rank: int, operands: Sequence[Array], types: Sequence[TensorType]) -> Sequence[Array]:
        if name not in codes:
            return by_body(name, rank, operands, types)
        results = initial_results(manifest.plan.kernels[name], operands)
        kernel = manifest.kernels[name]
        args = arguments(kernel, manifest.mesh, rank, operands, results)
        codes[name].launch(args, [param.kind == "result" for param in kernel.params], races=races, issues=issues)
        return results

    return launch


def arguments(kernel: Kernel, mesh: Mesh, rank: int, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Return the parameters of a launch in order: operands, results, and the device's coordinates on the mesh."""
    values = {"operand": operands, "result": results}
    return [mesh.index(rank, p.axes) if p.kind == "coordinate" else values[p.kind][p.index] for p in kernel.params]


def initial_results(body: Graph, operands: Sequence[Any]) -> list[Array]:
    """Return the results before a launch: poison, or a copy of the operand that the kernel updates in place."""
    results = [poisoned(value.type) for value in body.outputs]
    for index, (first, *_) in updates(body).items():
        results[index][...] = operands[body.inputs.index(first.operands[0])]
    return results


def poisoned(tensor_type: TensorType) -> Array:
    """Return an array of poison, which reveals elements that are never written."""
    return np.full(tensor_type.nbytes, POISON, np.uint8).view(tensor_type.numpy_dtype).reshape(tensor_type.sizes)
