"""Reader of upstream's dialect linalg: structured and named operations."""
