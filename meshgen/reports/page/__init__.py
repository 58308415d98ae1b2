"""The HTML page about a program: the data of its sections, and its template, style and script."""
