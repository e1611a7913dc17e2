"""How the machines are got, used, housed and paid."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from simcluster import units
from simcluster.scenario.fields import (
    Duration,
    Fraction,
    Part,
    PositiveDuration,
    Rate,
    Ratio,
    Share,
    Usd,
    UsdPerGpu,
    UsdPerJoule,
    UsdPerSecond,
    UsdPerWattSecond,
)

Term = Literal["on-demand", "1y", "3y", "spot"]


class PurchasePrice(Part):
    """Price of a node or of a GPU's share of it, in USD."""

    usd: Annotated[float, Field(ge=0)]
    per: Literal["node", "gpu"] = "node"


class RentPrice(Part):
    """Price of a node or of a GPU's share of it, in USD per second."""

    usd_per_s: Annotated[float, Field(gt=0)]
    per: Literal["node", "gpu"] = "node"


def _purchase(value: Any) -> Any:
    if value == "catalogue" or isinstance(value, (dict, PurchasePrice)):
        return value
    for per, dimension in (("gpu", "usd_per_gpu"), ("node", "usd_per_node")):
        try:
            return PurchasePrice(usd=units.parse(value, dimension), per=per)  # type: ignore[arg-type]
        except ValueError:
            continue
    raise ValueError(f"{value!r} should be 'catalogue', or like '300000 USD/node' or '40000 USD/GPU'")


def _rent(value: Any) -> Any:
    if value == "list" or isinstance(value, (dict, RentPrice)):
        return value
    for per, dimension in (("gpu", "usd_per_gpu_s"), ("node", "usd_per_s")):
        try:
            return RentPrice(usd_per_s=units.parse(value, dimension), per=per)  # type: ignore[arg-type]
        except ValueError:
            continue
    raise ValueError(f"{value!r} should be 'list', or like '98 USD/h' (a node) or '2.5 USD/GPU-h'")


class Own(Part):
    """Bought; absent fields are assumed and listed.

    network   of switches, optics and cables, for each GPU
    storage   of all storage
    misc      share of nodes, network and storage that comes on top (tax, installation, spare parts)
    support   share of nodes, network and storage, a year
    insurance the same, with property tax
    staff     people who run the cluster
    rival     rent on demand that owning is compared with
    """

    price: Annotated[Literal["catalogue"] | PurchasePrice, BeforeValidator(_purchase)] = "catalogue"
    residual: Fraction | None = None
    wacc: Rate | None = None
    lead_time: Duration | None = None
    network: UsdPerGpu | None = None
    storage: Usd | None = None
    misc: Fraction | None = None
    support: Rate | None = None
    insurance: Rate | None = None
    staff: UsdPerSecond | None = None
    rival: Annotated[Literal["list"] | RentPrice, BeforeValidator(_rent)] = "list"


class Rent(Part):
    """Rented from a cloud; absent fields are assumed and listed.

    storage   of the whole file system
    egress    of data that leave
    support   share of the rent of GPUs
    """

    term: Term = "on-demand"
    price: Annotated[Literal["list"] | RentPrice, BeforeValidator(_rent)] = "list"
    storage: UsdPerSecond | None = None
    egress: UsdPerSecond | None = None
    support: Fraction | None = None


class Acquire(Part):
    """Either own or rent; in a file also one word: own, rent, on-demand, 1y, 3y, spot."""

    own: Own | None = None
    rent: Rent | None = None

    @model_validator(mode="after")
    def _one(self) -> Acquire:
        if (self.own is None) == (self.rent is None):
            raise ValueError("needs own or rent, and not both")
        return self


class Use(Part):
    """For how long, and what share of the hours the machines work."""

    horizon: PositiveDuration | None = None
    hours: Share | None = None


class Facility(Part):
    """The building: price of energy, its overhead, rent of space and power."""

    electricity: UsdPerJoule | None = None
    pue: Ratio | None = None
    colocation: UsdPerWattSecond | None = None
