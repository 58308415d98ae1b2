"""Training loops as the manuals of their frameworks write them, against sessions of the compiled step."""
