"""Hooks of `mkdocs build`. They add the pages that the navigation lacks, and replace links to files outside docs/ by
file names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SWITCHED = '<style id="hljs-light"></style><style id="hljs-dark"></style>'


def on_config(config: Any) -> Any:
    """Add the pages that `nav` lacks to the navigation, under More."""
    in_navigation = set(_files(config.nav))
    unlisted = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in in_navigation)
    if unlisted:
        config.nav.append({"More": unlisted})
    return config


def _files(nav: Any) -> Iterator[str]:
    for entry in nav if isinstance(nav, list) else nav.values():
        if isinstance(entry, str):
            yield entry
        else:
            yield from _files(entry)


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Replace links to files outside docs/, which the site does not have, by the names of the files."""
    up = "../" * (1 + (page.file.src_uri.count("/") if page else 0))
    return re.sub(rf"\[([^\]]+)\]\({re.escape(up)}([^)]+)\)", r"`\2`", markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Add the style sheets for highlighted code that the theme's darkmode.js switches. This site has no highlight.js,
    which would add them, and the script fails without them.
    """
    return output.replace("</head>", f"{_SWITCHED}</head>", 1)


def on_post_template(output_content: str, **_: Any) -> str:
    """Do the same as `on_post_page` for pages without a Markdown file."""
    return on_post_page(output_content)
