"""The HTML report page, and the representations that notebooks show."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import meshgen as mg
from meshgen import api
from tests.programs import mlp
from tests.reports.models import layers


def model(x: mg.Tensor, ws: list[mg.Tensor]) -> mg.Tensor:
    for up, down in zip(ws[::2], ws[1::2], strict=True):
        x = mg.tanh(x @ up) @ down + x
    return x


def compiled(layers: int) -> mg.Executable:
    types = ["f32[64,256]", "f32[256,64]"] * layers
    specs = {"ws.*": None, "x": mg.P(None, None)} | {f"ws.{n}": mg.P("tp", None) if n % 2 else mg.P(None, "tp") for n in range(2 * layers)}  # fmt: skip
    specs.pop("ws.*")
    return mg.compile(model, {"tp": 4}, args=["f32[16,64]", types], in_specs=specs, target="cpu")


class Reader(HTMLParser):
    """Parser of a page that collects unclosed tags, ids, fetched resources, and the text of elements by tag and id or
    class.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.fetched: list[str] = []
        self.texts: dict[str, str] = {}
        self._key = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.ids += [str(attributes["id"])] if "id" in attributes else []
        self.fetched += [f"{tag} {name}" for name in attributes if name in ("src", "href", "action")]
        if tag not in ("meta", "input", "br", "rect", "circle"):
            self.open.append(tag)
        self._key = f"{tag} {attributes.get('id', attributes.get('class', ''))}".strip()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[self._key] = self.texts.get(self._key, "") + data


def read(path: Path) -> tuple[Reader, dict[str, Any]]:
    reader = Reader(path.read_text())
    return reader, json.loads(reader.texts["script data-0"])


def test_page_is_well_formed_and_fetches_nothing(tmp_path: Path) -> None:
    compiled(3).report(tmp_path / "r.html")
    reader, _ = read(tmp_path / "r.html")
    assert not reader.open and not reader.fetched and len(reader.ids) == len({*reader.ids})
    assert reader.texts["title"] == "model from test_report.py"
    assert not re.search(r"https?:|@import|url\(|fetch\(", reader.texts["style"] + reader.texts["script"])


def test_page_figures_equal_json_record(tmp_path: Path) -> None:
    executable = compiled(3)
    executable.report(tmp_path / "r.html")
    reader, data = read(tmp_path / "r.html")
    record = executable.record()
    assert data["step"] == pytest.approx(record["step_seconds"] * 1e6)
    assert sum(row["ring_bytes"] * row["times"] for row in data["collectives"]) == record["ring_bytes"]
    assert sum(row["launches"] for row in data["kernels"]) == record["kernels"]
    assert max(total for _, total in data["memory"][0]["curve"]) == record["live_peak_bytes"]
    assert sum(len(lane["spans"]) for lane in data["lanes"]) == len(executable.plan.items)
    assert f"{record['step_seconds'] * 1e6:.3g} us" in reader.texts["p figure"]


def test_page_groups_collectives_of_layers_into_one_cause(tmp_path: Path) -> None:
    executable = compiled(5)
    executable.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert len(executable.comms) == 5 and page.count('class="cause"') == 1 and 'data-numbers="0 1 2 3 4"' in page


def test_script_end_tag_in_names_is_escaped(tmp_path: Path) -> None:
    text = layers(2).replace('"model.py"', '"</script><b>.py"')
    api.plan(text, target="cpu").report(tmp_path / "r.html")
    reader, data = read(tmp_path / "r.html")
    assert not reader.open and any(
        "</script>" in row["source"] or "script><b>" in row["source"] for row in data["collectives"]
    )


def test_page_of_deep_program_stays_small(tmp_path: Path) -> None:
    api.plan(layers(32), target="cuda:sm_90").report(tmp_path / "r.html")
    _, data = read(tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 500_000 and len(data["collectives"]) == 32
    assert data["code"]["triton"] and not data["code"]["left_out"]


def test_notebook_shows_summary_of_executables() -> None:
    html = notebook_html(mg.compile(mlp(w1=("x", "y")), target="cpu"))
    assert html.startswith("<pre>") and "by cause" in html and "What matters most" in html and "communicates" in html
    args = {name: ["f32[4,8]", ["f32[8,8]", "f32[8,8]"]] for name in "fg"}
    assert "EntriesExecutable" in notebook_html(
        mg.compile({"f": model, "g": model}, {"tp": 2}, args=args, target="cpu")
    )
    open_size = "func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {\n  return %x : tensor<?x8xf32>\n}"
    assert "OpenExecutable" in notebook_html(mg.compile(open_size, {"tp": 2}, target="cpu"))


def test_notebook_shows_mesh_sharding_cost_and_memory() -> None:
    executable = mg.compile(mlp(), target="cpu")
    assert (
        notebook_html(executable.mesh) == "<code>Mesh(x=2, y=2)</code>"
        and notebook_html(mg.P("x", None)) == "<code>[{x}, {}]</code>"
    )
    assert "Cost per device" in notebook_html(executable.cost) and "Memory: " in notebook_html(executable.memory)
    assert "Collectives: " in notebook_html(executable.comms)


def notebook_html(executable: Any) -> str:
    return getattr(executable, "_repr_html_")()  # noqa: B009 - as notebooks call it
