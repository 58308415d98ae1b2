"""The HTML page, and what notebooks show."""

from __future__ import annotations

import re
from pathlib import Path

import meshgen as mg
from tests.programs import mlp


def model(x: mg.Tensor, ws: list[mg.Tensor]) -> mg.Tensor:
    for up, down in zip(ws[::2], ws[1::2], strict=True):
        x = mg.tanh(x @ up) @ down + x
    return x


def compiled(layers: int) -> mg.Executable:
    types = ["f32[64,256]", "f32[256,64]"] * layers
    specs = {"ws.*": None, "x": mg.P(None, None)} | {f"ws.{n}": mg.P("tp", None) if n % 2 else mg.P(None, "tp") for n in range(2 * layers)}  # fmt: skip
    specs.pop("ws.*")
    return mg.compile(model, {"tp": 4}, args=["f32[16,64]", types], in_specs=specs, target="cpu")


def test_the_page_names_the_file_and_leads_from_bars_to_kernels(tmp_path: Path) -> None:
    compiled(3).report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "<title>model from test_report.py</title>" in page
    links, rows = {*re.findall(r'<a href="#([^"]+)">', page)}, re.findall(r'<tr id="([^"]+)">', page)
    assert len(rows) == len({*rows}) and links <= {*rows} and "0-collectives" in links
    assert len([link for link in links if link.startswith("0-kernel-")]) > 1


def test_collectives_of_layers_are_one_row_of_the_page(tmp_path: Path) -> None:
    executable = compiled(5)
    executable.report(tmp_path / "r.html")
    assert len(executable.comms) == 5 and '"0-collectives-1"' not in (tmp_path / "r.html").read_text()


def test_notebooks_show_the_step_and_its_collectives() -> None:
    html = shown(mg.compile(mlp(w1=("x", "y")), target="cpu"))
    assert html.startswith("<pre>") and "Collectives: " in html and "floating-point operations" in html
    args = {name: ["f32[4,8]", ["f32[8,8]", "f32[8,8]"]] for name in "fg"}
    assert "EntriesExecutable" in shown(mg.compile({"f": model, "g": model}, {"tp": 2}, args=args, target="cpu"))
    open_size = "func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {\n  return %x : tensor<?x8xf32>\n}"
    assert "OpenExecutable" in shown(mg.compile(open_size, {"tp": 2}, target="cpu"))


def shown(executable: mg.Executable) -> str:
    return getattr(executable, "_repr_html_")()  # noqa: B009 - as notebooks call it
