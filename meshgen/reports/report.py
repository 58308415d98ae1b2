"""The HTML page about a program: one file that needs no network.

`page/content.py` collects its contents, `page/page.html` shows them.
"""

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
    """Write the HTML page of a program.

    Args:
        command: the command line that the page shows as its origin.
        loaded: the module from which the page takes kernel code; None to generate the code.
    Raises:
        UsageError: MG0003 if the file cannot be written.
    """
    _write_page(title_of(executable), [content(executable, command, loaded)], path_of(path))


def notebook_html(executable: Compiled) -> str:
    """Return the HTML that notebooks show for a program: the verdict, the collectives by cause, and the timeline."""
    return render(repr(executable), summary_of(executable).text(), "", timeline_text(executable), html=True)


def title_of(executable: Compiled) -> str:
    """Return the program's name with the file that most ops come from, since a name such as `jit__lambda` says too
    little.
    """
    module = next(iter(executable.stages.values()))
    files = Counter(PurePath(node.loc.file).name for node in program_nodes(module.graph) if node.loc)
    return f"{executable.name} from {files.most_common(1)[0][0]}" if files else executable.name


def write_reports(name: str, executables: Sequence[Compiled], path: Path) -> None:
    """Write one page for a program compiled at several sizes.

    Raises:
        UsageError: MG0003 if the file cannot be written.
    """
    _write_page(name, [content(executable, "") for executable in executables], path)


def _write_page(name: str, contents: Sequence[dict[str, Any]], path: Path) -> None:
    from jinja2 import Environment
    from markupsafe import Markup

    pages = [_page(page_content) for page_content in contents]
    model = {"columns": COLUMNS, "rows": cost_model_rows()}
    template = Environment(autoescape=True).from_string(_page_file("page.html"))
    style, script = Markup(_page_file("page.css")), Markup(_page_file("page.js"))
    write_text(path, template.render(name=name, pages=pages, model=model, style=style, script=script))


def _page_file(name: str) -> str:
    return (files("meshgen.reports.page") / name).read_text(encoding="utf-8")


def _page(page_content: dict[str, Any]) -> dict[str, Any]:
    """Return the page content with its data as JSON, in which `<` is escaped, so that it can be embedded in HTML."""
    from markupsafe import Markup

    text = json.dumps(page_content["data"], separators=(",", ":"), ensure_ascii=False)
    return page_content | {"json": Markup(text.replace("<", "\\u003c"))}
