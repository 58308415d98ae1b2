"""Process state: module-level containers that functions change, and unbounded caches.

Each is listed here with its reason. Results of a compilation belong to its context, or to the graph or module that they
describe (`meshgen/compilation.py`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.sources import FILES, ROOT, nodes_of, refuse, tree_of

STATE = {
    # Registries, which decorators and calls at import fill.
    "meshgen/emulator/decoder_table.py DECODERS": "registry of PTX instructions",
    "meshgen/frontend/onnx/ops/table.py TABLE": "registry of ONNX operators",
    "meshgen/frontend/torch/ops/table.py TORCH_OPS": "registry of torch operators",
    "meshgen/frontend/tracer/recording.py OPS": "registry of functions that trees of the tracer name",
    "meshgen/ir/attributes/table.py KINDS": "the classes of attributes of the registered op records",
    "meshgen/ops/registry.py OPS": "registry of op records",
    "meshgen/ops/user_ops.py USER_OPS": "registry of ops that users define",
    "meshgen/sharding/partitioners/registry.py PARTITIONERS": "registry of partitioners",
    # Resources that the process owns.
    "meshgen/cli.py _STARTED": "when the process began, for its first command",
    "meshgen/codegen/building/workers.py _idle": "processes that build kernels",
    "meshgen/codegen/building/workers.py _living": "processes that build kernels",
    "meshgen/commands/streams.py _documents": "the stdout of the process while other output is led to stderr",
    "meshgen/frontend/tracer/recording.py CURRENT": "the trace under way, per thread",
    "meshgen/gc_pace.py _entered": "the pace of Python's collector",
    "meshgen/runtime/cuda/deferred_free.py _RETIRED": "devices to free after the calls under way",
    "meshgen/runtime/cuda/deferred_free.py _UNDER_WAY": "calls under way, in all threads",
    "meshgen/runtime/dlpack.py _EXPORTED": "memory that other libraries hold",
    "meshgen/runtime/recording.py _SPANS": "the step that is measured, per thread",
    "meshgen/runtime/processes/bootstrap.py _worlds": "the connections of this process to other ranks",
    # Results whose keys are from a small set: element types, architectures, ops, tools.
    "meshgen/benchmarks/stack.py _lowered": "by number of layers",
    "meshgen/codegen/building/build.py _versions": "by tool of the toolchain",
    "meshgen/codegen/building/build.py assembled_architectures": "by path of the assembler",
    "meshgen/compiled/record_json.py _checker": "by type of a field of records",
    "meshgen/compiled/record_json.py _hints": "by class of records",
    "meshgen/compiled/record_json.py saved_fields": "by class of records",
    "meshgen/emulator/matrices.py _product": "by shape and element types of a matrix instruction",
    "meshgen/frontend/onnx/schemas.py newest_operands": "by ONNX operator",
    "meshgen/kernels/matmul.py candidates": "by element type and architecture",
    "meshgen/kernels/matmul.py reducible_columns": "by element type",
    "meshgen/kernels/copy_ptx.py copy_kernel": "by size of an element",
    "meshgen/kernels/reduce_ptx.py reduce_kernel": "by reduction, element types and number of arrays",
    "meshgen/mlir/families.py _dialects": "by two flags",
    "meshgen/ops/special_functions.py _scipy": "by function",
    "meshgen/testing/generators/elementwise.py smooth": "by op",
    "meshgen/testing/generators/elementwise.py takes": "by op and element type",
}
# Files that call `id`, with the number of calls, and what keeps the objects alive.
IDENTITIES = {
    "meshgen/frontend/torch/export.py": (2, "tensors, which the module holds during a call"),
    "meshgen/identity_dict.py": (4, "the keys of an `IdentityDict`, which it holds"),
    "meshgen/mlir/reader_state.py": (2, "attributes of xDSL, which the table holds beside their results"),
    "meshgen/ops/types/inference.py": (1, "attributes of nodes, which the graph holds during a check"),
    "meshgen/sharding/candidates/search.py": (1, "attributes of nodes, which both graphs hold during a comparison"),
    "meshgen/sharding/propagation/array_cache.py": (6, "arrays, which `ArrayCache.seen` and the networks hold"),
    "meshgen/sharding/propagation/network.py": (4, "arrays, which `ArrayCache.seen` and the networks hold"),
}
CHANGES = {"append", "add", "update", "setdefault", "pop", "popitem", "clear", "extend", "remove", "insert", "discard"}
ALWAYS_STATE = {"WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "ContextVar", "local"}
UNBOUNDED = {"cache", "lru_cache(maxsize=None)", "lru_cache(None)"}
Name = tuple[Path, str]


def home(module: str) -> Path:
    """Return the file of a module."""
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def names_in(path: Path) -> dict[str, Name]:
    """Map each module-level variable that functions of the file can read to the file and name of its definition.
    Imported variables are included.
    """
    seen = {name: (path, name) for name in assigned(path)}
    for node in nodes_of(path, ast.ImportFrom):
        if (module := node.module or "").startswith("meshgen"):
            source = home(module)
            seen |= {n.asname or n.name: (source, n.name) for n in node.names if n.name in assigned(source)}
    return seen


@cache
def assigned(path: Path) -> dict[str, ast.expr]:
    """Return the values that a file assigns at its top level, by name."""
    values: dict[str, ast.expr] = {}
    for statement in tree_of(path).body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values[statement.target.id] = statement.value
        elif isinstance(statement, ast.Assign):
            values |= {target.id: statement.value for target in statement.targets if isinstance(target, ast.Name)}
    return values


def changed_in(path: Path) -> Iterator[Name]:
    """Yield the module-level containers that a function of this file changes."""
    names = names_in(path)
    functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    at_import = [s for s in tree_of(path).body if not isinstance(s, functions)]
    lines = {line for s in at_import for line in range(s.lineno, (s.end_lineno or s.lineno) + 1)}
    for node in nodes_of(path, ast.Subscript, ast.Call):
        if isinstance(changed := changed_by(node), ast.Name) and changed.id in names and node.lineno not in lines:
            yield names[changed.id]
    for node in nodes_of(path, ast.Global):
        yield from ((path, name) for name in node.names)


def changed_by(node: ast.AST) -> ast.expr | None:
    """Return the container that an expression or statement changes, or None if it changes none."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        return node.func.value
    return None


def called(value: ast.expr) -> str:
    """Return the last name in the function that `value` calls (`f` for `a.b.f()`), or "" if `value` is not a call."""
    if not isinstance(value, ast.Call):
        return ""
    function = value.func.value if isinstance(value.func, ast.Subscript) else value.func
    return ast.unparse(function).rpartition(".")[2]


def unbounded_caches(path: Path) -> Iterator[Name]:
    """Yield the functions with parameters whose results are cached without a bound."""
    for function in nodes_of(path, ast.FunctionDef):
        decorators = {ast.unparse(decorator).removeprefix("functools.") for decorator in function.decorator_list}
        if decorators & UNBOUNDED and (function.args.args or function.args.kwonlyargs or function.args.vararg):
            yield path, function.name


def states() -> set[str]:
    names = {(path, name) for path in FILES for name, value in assigned(path).items() if called(value) in ALWAYS_STATE}
    for path in FILES:
        names.update(changed_in(path))
        names.update(unbounded_caches(path))
    return {f"{path.relative_to(ROOT)} {name}" for path, name in names}


def test_module_state_is_listed() -> None:
    present = states()
    refuse(
        [
            f"{name}: keep it in the context of the compilation, or list it with a reason"
            for name in present - STATE.keys()
        ]
    )
    gone = {name for name in STATE.keys() - present if (ROOT / name.partition(" ")[0]).exists()}
    refuse([f"{name}: it is gone from the source" for name in gone])


def test_no_weak_maps_are_created() -> None:
    maps = [f"{path.relative_to(ROOT)}: {called(node)}" for path in FILES for node in nodes_of(path, ast.Call)
            if called(node) in ("WeakKeyDictionary", "WeakValueDictionary")]  # fmt: skip
    assert not maps


def test_calls_of_id_are_listed() -> None:
    """An `id(...)` is a valid key only while its object is alive. Nodes, values and graphs can be keys themselves; for
    other objects use an `IdentityDict`.
    """
    uses = Counter(
        path.relative_to(ROOT).as_posix() for path in FILES for node in nodes_of(path, ast.Call) if called(node) == "id"
    )
    listed = Counter({path: count for path, (count, _) in IDENTITIES.items()})
    refuse(
        [
            f"{path}: {uses[path]} calls of id, {listed[path]} are listed"
            for path in sorted(uses.keys() | listed.keys())
            if uses[path] != listed[path]
        ]
    )
