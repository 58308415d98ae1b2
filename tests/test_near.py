"""`make near FILE=...` lists test files. Those that a change of FILE would break come first."""

from __future__ import annotations

import pytest

from tests.near import main, nearest_tests
from tests.sources import ROOT


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("meshgen/codegen/scheduling/memory.py", "tests/codegen/test_memory.py"),  # by name
        (
            "meshgen/codegen/passes/transpose_into_dot.py",
            "tests/passes/test_pass_files.py",
        ),  # because the pass has a text file of tests
        ("meshgen/ccl/lower_groups.py", "tests/codegen/passes/test_all_reduce_promote.py"),  # by import
        ("meshgen/names.py", "tests/test_mesh.py"),  # by shared words: nearly all tests are equally near by imports
        # by shared words, although the test is far away by imports
        ("meshgen/ir/inline.py", "tests/acceptance/test_long_programs.py"),
        # by a word in the name of the module
        ("meshgen/compiled/multi_mesh.py", "tests/sharding/multi_mesh/test_meshes_explain.py"),
        # by the name of a folder, which is a word in the name of the test
        ("meshgen/frontend/onnx/ops/layout.py", "tests/frontend/test_onnx_operators.py"),
        ("tests/test_near.py", "tests/test_near.py"),
    ],
)
def test_nearest_tests_are_selected_by_name_import_and_words(module: str, test: str) -> None:
    assert ROOT / test in nearest_tests(ROOT / module)


def test_nearest_tests_keep_to_the_limit() -> None:
    assert len(nearest_tests(ROOT / "meshgen/ir/graph.py", 5)) == 5


def test_file_outside_of_the_project_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["README.md"])
    assert "README.md is no Python file of meshgen or tests" in capsys.readouterr().err
