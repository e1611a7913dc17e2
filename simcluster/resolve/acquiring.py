"""Settles how machines are got and paid for, and what power they take besides that of their GPUs."""

from __future__ import annotations

from functools import partial

from simcluster.hardware.bill import Bill
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.facility import node_power
from simcluster.hardware.found import Found
from simcluster.hardware.owning import own_defaults, pue
from simcluster.hardware.prices import network_price, node_price, storage_price
from simcluster.hardware.rents import rent_price
from simcluster.hardware.storage import storage_capacity, storage_power_w
from simcluster.resolve.terms import OwnTerms, PowerTerms, RentTerms, RunTerms, noted, reason, settled
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.money import Own, PurchasePrice, Rent, RentPrice
from simcluster.scenario.operations import StorageSystem
from simcluster.units import HOUR_S, YEAR_S

_GPU_LIMIT_W = 700.0  # estimate: of an accelerator without a figure; those of data centres have 300 to 1,400
_OWN, _FACILITY = "acquire.own", "facility"
# Standard deviation of ln price by the kind of evidence. Estimates: quotes for one product differ by a few percent from
# a list, prices put together from parts or read off a market by a fifth (rents of one GPU and term differ by more).
_DOUBT = {"datasheet": 0.05, "measured": 0.1, "derived": 0.1, "estimate": 0.2}


def power_terms(
    scenario: Scenario, cluster: Cluster, bill: Bill, storage_bytes: float, catalogue: Catalogue, trail: Trail
) -> PowerTerms:
    """Power of hosts, fans, network, storage and building."""
    node, power = cluster.node, node_power(catalogue, cluster.node)
    for path, found in (("power.host_w", power.host), ("power.fans_w", power.fans)):
        trail.assume(path, found.value, reason(found))
    rented = scenario.acquire is not None and scenario.acquire.rent is not None
    storage = storage_power_w(catalogue, storage_bytes)
    trail.assume("power.storage_w", storage.value, reason(storage))
    trail.assume("power.network_w", bill.network_w, "switches and optics of the bill of materials")
    limit = node.gpu.power_limit_w or _GPU_LIMIT_W
    if not node.gpu.power_limit_w:
        trail.assume("power.gpu_limit_w", limit, f"estimate: nobody states the limit of {node.gpu.id}")
    return PowerTerms(
        gpu_idle_w=min(node.gpu.power_idle_w, limit),
        gpu_limit_w=limit,
        host_w=power.host.value,
        fans_w=power.fans.value,
        supply_factor=power.supply_factor.value,
        nameplate_w=node.power_max_w or power.full_load_w(node),
        network_w=bill.network_w,
        storage_w=storage.value,
        pue=settled(trail, f"{_FACILITY}.pue", scenario.facility.pue, partial(pue, catalogue, node, rented=rented)),
    )


def storage_bytes(scenario: Scenario, cluster: Cluster, run: RunTerms, catalogue: Catalogue, trail: Trail) -> float:
    """Size of the file system that the job needs."""
    operations = scenario.operations
    kept = operations.checkpoint.keep
    if kept is None:
        kept = 3
        trail.assume("operations.checkpoint.keep", kept, "estimate: not stated")
    dataset = (operations.storage.dataset_bytes_per_token or 0.0) * (scenario.training.tokens or 0)
    found = storage_capacity(catalogue, cluster.gpus, run.checkpoint_bytes, kept, dataset)
    trail.assume("operations.storage.capacity_bytes", found.value, reason(found))
    return found.value


def own_terms(
    scenario: Scenario,
    own: Own,
    cluster: Cluster,
    bill: Bill,
    storage: float,
    horizon_s: float,
    catalogue: Catalogue,
    trail: Trail,
) -> OwnTerms:
    """What buying and keeping the cluster takes; a price that nobody has is noted as a problem."""
    node = cluster.node
    usual = own_defaults(catalogue, node, cluster.total_gpus, max(horizon_s, YEAR_S))  # used prices begin at a year
    nodes = cluster.nodes + cluster.spares
    each, doubt = _node_price(own, cluster, catalogue, trail)
    system = scenario.operations.storage.system
    named = None if system is None or isinstance(system, StorageSystem) else system
    network = own.network * cluster.gpus if own.network is not None else None
    price = partial(network_price, catalogue, bill)
    return OwnTerms(
        nodes_usd=each * nodes,
        network_usd=settled(trail, f"{_OWN}.network_usd", network, price),
        storage_usd=settled(trail, f"{_OWN}.storage", own.storage, partial(storage_price, catalogue, storage, named)),
        misc=settled(trail, f"{_OWN}.misc", own.misc, lambda: usual.misc_share),
        residual=settled(trail, f"{_OWN}.residual", own.residual, lambda: usual.residual_share),
        wacc=settled(trail, f"{_OWN}.wacc", own.wacc, lambda: usual.wacc_per_year),
        support=settled(trail, f"{_OWN}.support", own.support, lambda: usual.support_share),
        insurance=settled(trail, f"{_OWN}.insurance", own.insurance, lambda: usual.insurance_share),
        staff_usd_per_s=settled(trail, f"{_OWN}.staff", own.staff, lambda: _per_s(usual.staff_usd_per_year)),
        lead_time_s=settled(trail, f"{_OWN}.lead_time", own.lead_time, lambda: usual.lead_time),
        electricity_usd_per_j=settled(
            trail, f"{_FACILITY}.electricity", scenario.facility.electricity, lambda: usual.electricity
        ),
        colocation_usd_per_w_s=settled(
            trail, f"{_FACILITY}.colocation", scenario.facility.colocation, lambda: usual.colocation
        ),
        doubt={"nodes": doubt, "network": 0.0 if own.network is not None else _DOUBT["estimate"]},
    )


def _per_s(found: Found) -> Found:
    return found.times(1.0 / YEAR_S, found.why)


def _node_price(own: Own, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> tuple[float, float]:
    """USD of one node and how sure that is."""
    if isinstance(own.price, PurchasePrice):
        return own.price.usd * (cluster.node.gpus if own.price.per == "gpu" else 1), 0.0
    if cluster.node.provider:
        message = f"{cluster.node.id} is rented out by {cluster.node.provider}, not sold"
        trail.problem(_OWN, message, "name a machine that is, such as dgx-b200, state own.price, or rent it")
        return 0.0, 0.0
    found = noted(trail, f"{_OWN}.price", partial(node_price, catalogue, cluster.node))
    if found is None:
        return 0.0, 0.0
    trail.assume(f"{_OWN}.price_usd_per_node", found.value, reason(found))
    return found.value, _doubt(found)


def _doubt(found: Found) -> float:
    """Standard deviation of ln price: what its range or its sources say, else by the kind of evidence."""
    return found.spread or _DOUBT[found.kind]


def rent_terms(rent: Rent, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> RentTerms:
    """Price of a GPU by the second; one that nobody has is noted as a problem."""
    if isinstance(rent.price, RentPrice):
        gpus = cluster.node.gpus if rent.price.per == "node" else 1
        return RentTerms(rent.term, rent.price.usd_per_s / gpus, 0.0)
    found = noted(trail, "acquire.rent.price", partial(rent_price, catalogue, cluster.node, rent.term))
    if found is None:
        return RentTerms(rent.term, 0.0, 0.0)
    trail.assume("acquire.rent.usd_per_gpu_hour", found.value * HOUR_S, reason(found))
    return RentTerms(rent.term, found.value, _doubt(found))


def market_terms(own: Own, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> RentTerms | None:
    """What the same GPUs cost on demand, to tell when buying pays; None where nobody says."""
    if isinstance(own.rival, RentPrice):
        return RentTerms("on-demand", own.rival.usd_per_s / (cluster.node.gpus if own.rival.per == "node" else 1), 0.0)
    silent = Trail()
    found = noted(silent, "market", partial(rent_price, catalogue, cluster.node, "on-demand"))
    if found is None:
        return None
    trail.assume("acquire.own.rival_usd_per_gpu_hour", found.value * HOUR_S, reason(found))
    return RentTerms("on-demand", found.value, _doubt(found))
