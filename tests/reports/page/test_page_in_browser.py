"""The page in headless Chromium: it opens quickly, without errors, and search, folding and zoom work."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen import api
from tests.reports.browser import evaluated, needs_chromium
from tests.reports.models import layers

LOAD_SECONDS = 1.0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "r.html"
    api.plan(layers(32), target="cuda:sm_90").report(path)
    return path


@needs_chromium
def test_it_opens_without_errors_and_draws_all_charts(page: Path) -> None:
    script = """return {empty: [...document.querySelectorAll('[data-chart]')].filter((box) => !box.childElementCount).length,
        bars: document.querySelectorAll('[data-chart=timeline] rect').length};"""
    tries = [evaluated(page, script) for _ in range(3)]
    assert tries[0]["errors"] == [] and tries[0]["empty"] == 0 and tries[0]["bars"] > 60
    assert min(each["seconds"] for each in tries) < LOAD_SECONDS


@needs_chromium
def test_search_hides_what_does_not_match(page: Path) -> None:
    script = """const box = document.getElementById('search');
        const shown = (kind) => [...document.querySelectorAll(kind)].filter((each) => !each.classList.contains('hidden')).length;
        const counts = ['', 'layer_*/mlp', 'no such thing'].map((text) => { box.value = text; box.dispatchEvent(new Event('input')); return [shown('.cause'), shown('.kernel-row')]; });
        return {counts};"""
    found = evaluated(page, script)
    assert found["errors"] == [] and found["counts"][0][0] == found["counts"][1][0] == 1
    assert found["counts"][0][1] > 0 and found["counts"][2] == [0, 0]


@needs_chromium
def test_causes_unfold_to_their_collectives_and_kernels_to_their_code(page: Path) -> None:
    script = """const cause = document.querySelector('.cause'), kernel = document.querySelector('.kernel-row');
        for (const each of [cause, kernel]) { each.open = true; each.dispatchEvent(new Event('toggle')); }
        return {rows: cause.querySelectorAll('tr').length, code: kernel.querySelector('pre').textContent};"""
    found = evaluated(page, script)
    assert found["errors"] == [] and found["rows"] == 33 and "@triton.jit" in found["code"]


@needs_chromium
def test_the_wheel_zooms_the_timeline(page: Path) -> None:
    script = """const svg = document.querySelector('[data-chart=timeline] svg'), before = svg.querySelectorAll('rect').length;
        for (let n = 0; n < 12; n++) svg.dispatchEvent(new WheelEvent('wheel', {deltaY: -1, clientX: svg.getBoundingClientRect().left + 600}));
        const zoomed = svg.querySelectorAll('rect').length;
        svg.dispatchEvent(new MouseEvent('dblclick'));
        return {before, zoomed, after: svg.querySelectorAll('rect').length};"""
    found = evaluated(page, script)
    assert found["errors"] == [] and 0 < found["zoomed"] < found["before"] / 4 and found["after"] == found["before"]
