"""Models as operators, parameters, FLOPs and bytes."""
