"""The HTML page about a program: one file, no network, no weights. What it shows is in `page/content.py`, how in `page/page.html`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path, PurePath
from typing import Any

from meshgen.ir.regions import program_nodes
from meshgen.reports.chart import timeline_text
from meshgen.reports.cost_model import COLUMNS, cost_model_rows
from meshgen.reports.interface import Compiled
from meshgen.reports.page.content import content
from meshgen.reports.summary import summary_of
from meshgen.reports.tables import render
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.container import path_of
from meshgen.runtime.module_file.files import write_text


def write_report(executable: Compiled, path: str | Path, command: str = "", loaded: LoadedModule | None = None) -> None:
    """Write the page; `command` is shown as what makes it, and the code of the module `loaded`, if it is of one.

    Raises UsageError MG0003 where the file cannot be written.
    """
    _write_page(title_of(executable), [content(executable, command, loaded)], path_of(path))


def notebook_html(executable: Compiled) -> str:
    """What notebooks show of a program: the verdict, the collectives by cause, and the timeline."""
    return render(repr(executable), summary_of(executable).text(), "", timeline_text(executable), html=True)


def title_of(executable: Compiled) -> str:
    """The program's name, and the file that most of its operations are from: `jit__lambda` alone says nothing."""
    module = next(iter(executable.stages.values()))
    files = Counter(PurePath(node.loc.file).name for node in program_nodes(module.graph) if node.loc)
    return f"{executable.name} from {files.most_common(1)[0][0]}" if files else executable.name


def write_reports(name: str, executables: Sequence[Compiled], path: Path) -> None:
    """Write one page for several: a program at several sizes. Raises UsageError MG0003 where the file cannot be written."""
    _write_page(name, [content(each, "") for each in executables], path)


def _write_page(name: str, contents: Sequence[dict[str, Any]], path: Path) -> None:
    from jinja2 import Environment
    from markupsafe import Markup

    pages = [_page(found) for found in contents]
    model = {"columns": COLUMNS, "rows": cost_model_rows()}
    template = Environment(autoescape=True).from_string(_page_file("page.html"))
    style, script = Markup(_page_file("page.css")), Markup(_page_file("page.js"))
    write_text(path, template.render(name=name, pages=pages, model=model, style=style, script=script))


def _page_file(name: str) -> str:
    return (files("meshgen.reports.page") / name).read_text(encoding="utf-8")


def _page(found: dict[str, Any]) -> dict[str, Any]:
    """With its data as JSON that may stand inside an element: nothing in it begins a tag."""
    from markupsafe import Markup

    text = json.dumps(found["data"], separators=(",", ":"), ensure_ascii=False)
    return found | {"json": Markup(text.replace("<", "\\u003c"))}
