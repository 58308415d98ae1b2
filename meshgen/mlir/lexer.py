"""Lexer of MLIR text: xDSL's lexer, with a fast path for the three most frequent kinds of token."""

from __future__ import annotations

import re

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRTokenKind

# The group is atomic: backtracking could otherwise match the end of a comment as a token, if the text ends after the
# comment.
_TOKEN = re.compile(
    r"(?>\s*(?://[^\n]*\s*)*)(?:(?P<bare>[a-zA-Z_][a-zA-Z0-9_$.]*)"
    r"|(?P<value>%(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*))|(?P<mark>[:,()}\[\]<>=+/*?|]))"
)
_MARKS = {mark: KIND_BY_PUNCTUATION_SPELLING[mark] for mark in ":,()}[]<>=+/*?|"}


class TextLexer(MLIRLexer):
    """MLIR's lexer with a fast path for identifiers, SSA names and single-character punctuation."""

    # xDSL's regex takes exponential time on an unterminated string.
    _unescaped_characters_regex = re.compile(r'"[^"\\\n\v\f]*(?:\\(?:["nt\\]|[0-9A-Fa-f]{2})[^"\\\n\v\f]*)*"')

    def lex(self) -> Token[MLIRTokenKind, str]:
        match = _TOKEN.match(self.input.content, self.pos)
        if match is None:
            return super().lex()
        kind = match.lastgroup
        start = match.start(kind) if kind else 0
        self.pos = match.end()
        span = Span(start, self.pos, self.input)
        if kind == "mark":
            return Token(_MARKS[match[kind]], span)
        return Token(MLIRTokenKind.BARE_IDENT if kind == "bare" else MLIRTokenKind.PERCENT_IDENT, span)
