"""Mesh, placement, stages, schedules."""
