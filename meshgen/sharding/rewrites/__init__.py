"""Programs that compute the same as the user's: found, rewritten, and compared by what they cost."""
