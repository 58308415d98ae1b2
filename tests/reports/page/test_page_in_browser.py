"""The report page in headless Chromium: load time, script errors, search, folding and zoom."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshgen import api
from tests.reports.browser import evaluate_on_page, needs_chromium
from tests.reports.models import layers

LOAD_SECONDS = 1.0


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "r.html"
    api.plan(layers(32), target="cuda:sm_90").report(path)
    return path


@needs_chromium
def test_page_opens_without_errors_and_draws_all_charts(page: Path) -> None:
    script = """return {empty: [...document.querySelectorAll('[data-chart]')].filter((box) => !box.childElementCount).length,
        bars: document.querySelectorAll('[data-chart=timeline] rect').length};"""
    attempts = [evaluate_on_page(page, script) for _ in range(3)]
    assert attempts[0]["errors"] == [] and attempts[0]["empty"] == 0 and attempts[0]["bars"] > 60
    assert min(attempt["seconds"] for attempt in attempts) < LOAD_SECONDS


@needs_chromium
def test_search_hides_unmatched_entries(page: Path) -> None:
    script = """const box = document.getElementById('search');
        const shown = (kind) => [...document.querySelectorAll(kind)].filter((each) => !each.classList.contains('hidden')).length;
        const counts = ['', 'layer_*/mlp', 'no such thing'].map((text) => { box.value = text; box.dispatchEvent(new Event('input')); return [shown('.cause'), shown('.kernel-row')]; });
        return {counts};"""
    page_state = evaluate_on_page(page, script)
    assert page_state["errors"] == [] and page_state["counts"][0][0] == page_state["counts"][1][0] == 1
    assert page_state["counts"][0][1] > 0 and page_state["counts"][2] == [0, 0]


@needs_chromium
def test_causes_unfold_to_collectives_and_kernels_to_code(page: Path) -> None:
    script = """const cause = document.querySelector('.cause'), kernel = document.querySelector('.kernel-row');
        for (const each of [cause, kernel]) { each.open = true; each.dispatchEvent(new Event('toggle')); }
        return {rows: cause.querySelectorAll('tr').length, code: kernel.querySelector('pre').textContent};"""
    page_state = evaluate_on_page(page, script)
    assert page_state["errors"] == [] and page_state["rows"] == 33 and "@triton.jit" in page_state["code"]


@needs_chromium
def test_mouse_wheel_zooms_timeline(page: Path) -> None:
    script = """const svg = document.querySelector('[data-chart=timeline] svg'), before = svg.querySelectorAll('rect').length;
        for (let n = 0; n < 12; n++) svg.dispatchEvent(new WheelEvent('wheel', {deltaY: -1, clientX: svg.getBoundingClientRect().left + 600}));
        const zoomed = svg.querySelectorAll('rect').length;
        svg.dispatchEvent(new MouseEvent('dblclick'));
        return {before, zoomed, after: svg.querySelectorAll('rect').length};"""
    page_state = evaluate_on_page(page, script)
    assert (
        page_state["errors"] == []
        and 0 < page_state["zoomed"] < page_state["before"] / 4
        and page_state["after"] == page_state["before"]
    )
