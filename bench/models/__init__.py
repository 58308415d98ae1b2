"""Models in the style of their authors, with shardings in the style of users. `catalog.py` lists the families."""
