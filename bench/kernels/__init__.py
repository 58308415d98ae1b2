"""Programs of one kernel, or a few: what is generated for them, what is predicted, and on a GPU what is measured."""
