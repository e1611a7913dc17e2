"""What is assumed of owning where the scenario does not say: capital, support, staff, power and space."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.facility import is_liquid_cooled
from simcluster.hardware.found import Found, fact, found_fact, range_spread
from simcluster.hardware.node import NodeSpec
from simcluster.units import YEAR_S

_AFTER = re.compile(r"share of the price after (\d+) years?$")
_MISC = "sales tax, import, spare parts and installation, share of the hardware"
_ONE_AGE = ("H100, share of the price after 3 years", "H100, share of the price after about 3 years, from used prices")
_RESALE_OF = "h100-80gb-sxm"  # the accelerator whose used prices are known best


@dataclass(frozen=True, slots=True)
class OwnDefaults:
    """Values for owning a node that nobody stated; each with its reason.

    residual_share      of the purchase price after `life` [1]
    wacc_per_year       cost of capital [1/year]
    misc_share          tax, import, spare parts, installation over the hardware [1]; spare nodes come on top
    support_share       maintenance and support over the hardware [1/year]
    insurance_share     insurance and property tax over the hardware [1/year]
    staff_usd_per_year  people who operate the cluster [USD/year]
    life                [s] over which the hardware is used
    lead_time           [s] from order to work
    colocation          rent of space and power [USD/(W s)] of provisioned power
    electricity         [USD/J]
    pue                 facility over IT power [1]
    """

    residual_share: Found
    wacc_per_year: Found
    misc_share: Found
    support_share: Found
    insurance_share: Found
    staff_usd_per_year: Found
    life: Found
    lead_time: Found
    colocation: Found
    electricity: Found
    pue: Found


def own_defaults(catalogue: Catalogue, node: NodeSpec, gpus: int, life_s: float | None = None) -> OwnDefaults:
    """Defaults for owning a cluster of `gpus` accelerators in nodes of one kind.

    gpus     [count] of the whole cluster, >= 1
    life_s   [s] years that the scenario plans with; None: the economic life that models use

    >>> catalogue = Catalogue.load()
    >>> own = own_defaults(catalogue, catalogue.node("dgx-b200")[0], 256)
    >>> own.wacc_per_year.value, own.pue.value, round(own.electricity.value * 3.6e6, 4)
    (0.1, 1.3, 0.0883)
    """
    life = found_fact(catalogue, "prices", "depreciation", "economic life that models use")
    if life_s is not None:
        life = Found(life_s, "stated", "scenario", "", "derived")
    operating, other = ("prices", "operating"), ("prices", "other-costs")
    return OwnDefaults(
        residual_share=residual_share(catalogue, node.gpu.id, life.value),
        wacc_per_year=found_fact(catalogue, "prices", "interest", "weighted cost of capital of models that build"),
        misc_share=found_fact(catalogue, *other, _MISC),
        support_share=found_fact(
            catalogue, *operating, "maintenance and support of a cluster, share of the hardware a year"
        ),
        insurance_share=found_fact(catalogue, *other, "insurance and property tax, share of the hardware a year"),
        staff_usd_per_year=staff(catalogue, gpus),
        life=life,
        lead_time=found_fact(catalogue, *other, "lead time of a B200 server"),
        colocation=colocation(catalogue),
        electricity=electricity(catalogue),
        pue=pue(catalogue, node),
    )


def electricity(catalogue: Catalogue) -> Found:
    """Price of electricity [USD/J]: average of US industry."""
    return found_fact(catalogue, "facilities", "electricity", "US industrial average")


def colocation(catalogue: Catalogue) -> Found:
    """Rent of space and power [USD/(W s)]: average of US wholesale contracts."""
    return found_fact(catalogue, "facilities", "colocation", "US wholesale average, 250 to 500 kW")


def pue(catalogue: Catalogue, node: NodeSpec, *, rented: bool = False) -> Found:
    """Facility over IT power: that of hyperscalers if rented, else by the cooling of the node.

    >>> catalogue = Catalogue.load()
    >>> pue(catalogue, catalogue.node("gb200-nvl72")[0]).value
    1.14
    """
    name = "new AI colocation, air and rear-door heat exchangers"
    if rented:
        name = "hyperscale fleet"
    elif is_liquid_cooled(node):
        name = "direct liquid cooling, about 80 % liquid"
    return found_fact(catalogue, "facilities", "pue", name)


def staff(catalogue: Catalogue, gpus: int) -> Found:
    """People who operate a cluster of `gpus` [USD/year].

    Up to 1000 GPUs each person looks after 333 of them, at 10000 after 1500; in between and above, the number per
    person grows as a power of the size. Parts of a person count: small clusters share people with others.

    >>> round(staff(Catalogue.load(), 1000).value / 220e3, 2), round(staff(Catalogue.load(), 10000).value / 220e3, 2)
    (3.0, 6.67)
    """
    small, large = (
        fact(catalogue, "prices", "operating", f"GPUs for each person, cluster of {size}") for size in (1000, 10000)
    )
    cost = fact(catalogue, "prices", "operating", "one person who operates the cluster, all costs").quantity
    sizes = float(small.labels["gpus"]), float(large.labels["gpus"])
    power = math.log(large.quantity.number / small.quantity.number) / math.log(sizes[1] / sizes[0])
    each = small.quantity.number * min(max(gpus / sizes[0], 1.0), sizes[1] / sizes[0]) ** power
    people = gpus / each
    per_year = cost.number * YEAR_S
    why = f"{people:.2g} people, one for {each:.0f} GPUs, at {per_year:,.0f} USD a year each"
    return replace(Found.of(cost, why, "people who operate the cluster"), value=people * per_year)


def residual_share(catalogue: Catalogue, gpu: str, life_s: float) -> Found:
    """Share of the purchase price that hardware fetches after `life_s` seconds, falling geometrically between rows.

    Rows of the accelerator itself where there are any, else those of the H100. They rest on one page of estimates;
    used prices of early 2026 were twice to three times as high.

    >>> round(residual_share(Catalogue.load(), "b200-sxm", 4 * 31557600.0).value, 4)
    0.175
    """
    rows = {gpu: _resale_points(catalogue, gpu), _RESALE_OF: _resale_points(catalogue, _RESALE_OF)}
    of = gpu if rows[gpu] else _RESALE_OF
    points = [(0.0, 1.0), *rows[of]]
    years = max(life_s / YEAR_S, 0.0)
    name = f"share of the price of {of} after {years:.3g} years"
    row = next(row for row in catalogue.entry("prices", "resale").table if row.text("of") == of)
    found = Found.of(row.quantity, name, "resale of used accelerators")
    return replace(found, value=_geometric(points, years), kind="estimate", spread=_resale_spread(catalogue))


def _resale_spread(catalogue: Catalogue) -> float:
    """Standard deviation of ln resale: from the lowest estimate to the highest used price of one age."""
    rows = {row.name: row.quantity for row in catalogue.entry("prices", "resale").table}
    least, most = (rows[name] for name in _ONE_AGE)
    return range_spread(least.low, most.high)


def _resale_points(catalogue: Catalogue, gpu: str) -> list[tuple[float, float]]:
    """(years, share) of the rows of an accelerator."""
    points = []
    for row in catalogue.entry("prices", "resale").table:
        match = _AFTER.search(row.name)
        if match and row.text("of") == gpu:
            points.append((float(match[1]), row.quantity.number))
    return sorted(points)


def _geometric(points: Sequence[tuple[float, float]], x: float) -> float:
    """Log-linear between points, and on beyond the last as between the last two."""
    pairs = list(pairwise(points))
    (x0, y0), (x1, y1) = next((pair for pair in pairs if x <= pair[1][0]), pairs[-1])
    return float(y0 * (y1 / y0) ** ((x - x0) / (x1 - x0)))
