"""How long kernels and collectives take, and how software runs them."""
