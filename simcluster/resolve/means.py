"""Settles what running a job and paying for it depends on; none of it changes a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from simcluster.hardware.bill import bill_of_materials
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.found import found_fact
from simcluster.resolve.acquiring import Machines, market_terms, own_terms, power_terms, rent_terms
from simcluster.resolve.running import Saved, node_link, run_terms, state_bytes
from simcluster.resolve.settling import settled
from simcluster.resolve.speeds import node_terms
from simcluster.resolve.storing import storage_terms
from simcluster.resolve.terms import Means, OwnTerms, RentTerms
from simcluster.resolve.trail import Trail
from simcluster.scenario import Origin, Scenario
from simcluster.shapes import TERM_MONTHS, Architecture
from simcluster.timing.software import SoftwareFamily
from simcluster.units import MONTH_S, YEAR_S

MEANS_BLOCKS = ("operations", "acquire", "use", "facility")
_HOURS = 0.85  # estimate: planners' figure; fleets are used 70 to 90 % of the time
_IDLE = ("operations.elastic", "operations.checkpoint.verify")


def settle_means(
    scenario: Scenario,
    origins: Mapping[str, Origin],
    arch: Architecture,
    cluster: Cluster,
    family: SoftwareFamily,
    catalogue: Catalogue,
    folder: Path,
) -> Means:
    """All that running and paying depends on; files that the scenario names start at `folder`.

    Raises InputError with every name that is not known and every price that nobody has.
    """
    trail = Trail(origins)
    state = state_bytes(arch, family, scenario.training.precision)
    storage = storage_terms(scenario, cluster, state, catalogue, trail)
    nodes = node_terms(scenario, cluster, folder, trail)
    run = run_terms(scenario, arch, cluster, Saved(state, storage, node_link(cluster), nodes), catalogue, trail)
    whole = replace(cluster, spares=run.spares)
    machines = Machines(whole, bill_of_materials(catalogue, whole), storage)
    horizon = _horizon(scenario, catalogue, trail)
    acquire: OwnTerms | RentTerms | None = None
    own = scenario.acquire.own if scenario.acquire else None
    if own:
        acquire = own_terms(scenario, machines, horizon, catalogue, trail)
    elif scenario.acquire and scenario.acquire.rent:
        acquire = rent_terms(scenario.acquire.rent, machines, catalogue, trail)
    means = Means(
        run=run,
        power=power_terms(scenario, machines, catalogue, trail),
        acquire=acquire,
        market=market_terms(own, machines, catalogue, trail) if own else None,
        hours=_hours(scenario, acquire, trail),
        horizon_s=horizon,
        values=trail.values,
        assumptions=tuple(trail.assumptions),
        unmodelled=tuple(path for path in (*_IDLE, *_idle_money(acquire)) if trail.is_stated(path)),
        notes=tuple(trail.notes),
    )
    trail.stop()
    return means


def _idle_money(acquire: OwnTerms | RentTerms | None) -> tuple[str, ...]:
    """Values that the way to get machines has no use for."""
    if isinstance(acquire, OwnTerms):
        return ()
    building = ("facility.electricity", "facility.colocation")
    if acquire is None:
        return (*building, "use.horizon", "use.hours")
    return building if TERM_MONTHS[acquire.term] else (*building, "use.horizon")


def _horizon(scenario: Scenario, catalogue: Catalogue, trail: Trail) -> float:
    """How long the machines are kept: as stated, the reserved term, or the life that models of owning use."""
    acquire = scenario.acquire
    if acquire is None or acquire.rent is None:
        life = partial(found_fact, catalogue, "prices", "depreciation", "economic life that models use")
        return settled(trail, "use.horizon", scenario.use.horizon, life) if acquire else scenario.use.horizon or YEAR_S
    if scenario.use.horizon is not None:
        return scenario.use.horizon
    horizon = TERM_MONTHS[acquire.rent.term] * MONTH_S or YEAR_S
    trail.assume("use.horizon", horizon, "not stated: the term of the rent, a year without one")
    return horizon


def _hours(scenario: Scenario, acquire: OwnTerms | RentTerms | None, trail: Trail) -> float:
    """Share of the hours that the machines work; it counts where idle hours are paid too."""
    if scenario.use.hours is not None:
        return scenario.use.hours
    if acquire is not None:
        trail.assume("use.hours", _HOURS, "estimate: not stated; idle hours of owned and reserved machines are paid")
    return _HOURS
