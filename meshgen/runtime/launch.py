"""Launchers of one kernel on the CPU: its body on NumPy, its Triton source in the interpreter, its PTX on the emulated GPU."""

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

POISON = 0xFF  # as every byte: NaN in any float type
Array = np.ndarray[Any, Any]
# (kernel, rank, operands, result types) -> results
Launch = Callable[[str, int, Sequence[Array], Sequence[TensorType]], Sequence[Array]]


def evaluated(manifest: Manifest) -> Launch:
    """Launcher that evaluates the bodies of kernels, op by op."""
    mesh, bodies = manifest.mesh, manifest.plan.kernels
    evaluators = [Evaluator(rank_handlers(mesh, rank)) for rank in range(mesh.size)]

    def launch(name: str, rank: int, operands: Sequence[Array], types: Sequence[TensorType]) -> Sequence[Array]:
        return evaluators[rank].graph(bodies[name], operands)

    return launch


def interpreted(manifest: Manifest, sources: Mapping[str, str]) -> Launch:
    """Launcher of generated Triton source, as on a GPU. This executes the text.

    A kernel without a source runs as its body, as it does on any device. Raises MissingError without Triton.
    """
    from meshgen.runtime.interpret import InterpretedKernel

    kernels = {name: InterpretedKernel(text, manifest.kernels[name].entry) for name, text in sources.items() if text}
    by_body = evaluated(manifest)

    def launch(name: str, rank: int, operands: Sequence[Array], types: Sequence[TensorType]) -> Sequence[Array]:
        if name not in kernels:
            return by_body(name, rank, operands, types)
        results = before_launch(manifest.plan.kernels[name], operands)
        how = manifest.kernels[name]
        kernels[name].launch(how.grid, arguments(how, manifest.mesh, rank, operands, results), how.constants)
        return results

    return launch


def emulated(
    manifest: Manifest, codes: Mapping[str, EmulatedKernel], *, races: bool = False, issues: int = 0
) -> Launch:
    """Launcher of PTX on the emulated GPU. A kernel without code runs as its body."""
    by_body = evaluated(manifest)

    def launch(name: str, rank: int, operands: Sequence[Array], types: Sequence[TensorType]) -> Sequence[Array]:
        if name not in codes:
            return by_body(name, rank, operands, types)
        results = before_launch(manifest.plan.kernels[name], operands)
        how = manifest.kernels[name]
        args = arguments(how, manifest.mesh, rank, operands, results)
        codes[name].launch(args, [param.kind == "result" for param in how.params], races=races, issues=issues)
        return results

    return launch


def arguments(kernel: Kernel, mesh: Mesh, rank: int, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """Launch parameters in order: operands, results, and the device's place on the mesh."""
    values = {"operand": operands, "result": results}
    return [mesh.index(rank, p.axes) if p.kind == "coordinate" else values[p.kind][p.index] for p in kernel.params]


def before_launch(body: Graph, operands: Sequence[Any]) -> list[Array]:
    """Results as they are before a launch: poison, or the operand that is updated in place."""
    found = [poisoned(value.type) for value in body.outputs]
    for number, (first, *_) in updates(body).items():
        found[number][...] = operands[body.inputs.index(first.operands[0])]
    return found


def poisoned(kind: TensorType) -> Array:
    """An array of poison, which reveals unwritten elements."""
    return np.full(kind.nbytes, POISON, np.uint8).view(kind.numpy_dtype).reshape(kind.sizes)
