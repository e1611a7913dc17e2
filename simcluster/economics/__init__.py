"""Money: what owning and renting cost per month, GPU-hour, token and run, and when one beats the other.

Pure functions on numbers or numpy arrays; USD, seconds and watts at the boundary, months inside (see `hours`).
"""
