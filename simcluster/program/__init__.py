"""Programs of work: operations, chunks and steps, and what waits for what."""
