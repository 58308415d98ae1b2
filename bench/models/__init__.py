"""Models written as their authors write them, with shardings as users write them. `catalog.py` lists the families."""
