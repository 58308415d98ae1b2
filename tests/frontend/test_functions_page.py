"""The page of functions: its code blocks execute, and it lists all functions."""

from __future__ import annotations

import re
from typing import Any

import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "functions.md").read_text()


def test_code_blocks_of_functions_page_execute() -> None:
    pytest.importorskip("jax")
    page: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 2
    for text in blocks:
        exec(compile("\n" * PAGE.partition(text)[0].count("\n") + text, "functions.md", "exec"), page)
    assert page["exe"].comms.count("all_reduce") == 1


def test_functions_page_lists_every_name() -> None:
    listed = {name for row in re.findall(r"`mg\.([\w.]+)", PAGE) for name in (row, row.partition(".")[0])}
    assert set(dir(mg)) - set(mg.__all__) <= listed


def test_unknown_name_is_rejected_with_similar_names() -> None:
    looked_up: list[tuple[Any, str]] = [
        (lambda x: mg.tirl(x), r"unknown name mg\.tirl(?s:.)*did you mean mg\.tril"),
        (lambda x: mg.compyle(x), r"did you mean mg\.compile"),
        (lambda x: mg.linalg.choleski(x), r"unknown name mg\.linalg\.choleski(?s:.)*did you mean mg\.linalg\.cholesky"),
        (lambda x: x.reshap(3), r"unknown name Tensor\.reshap(?s:.)*did you mean Tensor\.reshape"),
        (lambda x: x.at[0].st(1), r"did you mean x\.at\[\.\.\.\]\.set"),
        (lambda x: mg.grad(x), r"mg\.from_jax\(jax\.grad\(f\)\)"),
        (lambda x: mg.zyx(x), r"docs/functions\.md lists all"),
    ]
    for function, text in looked_up:
        with pytest.raises(ProgramError, match=f"MG0105: (?s:.)*{text}") as caught:
            mg.trace(function, ["f32[3]"])
        loc = caught.value.diagnostics[0].loc
        assert loc is not None and (loc.file, loc.line) == (__file__, function.__code__.co_firstlineno)
    # for an unknown name, `hasattr` and `getattr` with a default raise no error
    assert not hasattr(mg, "tirl") and getattr(mg.fft, "nope", None) is None
    assert repr(mg.random).startswith("<meshgen.random: PRNGKey, bernoulli, bits")
