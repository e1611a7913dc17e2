"""Other people's files, to plain records."""
