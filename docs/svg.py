"""Plain SVG pictures: boxes, texts and arrows on a light background, which is readable on light and dark pages.

Texts have a monospaced font, so the width of a text follows from its length. A text that is wider than its box raises
an error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

# width of a character, in units of the font size. It is that of DejaVu Sans Mono; Menlo and Consolas are narrower
ADVANCE = 0.602
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SIZE = 14  # px; pages scale pictures down to 0.8 of their width
INK, GRAY, LINE, PAPER = "#1f2328", "#59636e", "#8c959f", "#f6f8fa"
FILLS = {"blue": "#ddf4ff", "green": "#dafbe1", "orange": "#fff1e5", "purple": "#fbefff", "gray": "#eaeef2", "white": "#ffffff"}  # fmt: skip
STROKES = {"blue": "#54aeff", "green": "#4ac26b", "orange": "#fb8f44", "purple": "#c297ff", "gray": "#8c959f", "white": "#8c959f"}  # fmt: skip


def width_of(text: str, size: float = SIZE) -> float:
    """Return the width of a text in pixels."""
    return len(text) * size * ADVANCE


@dataclass
class Picture:
    """An SVG picture that is drawn element by element. Coordinates are in pixels, y grows downwards."""

    width: int
    height: int
    title: str
    _elements: list[str] = field(default_factory=list[str])

    def box(
        self, x: float, y: float, width: float, height: float, color: str = "white", *, dashed: bool = False
    ) -> None:
        """Draw a rectangle with rounded corners."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        self._elements.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{FILLS[color]}" stroke="{STROKES[color]}"{dashes}/>'
        )

    def text(
        self, x: float, y: float, text: str, *, room: float = 0, size: float = SIZE, bold: bool = False,
        color: str = INK, anchor: str = "start",
    ) -> None:  # fmt: skip
        """Draw a line of text on the baseline `y`. Raises ValueError if it is wider than `room` pixels (0: the picture)."""
        room = room or self.width - x
        if width_of(text, size) > room + 0.5:
            raise ValueError(f"'{text}' takes {width_of(text, size):.0f} px of {room:.0f}")
        weight = ' font-weight="bold"' if bold else ""
        self._elements.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" fill="{color}" text-anchor="{anchor}"{weight}>{escape(text)}</text>'
        )

    def labeled(self, x: float, y: float, width: float, height: float, label: str, color: str = "white", *,
                size: float = SIZE, bold: bool = False) -> None:  # fmt: skip
        """Draw a box with one centered line of text in it."""
        self.box(x, y, width, height, color)
        self.text(
            x + width / 2, y + height / 2 + size * 0.35, label, room=width - 6, size=size, bold=bold, anchor="middle"
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, color: str = LINE) -> None:
        """Draw a straight arrow from (x1, y1) to (x2, y2)."""
        self._elements.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" stroke-width="1.5" marker-end="url(#head)"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, color: str = LINE) -> None:
        self._elements.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}"/>')

    def svg(self) -> str:
        """Return the text of the file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'role="img" font-family="{FONT}">\n<title>{escape(self.title)}</title>\n'
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            f'<path d="M0 0 L10 5 L0 10 z" fill="{LINE}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{PAPER}"/>\n'
        )
        return head + "\n".join(self._elements) + "\n</svg>\n"
