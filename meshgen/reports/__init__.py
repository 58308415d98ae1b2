"""Reports about a compiled program: records, tables, explanations, predictions, pictures and the HTML page."""
