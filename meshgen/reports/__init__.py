"""What is said of a program: records of what runs, tables, explanations, predictions, pictures, reports."""
