"""Training loops from the manuals of their frameworks, compared with sessions of the compiled step."""
