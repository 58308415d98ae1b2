"""Training loops as in the manuals of their frameworks, compared with sessions of the compiled step."""
