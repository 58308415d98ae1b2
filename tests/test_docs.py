"""Generated pages are up to date, and every file, function and command that documents name exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meshgen.errors import CODES
from tests.sources import FILES, ROOT, TESTS, lines_of, place, refuse, tree_of

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    return generate


def test_generated_pages_are_current() -> None:
    generate = generator()
    stale = [page.name for page, text in generate.pages().items() if page.read_text() != text]
    assert stale == [], "run `make docs`"


def missing_files(document: Path) -> Iterator[str]:
    """Yield the links and file names in a document whose target does not exist, as document:line."""
    for line_number, line in enumerate(lines_of(document), start=1):
        links = [target for target in re.findall(r"\]\(([^)#:]+)\)", line) if not target.startswith("http")]
        named = re.findall(r"`((?:meshgen|tests|docs|examples|bench)/[\w/.]+?)/?`", line)
        missing = [name for name in links if not (document.parent / name).exists()]
        missing += [name for name in named if not (ROOT / name).exists()]
        yield from (f"{place(document, line_number)}: {name}" for name in missing)


def test_documents_name_files_that_exist() -> None:
    refuse([offender for document in DOCUMENTS for offender in missing_files(document)])


_NAMED = re.compile(r"`((?:[\w.]+/)*\w+\.py)`")
NOT_IN_PROJECT = {"jax/_src/cudnn/fused_attention_stablehlo.py", "kernels/NAME.py", "test_memory_limits.py"}
"""Python files that docs name and the project lacks: a file of JAX, a member of modules, and an example of a name."""


def test_docs_and_docstrings_name_sources_that_exist() -> None:
    folders = [ROOT / name for name in (".ci", "meshgen", "tests", "bench", "docs", "examples")]
    sources = [path.relative_to(ROOT).parts for folder in folders for path in folder.rglob("*.py")]
    existing = NOT_IN_PROJECT | {
        "/".join(path_parts[start:]) for path_parts in sources for start in range(len(path_parts))
    }
    named = ((path, name) for path in (*DOCUMENTS, *FILES, *TESTS) for name in _NAMED.findall(path.read_text()))
    refuse([f"{path.relative_to(ROOT)}: {name}" for path, name in named if name not in existing])


def missing_definitions(document: Path) -> Iterator[str]:
    """Yield names in a document that do not exist: definitions `file::name`, and modules or tests in commands."""
    text = document.read_text()
    for path, name in re.findall(r"`([\w/.]+\.py)::(\w+)`", text):
        if name not in definitions(ROOT / path):
            yield f"{path}::{name}"
    for module in re.findall(r"python -m ((?:tests|bench|meshgen)[\w.]*)", text):
        path = ROOT / module.replace(".", "/")
        if not (path.is_dir() or path.with_suffix(".py").exists()):
            yield f"python -m {module}"
    tested = [word for command in re.findall(r"`pytest ([^`]*)`", text) for word in command.split() if "/" in word]
    yield from (f"pytest {path}" for path in tested if not (ROOT / path).exists())


def definitions(path: Path) -> set[str]:
    """Return the names of the functions, classes and values at the top level of a file. Return none if the file does
    not exist.
    """
    defined: set[str] = set()
    for statement in tree_of(path).body if path.exists() else ():
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            defined.add(statement.name)
        targets = [*getattr(statement, "targets", ()), getattr(statement, "target", None)]
        defined |= {target.id for target in targets if isinstance(target, ast.Name)}
    return defined


def test_documents_have_no_merge_conflict_markers() -> None:
    marks = ("<<<<<<< ", ">>>>>>> ")
    lines = [
        (document, line_number, line)
        for document in DOCUMENTS
        for line_number, line in enumerate(lines_of(document), 1)
    ]
    refuse([place(document, line_number) for document, line_number, line in lines if line.startswith(marks)])


def test_documents_name_functions_and_commands_that_exist() -> None:
    refuse([f"{document.name}: {name}" for document in DOCUMENTS for name in missing_definitions(document)])


def test_call_tree_of_the_architecture_names_files_and_functions() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    tree = re.search(r"^```text\n(meshgen compile .*?)^```", page, re.DOTALL | re.MULTILINE)
    assert tree
    files = re.findall(r"[\w/]+\.py", tree[1])
    refuse([f"meshgen/{path}" for path in files if not (ROOT / "meshgen" / path).exists()])
    functions = re.findall(r"^ +([A-Z]?\w+(?:\.\w+)?)(?:\[\w+\])?  +\w", tree[1], re.MULTILINE)
    text = "\n".join(line for path in FILES for line in lines_of(path))
    names = [name.rpartition(".")[2] for name in functions]
    assert len(files) >= 8 and len(names) >= 9
    refuse([name for name in names if not re.search(rf"^ *(?:def {name}\(|{name}\b.* = )", text, re.MULTILINE)])


def test_missing_definitions_and_commands_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`tests/sources.py::refuse`, `tests/sources.py::no`, `python -m tests.near`, `python -m tests.no`, `pytest -k a tests/no.py`"
    )
    assert [*missing_definitions(page)] == ["tests/sources.py::no", "python -m tests.no", "pytest tests/no.py"]


def test_decision_records_have_four_parts_on_half_a_page() -> None:
    generator()  # makes the files of docs/ importable
    page = importlib.import_module("decisions_page")
    for record in page.decisions():
        text = record.path.read_text()
        assert tuple(re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)) == page.PARTS, record.path.name
        assert len(text.split()) <= 260, record.path.name


def unknown_codes(path: Path) -> Iterator[str]:
    for line_number, line in enumerate(lines_of(path), start=1):
        unknown = set(re.findall(r"MG\d{4}", line)) - set(CODES)
        yield from (f"{place(path, line_number)}: {code}" for code in sorted(unknown))


def test_every_diagnostic_code_in_the_source_is_registered() -> None:
    refuse([offender for path in FILES for offender in unknown_codes(path)])


def test_ops_page_claims_kernels_for_generated_ops() -> None:
    """`docs/kernel_examples.py` has an example program for each op, and the table says for which of them kernels can be
    generated. So every op with a kernel needs an example.
    """
    from meshgen.ops.classes import GENERATED, NESTS

    generator()  # makes the files of docs/ importable
    examples = importlib.import_module("kernel_examples")
    assert examples.names() >= GENERATED | NESTS
    claimed = {name: examples.kernels_of(name) for name in ("and", "constant", "gather", "popcnt", "rng_bit_generator")}
    assert claimed == {"and": "yes", "constant": "yes", "gather": "yes", "popcnt": "yes",
                    "rng_bit_generator": "yes"}  # fmt: skip
    assert [examples.kernels_of(name) for name in ("if", "case", "while", "sort", "fft", "lapack")] == [
        *["yes"] * 5,
        "",
    ]


def test_every_diagnostic_code_is_explained() -> None:
    assert list(generator().FAULTS) == list(CODES)


def test_every_diagnostic_code_is_named_by_a_test() -> None:
    texts = ["\n".join(lines_of(path)) for path in TESTS if path.name.startswith("test_")]
    refuse([code for code in CODES if not any(code in text for text in texts)])
