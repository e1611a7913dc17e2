"""Settles how machines are got and paid for, and what power they take besides that of their GPUs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from simcluster.hardware.bill import Bill
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.facility import node_power
from simcluster.hardware.found import Found
from simcluster.hardware.owning import OwnDefaults, own_defaults, pue, residual_share
from simcluster.hardware.prices import network_price, node_price, storage_price
from simcluster.hardware.rents import rent_price
from simcluster.hardware.storage import managed_price
from simcluster.resolve.settling import Settler, noted, reason, settled
from simcluster.resolve.terms import OwnTerms, PowerTerms, RentTerms, StorageTerms
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.money import Own, PurchasePrice, Rent, RentPrice
from simcluster.scenario.operations import StorageSystem
from simcluster.units import HOUR_S, YEAR_S, format_bytes

_GPU_LIMIT_W = 700.0  # estimate: of an accelerator without a figure; those of data centres have 300 to 1,400
_OWN, _RENT, _FACILITY = "acquire.own", "acquire.rent", "facility"


@dataclass(frozen=True, slots=True)
class Machines:
    """What is got: all machines with spares, the bill of their network, and storage."""

    cluster: Cluster
    bill: Bill
    storage: StorageTerms


def power_terms(scenario: Scenario, machines: Machines, catalogue: Catalogue, trail: Trail) -> PowerTerms:
    """Power of hosts, fans, network, storage and building."""
    node, bill = machines.cluster.node, machines.bill
    power = node_power(catalogue, node)
    for path, found in (("power.host_w", power.host), ("power.fans_w", power.fans)):
        trail.assume(path, found.value, reason(found))
    rented = scenario.acquire is not None and scenario.acquire.rent is not None
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
        storage_w=machines.storage.power_w,
        pue=settled(trail, f"{_FACILITY}.pue", scenario.facility.pue, partial(pue, catalogue, node, rented=rented)),
    )


def own_terms(scenario: Scenario, machines: Machines, horizon_s: float, catalogue: Catalogue, trail: Trail) -> OwnTerms:
    """What buying and keeping the cluster takes; a price that nobody has is noted as a problem."""
    assert scenario.acquire is not None
    assert scenario.acquire.own is not None
    own, facility, cluster = scenario.acquire.own, scenario.facility, machines.cluster
    usual = own_defaults(catalogue, cluster.node, cluster.total_gpus, max(horizon_s, YEAR_S))  # used prices from a year
    settler = Settler(trail)

    def take(name: str, stated: float | None, found: Found) -> float:
        return settler.take(name, f"{_OWN}.{name}", stated, lambda: found)

    misc = take("misc", own.misc, usual.misc_share)
    return OwnTerms(
        nodes_usd=_node_price(own, cluster, catalogue, settler) * (cluster.nodes + cluster.spares),
        network_usd=_network_usd(own, machines, catalogue, settler),
        storage_usd=_storage_usd(scenario, own, machines.storage, catalogue, settler),
        misc=misc,
        residual=_residual(own, usual, misc, settler),
        early_residual=_early_residual(cluster, misc, catalogue, trail),
        wacc=take("wacc", own.wacc, usual.wacc_per_year),
        support=take("support", own.support, usual.support_share),
        insurance=take("insurance", own.insurance, usual.insurance_share),
        staff_usd_per_s=settler.take("staff_usd_per_s", f"{_OWN}.staff", own.staff, lambda: _per_s(usual)),
        lead_time_s=settled(trail, f"{_OWN}.lead_time", own.lead_time, lambda: usual.lead_time),
        electricity_usd_per_j=settler.take(
            "electricity_usd_per_j", f"{_FACILITY}.electricity", facility.electricity, lambda: usual.electricity
        ),
        colocation_usd_per_w_s=settler.take(
            "colocation_usd_per_w_s", f"{_FACILITY}.colocation", facility.colocation, lambda: usual.colocation
        ),
        doubts=settler.doubts,
    )


def _per_s(usual: OwnDefaults) -> Found:
    return usual.staff_usd_per_year.times(1.0 / YEAR_S, usual.staff_usd_per_year.why)


def _residual(own: Own, usual: OwnDefaults, misc: float, settler: Settler) -> float:
    """Share of all capital; used prices are of hardware, and what came on top of it brings nothing."""
    share = usual.residual_share
    why = f"{share.why}, of all capital"
    return settler.take("residual", f"{_OWN}.residual", own.residual, lambda: share.times(1.0 / (1.0 + misc), why))


def _early_residual(cluster: Cluster, misc: float, catalogue: Catalogue, trail: Trail) -> float:
    """Share of all capital that year-old machines bring; younger ones bring no more."""
    share = residual_share(catalogue, cluster.node.gpu.id, YEAR_S)
    found = share.times(1.0 / (1.0 + misc), f"{share.why}, of all capital")
    trail.assume(f"{_OWN}.early_residual", found.value, reason(found))
    return found.value


def _node_price(own: Own, cluster: Cluster, catalogue: Catalogue, settler: Settler) -> float:
    """USD of one node."""
    if isinstance(own.price, PurchasePrice):
        return own.price.usd * (cluster.node.gpus if own.price.per == "gpu" else 1)
    if cluster.node.provider:
        message = f"{cluster.node.id} is rented out by {cluster.node.provider}, not sold"
        settler.trail.problem(_OWN, message, "name a machine that is, such as dgx-b200, state own.price, or rent it")
        return 0.0
    found = noted(settler.trail, f"{_OWN}.price", partial(node_price, catalogue, cluster.node))
    return settler.assumed("nodes_usd", f"{_OWN}.price_usd_per_node", found) if found is not None else 0.0


def _network_usd(own: Own, machines: Machines, catalogue: Catalogue, settler: Settler) -> float:
    stated = own.network * machines.cluster.gpus if own.network is not None else None
    price = partial(network_price, catalogue, machines.bill)
    return settler.take("network_usd", f"{_OWN}.network_usd", stated, price)


def _storage_usd(scenario: Scenario, own: Own, storage: StorageTerms, catalogue: Catalogue, settler: Settler) -> float:
    system = scenario.operations.storage.system
    named = None if system is None or isinstance(system, StorageSystem) else system
    price = partial(storage_price, catalogue, storage.raw_bytes, named)
    return settler.take("storage_usd", f"{_OWN}.storage", own.storage, price)


def rent_terms(rent: Rent, machines: Machines, catalogue: Catalogue, trail: Trail) -> RentTerms:
    """Price of GPUs and storage by the second; one that nobody has is noted as a problem."""
    settler = Settler(trail)
    gpu = 0.0
    if isinstance(rent.price, RentPrice):
        gpu = _stated_rent(rent.price, machines.cluster)
    else:
        found = noted(trail, f"{_RENT}.price", partial(rent_price, catalogue, machines.cluster.node, rent.term))
        if found is not None:
            gpu = settler.assumed("usd_per_gpu_s", f"{_RENT}.usd_per_gpu_hour", found, HOUR_S)
    price = partial(_rented_storage, machines.storage, catalogue)
    cluster = machines.cluster
    return RentTerms(
        term=rent.term,
        usd_per_gpu_s=gpu,
        paid_nodes=1.0 + cluster.spares / cluster.nodes,
        storage_usd_per_s=settler.take("storage_usd_per_s", f"{_RENT}.storage", rent.storage, price),
        egress_usd_per_s=_none_counted("egress", rent.egress, "data that leave are free or few", trail),
        support=_none_counted("support", rent.support, "no paid plan of the cloud's support", trail),
        doubts=settler.doubts,
    )


def _rented_storage(storage: StorageTerms, catalogue: Catalogue) -> Found:
    """USD/s of a managed file system, whatever system the rates are of."""
    found = managed_price(catalogue, storage.rented_bytes)
    size = format_bytes(storage.rented_bytes)
    return replace(found, why=f"{found.why}, {size} for this job alone (owned clusters have more)")


def _none_counted(name: str, stated: float | None, why: str, trail: Trail) -> float:
    """What a contract may ask for on top of the rent."""
    if stated is None:
        trail.assume(f"{_RENT}.{name}", 0.0, f"not stated: {why}")
    return stated or 0.0


def _market(usd_per_gpu_s: float, storage_usd_per_s: float) -> RentTerms:
    """GPUs on demand; nobody asks how sure that is."""
    return RentTerms("on-demand", usd_per_gpu_s, 1.0, storage_usd_per_s, 0.0, 0.0, {})


def _stated_rent(price: RentPrice, cluster: Cluster) -> float:
    """USD per GPU and second."""
    return price.usd_per_s / (cluster.node.gpus if price.per == "node" else 1)


def market_terms(own: Own, machines: Machines, catalogue: Catalogue, trail: Trail) -> RentTerms | None:
    """What the same GPUs cost on demand, to tell when buying pays; None where nobody says.

    A stated price is all that is paid; with that of a list storage comes on top.
    """
    if isinstance(own.rival, RentPrice):
        return _market(_stated_rent(own.rival, machines.cluster), 0.0)
    found = noted(Trail(), "market", partial(rent_price, catalogue, machines.cluster.node, "on-demand"))
    if found is None:
        return None
    trail.assume(f"{_OWN}.rival_usd_per_gpu_hour", found.value * HOUR_S, reason(found))
    return _market(found.value, managed_price(catalogue, machines.storage.rented_bytes).value)
