"""Weeks of running: failures, checkpoints, spares, stragglers; what a run loses to them. Pure functions of numbers."""
