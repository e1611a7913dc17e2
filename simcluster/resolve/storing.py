"""Settles where checkpoints and data go: how large that storage is, how fast, what power it takes."""

from __future__ import annotations

from functools import partial

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.found import Found
from simcluster.hardware.storage import (
    StorageRates,
    managed_rates,
    needed_capacity,
    storage_power_w,
    storage_rates,
    usual_capacity,
    written_capacity_bytes,
    written_storage_rates,
)
from simcluster.resolve.settling import noted, reason
from simcluster.resolve.terms import StorageTerms
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.operations import StorageSystem
from simcluster.units import format_bytes

_SYSTEM = "operations.storage.system"
_SMALLEST = Found(1.2 * 2.0**40, "the smallest that clouds rent out", "general-knowledge", "2025", "estimate")
_KEPT = 3  # estimate: checkpoints that are kept where nobody says


def storage_terms(
    scenario: Scenario, cluster: Cluster, checkpoint_bytes: float, catalogue: Catalogue, trail: Trail
) -> StorageTerms:
    """Storage of the job; unknown names, and a system that is too small for the job, are noted as problems."""
    stated = scenario.operations.storage.system
    needed = _needed(scenario, checkpoint_bytes, catalogue, trail)
    if isinstance(stated, StorageSystem):
        return _written(stated, needed, catalogue, trail)
    if scenario.acquire is not None and scenario.acquire.rent is not None:
        capacity = needed if needed.value > _SMALLEST.value else _SMALLEST
        usual = partial(managed_rates, catalogue, capacity.value)
    else:
        capacity = max(usual_capacity(catalogue, cluster.gpus), needed, key=lambda one: one.value)
        usual = partial(storage_rates, catalogue, None, cluster.nodes, capacity.value)
    trail.assume("operations.storage.capacity_bytes", capacity.value, reason(capacity))
    look_up = usual if stated is None else partial(storage_rates, catalogue, stated, cluster.nodes, capacity.value)
    rates = noted(trail, _SYSTEM, look_up)
    if stated is None and rates is not None:
        trail.assume("operations.storage.write_bytes_per_s", rates.write.value, reason(rates.write))
    return _terms(needed.value, capacity.value, rates, catalogue, trail)


def _needed(scenario: Scenario, checkpoint_bytes: float, catalogue: Catalogue, trail: Trail) -> Found:
    """What the job keeps."""
    operations = scenario.operations
    kept = operations.checkpoint.keep
    if kept is None:
        kept = _KEPT
        trail.assume("operations.checkpoint.keep", kept, "estimate: not stated")
    each = operations.storage.dataset_bytes_per_token
    if each is None:
        trail.assume("operations.storage.dataset_bytes_per_token", 0.0, "not stated: data stay in an object store")
    dataset = (each or 0.0) * (scenario.training.tokens or 0)
    return needed_capacity(catalogue, checkpoint_bytes, kept, dataset)


def _written(stated: StorageSystem, needed: Found, catalogue: Catalogue, trail: Trail) -> StorageTerms:
    """A system that is written out has the size of its drives."""
    rates = noted(
        trail,
        _SYSTEM,
        partial(written_storage_rates, catalogue, stated.drives, stated.drive, stated.nic, stated.replicas),
    )
    raw = written_capacity_bytes(catalogue, stated.drives, stated.drive) if rates else needed.value * stated.replicas
    usable = raw / stated.replicas
    if usable < needed.value:
        message = f"holds {format_bytes(usable)}, the job needs {format_bytes(needed.value)}: {needed.why}"
        trail.problem(_SYSTEM, message, "add drives, or keep fewer checkpoints (operations.checkpoint.keep)")
    return _terms(needed.value, raw, rates, catalogue, trail)


def _terms(needed: float, raw: float, rates: StorageRates | None, catalogue: Catalogue, trail: Trail) -> StorageTerms:
    power = storage_power_w(catalogue, raw)
    trail.assume("power.storage_w", power.value, reason(power))
    write, read = (rates.write.value, rates.read.value) if rates else (1.0, 1.0)
    return StorageTerms(max(needed, _SMALLEST.value), raw, write, read, power.value)
