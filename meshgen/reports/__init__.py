"""Reports about a compiled program: JSON records, text tables, explanations, predictions, pictures and the HTML
page.
"""
