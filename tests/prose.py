"""A checker of prose: it lists docstrings and comments that a reader probably has to read twice.

    python -m tests.prose FOLDER [--cut N] [--list]

Only the first sentence of a text is rated. Each rule below that matches it adds points, and a text with `HARD` or more
points is hard to read. A person classified 200 texts: of those with three points, seven of ten had to be read twice.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.sources import lines_of, nodes_of, tree_of

HARD = 3  # points, chosen: a limit of two would report half of all texts, most of them wrongly
LONGEST_SENTENCE = 25  # words, limit of the style guide
SHORTEST_COMMENT = 12  # characters, chosen: a shorter comment only labels a value
TOOLS = ("# fmt", "# type:", "# noqa", "# pyright", "# ruff", "# ---", "#!")

_VERBS_OF_HIDDEN_AGENTS = (
    "asked given taken said made known wanted left kept found told read seen done meant put held counted"
)
_HEADLESS_OPENINGS = [
    "Those",
    "What",
    "One",
    "Ones",
    "Such",
    "It",
    "Its",
    "That",
    "Of",
    "How",
    "Where",
    "In",
    "By",
    "From",
    "Along",
    "At",
    "Until",
    "Also",
    "Never",
    "Further",
    "Other",
    "Others",
    "None",
    "No",
    "All",
    "Each",
    "Some",
]


@dataclass(frozen=True)
class Rule:
    """A construction that makes a sentence hard to read.

    Attributes:
        points: the points that the construction adds.
        pattern: a regular expression that matches the construction.
    """

    name: str
    points: int
    pattern: re.Pattern[str]

    @classmethod
    def of(cls, name: str, points: int, pattern: str, flags: int = re.IGNORECASE) -> Rule:
        return cls(name, points, re.compile(pattern, flags))


RULES = (
    Rule.of(
        "a pronoun stands for a noun",
        2,
        r"\b(?:those|that of|that one|the one|one of (?:them|these)|ones?|such|its?|they|them|these|others?|the same|both|each other|itself)\b",
    ),
    Rule.of(
        "the opening has no noun and no verb",
        1,
        rf"^(?:(?:{'|'.join(_HEADLESS_OPENINGS)}|To the|A \w+ that|The \w+ (?:that|of which|in which))\b|As `)",
        flags=0,
    ),
    Rule.of(
        "an exception hangs on a semicolon",
        1,
        r"; (?:None|itself|empty|of|those|that|for|in|the first|False|0)\b",
        flags=0,
    ),
    Rule.of(
        "a clause is used as a noun",
        1,
        r"\b(?:what|whatever|whoever|how (?:it|they|a|the|many|often|far)|where (?:it|they|that|there|a|the))\b",
    ),
    Rule.of(
        "a passive hides who acts",
        1,
        rf"\b(?:is|are|was|were|be) (?:{_VERBS_OF_HIDDEN_AGENTS.replace(' ', '|')})\b",
        flags=0,
    ),
)


@dataclass(frozen=True)
class Text:
    """A docstring or comment, with the line of the definition or of the comment."""

    line: int
    text: str

    @property
    def first_sentence(self) -> str:
        return re.split(r"(?<=[.!?])\s", self.text.strip().replace("\n", " "))[0].lstrip("# ")

    @property
    def points(self) -> int:
        sentence = self.first_sentence
        points = sum(rule.points for rule in RULES if rule.pattern.search(sentence))
        return points + (len(sentence.split()) > LONGEST_SENTENCE)


def texts_of(path: Path) -> Iterator[Text]:
    """Yield every docstring and comment of a Python file."""
    nodes = nodes_of(path, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for node in (tree_of(path), *nodes):
        docstring = ast.get_docstring(node)
        if docstring:
            yield Text(getattr(node, "lineno", 1), docstring)
    for number, line in enumerate(lines_of(path), start=1):
        comment = re.search(r"(?:^\s*|\S {2,})(#.*)", line)
        if comment and len(comment[1]) > SHORTEST_COMMENT and not comment[1].startswith(TOOLS):
            yield Text(number, comment[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cut", type=int, default=HARD, help="points from which a text is hard (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print every hard text")
    options = parser.parse_args()
    total = hard = 0
    for path in sorted(options.folder.resolve().rglob("*.py")):
        for text in texts_of(path):
            total += 1
            if text.points >= options.cut:
                hard += 1
                if options.list:
                    sys.stdout.write(f"{path}:{text.line}: {text.first_sentence}\n")
    sys.stdout.write(f"{hard} of {total} texts, {hard / max(1, total):.1%}\n")


if __name__ == "__main__":
    main()
