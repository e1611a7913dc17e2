"""Results for readers and programs."""
