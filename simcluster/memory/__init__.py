"""Bytes of every pipeline stage's GPU by component: states, activations, buffers, and what the allocator adds."""
