"""MLIR's tokens: xDSL's lexer, with the three commonest kinds of token taken by one regular expression."""

from __future__ import annotations

import re

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import KIND_BY_PUNCTUATION_SPELLING, MLIRLexer, MLIRTokenKind

_TOKEN = re.compile(  # atomic: else the end of a comment is taken for a token where what follows is none of these
    r"(?>\s*(?://[^\n]*\s*)*)(?:(?P<bare>[a-zA-Z_][a-zA-Z0-9_$.]*)"
    r"|(?P<value>%(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*))|(?P<mark>[:,()}\[\]<>=+/*?|]))"
)
_MARKS = {mark: KIND_BY_PUNCTUATION_SPELLING[mark] for mark in ":,()}[]<>=+/*?|"}


class TextLexer(MLIRLexer):
    """MLIR's tokens; identifiers, values and single marks on a fast path."""

    # xDSL's own takes exponential time on a string that is not closed.
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
