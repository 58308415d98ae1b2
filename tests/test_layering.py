"""Imports point down, and what a deployment machine runs needs neither xDSL nor Triton nor JAX."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "meshgen"

# Layers from top to bottom; a part may import its own layer and those below. `docs/architecture.md` explains it.
LAYERS = (
    ("cli", "__main__", "commands"),
    ("__init__", "api"),
    ("executables",),
    ("answers",),
    ("pipeline",),
    ("frontend", "sharding", "codegen", "simulator"),
    ("runtime",),
    ("emulator",),
    ("ccl", "kernels"),
    ("ir",),
    ("spec",),
    ("mesh",),
    ("axis_refs",),
    ("names",),
    ("locks", "reproducers"),
    ("errors", "collector"),
    ("printable",),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
LIGHT = ["meshgen", "meshgen.api", "meshgen.runtime.module", "meshgen.runtime.loading", "meshgen.runtime.open_module", "meshgen.runtime.simulate", "meshgen.emulator.launch", "meshgen.ccl.cost", "meshgen.ccl.simulated", "meshgen.ir.graph",
         "meshgen.ir.infer.inference", "meshgen.ir.evaluate.evaluator", "meshgen.ir.encode", "meshgen.commands.run", "meshgen.commands.inspect",
         "meshgen.commands.native", "meshgen.commands.sign", "meshgen.commands.verify", "meshgen.runtime.native.export", "meshgen.cli"]  # fmt: skip


FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


NAMES = {name_of(path) for path in FILES}


def part_of(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else "__init__"


# Modules that name each other: state and what acts on it by a table. The second names the first only in types, so importing has an order.
TYPED_BACK = {
    (
        "meshgen.ir.bridge.conversion",
        "meshgen.ir.bridge.registries",
    ),  # importers are registered, and conversion calls them
    ("meshgen.ir.bridge.reading", "meshgen.ir.bridge.registries"),
    ("meshgen.codegen.emit.eval", "meshgen.codegen.emit.lookup"),  # makers of values ask the evaluator for other values
    ("meshgen.codegen.emit.eval", "meshgen.codegen.emit.index_maps"),
}


def imports(path: Path, *, typed: bool = False) -> list[str]:
    """Modules of meshgen that a file imports, also inside functions; those only for the type checker where `typed`."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) and not typed
        for inner in ast.walk(node)
    }
    found: list[str] = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("meshgen"):
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if name in NAMES or node.module == "meshgen" else node.module for name in inner]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("meshgen")]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    upward = [m for m in imports(path) if own != "__init__" and LEVEL.get(part_of(m), LEVEL["__init__"]) < LEVEL[own]]
    assert upward == []


def test_no_imports_go_in_a_circle() -> None:
    """Neither imports inside functions nor those for the type checker, except where `TYPED_BACK` says why."""
    graph = {
        name: set(imports(path, typed=True)) & NAMES - {name}
        for path, name in zip(FILES, map(name_of, FILES), strict=True)
    }
    for state, table in TYPED_BACK:
        assert state in graph[table] and table in graph[state], "an exception that is not needed"
        graph[table].discard(state)
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError with the circle


@pytest.mark.parametrize("name", LIGHT)
def test_deployment_needs_no_compiler(name: str) -> None:
    """The module imports where importing xdsl, triton or jax fails."""
    program = f"import sys\nfor name in ('xdsl', 'triton', 'jax', 'torch'): sys.modules[name] = None\nimport {name}"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert outcome.returncode == 0, outcome.stderr


def test_importing_the_package_is_quick() -> None:
    """No compiler, no table printer: only what the public names need when they are used."""
    program = "import sys, meshgen; print([n for n in ('xdsl', 'triton', 'numpy', 'rich', 'jax') if n in sys.modules])"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert outcome.stdout.strip() == "[]", outcome.stderr
