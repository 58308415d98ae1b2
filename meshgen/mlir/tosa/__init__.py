"""Reader of upstream's dialect tosa: its operations by textual form, and their importers."""
