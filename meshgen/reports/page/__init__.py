"""The HTML page about a program: what it shows, by part, and its template, style and script."""
