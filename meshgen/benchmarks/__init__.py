"""`meshgen bench`: what is measured or counted, a file per suite, and what is common to all: records, formats, comparison, profiles."""
