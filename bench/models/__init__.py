"""Models as their authors write them, each with shardings as a user gives them: `catalog.py` lists the families."""
