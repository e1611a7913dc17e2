"""Chooses the layout of a job: enumerates what is possible, drops what does not fit, simulates what may be fastest."""

from __future__ import annotations

from simcluster.planner.job import needs_plan
from simcluster.planner.search import Plan, PlanCounts, plan_layout

__all__ = ["Plan", "PlanCounts", "needs_plan", "plan_layout"]
