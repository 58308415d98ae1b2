"""Layers of imports. A module imports only its own layer and lower layers. Code that runs compiled modules needs
neither xDSL nor Triton nor JAX.
"""

from __future__ import annotations

import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import meshgen as mg
from tests.imports import imports, name_of
from tests.sources import FILES, PACKAGE, ROOT, place, refuse

# Layers from top to bottom. A layer may import itself and the layers below; see `docs/architecture.md`.
LAYERS = (
    ("cli", "__main__", "commands"),
    ("benchmarks",),
    ("testing",),
    ("__init__", "auto"),
    ("api",),
    ("options",),
    ("compiled",),
    ("search",),
    ("reports",),
    ("pipeline",),
    ("passes",),
    ("frontend", "sharding", "codegen", "simulator"),
    ("compilation",),
    ("mlir",),
    ("runtime",),
    ("calls", "emulator"),
    ("ccl", "kernels"),
    ("sizes",),
    ("ops",),
    ("ir",),
    ("notation",),
    ("spec",),
    ("mesh",),
    ("axis_refs", "machine"),
    ("names", "numbers"),
    ("locks", "reproducers", "cost_model", "budget"),
    ("errors", "gc_pace", "identity_dict", "packages"),
    ("printable", "host_memory"),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
# Layers inside the largest packages. Their entries are folders, and modules directly in the package.
INNER_LAYERS = {
    "codegen": (
        ("planner", "memory_efficiency", "tuning"),
        ("packaging", "horizontal_fusion", "product_fusion", "fuse"),
        ("building", "scheduling", "uniform_control_flow"),
        ("triton_source", "kernel_nodes", "passes", "attention"),
        ("targets", "missing_kernels", "bounds", "algebra"),
        ("roofline",),
        ("emit", "access_neighbors"),
        ("fusion",),
        ("index_code",),
        ("expr", "canonical_source", "collective_predicates"),
    ),
    "sharding": (
        ("propagate", "overlap", "collective_combine_large"),
        ("candidates",),
        ("rewrites",),
        ("stages",),
        ("materialize",),
        ("analyze", "chunks", "multi_mesh", "optimize", "partition", "local_volume", "manual_bodies"),
        ("optimizations", "partitioners", "propagation", "arithmetic", "copies"),
        ("collective_reasons",),
        ("reshard", "live", "scan_prefetch", "unknown_axes", "window_fetches"),
    ),
}
LIGHT = ["meshgen", "meshgen.api", "meshgen.runtime.module", "meshgen.runtime.loading", "meshgen.runtime.open_module", "meshgen.runtime.simulate", "meshgen.emulator.launch", "meshgen.ccl.cost", "meshgen.ccl.simulated", "meshgen.ir.graph",
         "meshgen.ops.types.inference", "meshgen.ops.evaluate.evaluator", "meshgen.ir.encode", "meshgen.commands.run", "meshgen.commands.inspect",
         "meshgen.commands.native", "meshgen.commands.simulate", "meshgen.simulator.simulation", "meshgen.commands.sign", "meshgen.commands.verify", "meshgen.runtime.native.export", "meshgen.cli"]  # fmt: skip


NAMES = {name_of(path) for path in FILES}


def part_of(module: str) -> str:
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


# Pairs of modules that name each other, such as a state and its dispatch table. The second module names the first only
# in type annotations.
TYPED_BACK = {
    # op records have importers and writers, which `conversion` calls
    ("meshgen.mlir.conversion", "meshgen.mlir.dialect"),
    ("meshgen.mlir.printer", "meshgen.mlir.dialect"),
    ("meshgen.mlir.reader_state", "meshgen.mlir.dialect"),
    # emitters of values call the evaluator for their operands
    ("meshgen.codegen.emit.eval", "meshgen.codegen.emit.gather_concat"),
    ("meshgen.codegen.emit.eval", "meshgen.codegen.emit.index_maps"),
}


def upward_imports(path: Path) -> Iterator[str]:
    own_part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for line, module in imports(path):
        if own_part != "__init__" and LEVEL.get(part_of(module), LEVEL["__init__"]) < LEVEL[own_part]:
            yield f"{place(path, line)}: imports {module}"


def test_imports_point_down() -> None:
    refuse([offender for path in FILES for offender in upward_imports(path)])


@pytest.mark.parametrize("package", INNER_LAYERS)
def test_imports_within_a_package_point_down(package: str) -> None:
    level = {part: depth for depth, parts in enumerate(INNER_LAYERS[package]) for part in parts}
    offenders: list[str] = []
    for path, name in zip(FILES, map(name_of, FILES), strict=True):
        importer = name.split(".")
        if importer[1:2] != [package] or len(importer) < 3:
            continue
        assert importer[2] in level, f"{name}: its layer is missing in INNER_LAYERS"
        for line, module in imports(path):
            imported = module.split(".")
            if imported[1:2] == [package] and len(imported) > 2 and level[imported[2]] < level[importer[2]]:
                offenders.append(f"{place(path, line)}: imports {module}")
    refuse(offenders)


def test_imports_have_no_cycles() -> None:
    """Imports inside functions and imports for the type checker count too. Only the pairs in `TYPED_BACK` are
    exceptions.
    """
    graph = {
        name: {module for _, module in imports(path, typed=True)} & NAMES - {name}
        for path, name in zip(FILES, map(name_of, FILES), strict=True)
    }
    for state, table in TYPED_BACK:
        assert state in graph[table] and table in graph[state], "an exception that is not needed"
        graph[table].discard(state)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the cycle


# Folders of a package that may import each other: upstream's dialects of tensors, loops and numbers, which read each
# other's ops.
TOGETHER = {"linalg": "mlir", "scf": "mlir", "tensor": "mlir", "tosa": "mlir"}


def folder_of(module: str) -> str:
    """Return the name of the module's folder inside its package, or "" for a module directly in the package."""
    package, *inner = module.split(".")[1:] or [""]
    if not inner or not (PACKAGE / package / inner[0]).is_dir():
        return ""
    return f"{package}.{'upstream' if TOGETHER.get(inner[0]) == package else inner[0]}"


def test_folders_of_a_package_have_no_import_cycles() -> None:
    """The folders of a package have an order. Modules directly in the package may import any folder, and may be
    imported by any folder.
    """
    graph: dict[str, set[str]] = {}
    for path, name in zip(FILES, map(name_of, FILES), strict=True):
        if own_folder := folder_of(name):
            imported_folders = {folder_of(module) for _, module in imports(path)}
            graph.setdefault(own_folder, set()).update(imported_folders - {own_folder, ""})
    assert len(graph) > 30
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the cycle


# Import each module as if it were the first, without compilers, and print those that fail.
IMPORT_ALONE = """
import importlib, sys
sys.modules.update(dict.fromkeys(('xdsl', 'triton', 'jax', 'torch')))
for name in sys.argv[1:]:
    for loaded in [module for module in sys.modules if module.split('.')[0] == 'meshgen']:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ImportError as missing:
        print(name, 'does not import:', missing)
"""


def test_deployment_needs_no_compiler() -> None:
    """Import each deployment module alone, while imports of xdsl, triton and jax fail."""
    command = [sys.executable, "-c", IMPORT_ALONE, *LIGHT]
    outcome = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (outcome.returncode, outcome.stdout) == (0, ""), outcome.stderr


@pytest.mark.parametrize(
    ("module", "unneeded"),
    [
        ("meshgen", ["xdsl", "triton", "numpy", "jax"]),
        ("meshgen.commands.run", ["meshgen.api", "meshgen.pipeline", "meshgen.sharding"]),
    ],
)
def test_import_does_not_load_unneeded_packages(module: str, unneeded: list[str]) -> None:
    """`import meshgen` loads neither compilers nor array packages; a public name imports its module when it is first
    used. `meshgen run` loads no compiler.
    """
    program = f"import sys, {module}; print([n for n in {unneeded} if n in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert outcome.stdout.strip() == "[]", outcome.stderr


UNUSED_FOR_CPU = ["meshgen.frontend.tracer", "meshgen.frontend.jax", "meshgen.codegen.building.build", "meshgen.ccl.lower",
                  "meshgen.reports.value_reasons", "meshgen.sharding.propagation.alternatives", "triton", "jax"]  # fmt: skip
COMPILE = """
import sys
from meshgen.cli import main
code = main(["compile", "examples/transformer_block.mlir", "--target", "cpu", "-o", sys.argv[1]])
sys.stderr.write(str([name for name in sys.argv[2:] if name in sys.modules] or code))
"""


def test_compiling_text_imports_only_what_it_uses(tmp_path: Path) -> None:
    """Most of the time of compiling a small program is spent in imports."""
    command = [sys.executable, "-c", COMPILE, str(tmp_path / "block.mgx"), *UNUSED_FOR_CPU]
    assert subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stderr == "0"


def test_no_module_hides_a_function_of_the_package() -> None:
    """Importing a module `meshgen.name` binds `name` in the package, which could hide a function. `__init__` prevents
    this only for the names in `__all__`.
    """
    package = Path(mg.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert modules & {*dir(mg)} <= {*mg.__all__}
