"""Solves programs: longest paths over columns of durations."""
