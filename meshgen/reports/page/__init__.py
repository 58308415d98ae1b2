"""The HTML page about a program: the contents of its parts, and its template, style and script."""
