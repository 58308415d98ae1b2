"""Generated pages are current, and the documents name what exists."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from meshgen.errors import CODES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents_name_files_that_exist(document: Path) -> None:
    text = document.read_text()
    links = [target for target in re.findall(r"\]\(([^)#:]+)\)", text) if not target.startswith("http")]
    named = re.findall(r"`((?:meshgen|tests|docs|examples|bench)/[\w/.]+?)/?`", text)
    missing = [name for name in links if not (document.parent / name).exists()]
    missing += [name for name in named if not (ROOT / name).exists()]
    assert missing == []


@pytest.mark.parametrize("path", sorted((ROOT / "meshgen").rglob("*.py")), ids=lambda path: path.name)
def test_every_number_in_the_code_is_a_known_fault(path: Path) -> None:
    assert set(re.findall(r"MG\d{4}", path.read_text())) <= set(CODES)


def test_kernels_are_claimed_for_what_is_generated() -> None:
    """The table's last column comes from trying; an operation that nobody tries would be left out of it."""
    from meshgen.codegen.triton_source import GENERATED

    generator()  # makes the files beside it importable
    examples = importlib.import_module("kernel_examples")
    assert examples.names() >= GENERATED
    said = {name: examples.kernels_of(name) for name in ("and", "constant", "gather", "popcnt", "rng_bit_generator")}
    assert said == {"and": "yes", "constant": "yes", "gather": "yes", "popcnt": "not of i64, ui64",
                    "rng_bit_generator": "yes"}  # fmt: skip
    assert [examples.kernels_of(name) for name in ("if", "case", "while", "sort", "complex")] == [*["yes"] * 3, "", ""]


def test_every_fault_is_explained() -> None:
    assert list(generator().FAULTS) == list(CODES)


def test_every_fault_is_provoked_by_a_test() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    assert [code for code in CODES if not any(code in text for text in texts)] == []
