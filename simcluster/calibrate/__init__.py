"""Measurements to profiles."""
