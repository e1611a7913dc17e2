"""The machines: nodes, fabric, other traffic."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from simcluster.scenario.fields import (
    MAPPING,
    WORD,
    ByShape,
    Bytes,
    BytesPerSecond,
    Count,
    CountOrZero,
    Name,
    Part,
    Ratio,
    Watts,
)

Protocol = Literal["ib", "roce", "efa", "tcp", "slingshot", "opa"]


class Nics(Part):
    """Network cards of a node that carry training traffic; also written '8x 400 Gbit/s'."""

    count: Count
    link: BytesPerSecond


class NodeSpec(Part):
    """A node written out; `base` names a catalogue node that gives what is not stated."""

    base: Name | None = None
    gpu: Name | None = None
    gpus: Count | None = None
    host: Name | None = None
    nics: Nics | None = None
    ram: Bytes | None = None
    nvme: Bytes | None = None
    scale_up: Name | None = None  # nvlink4, pcie5, …
    scale_up_domain: Count | None = None  # GPUs that reach each other over it (72 in an NVL72)
    power: Watts | None = None  # rated, whole node

    @field_validator("nics", mode="before")
    @classmethod
    def _short_nics(cls, value: Any) -> Any:
        found = re.fullmatch(r"\s*(\d+)\s*[x*]\s*(\S.*)", value) if isinstance(value, str) else None
        if isinstance(value, str) and not found:
            raise ValueError(f"{value!r} should be like '8x 400 Gbit/s'")
        return {"count": found[1], "link": found[2]} if found else value

    @model_validator(mode="after")
    def _complete(self) -> NodeSpec:
        if self.base is None and (self.gpu is None or self.gpus is None):
            raise ValueError("needs gpu and gpus, or base with the name of a catalogue node")
        return self


class Oversubscription(Part):
    """Capacity to the hosts over capacity upwards, by tier; also one number for the leaf tier."""

    leaf: Ratio = 1.0
    spine: Ratio = 1.0


class FabricSpec(Part):
    """A network written out; `base` names a catalogue fabric that gives what is not stated."""

    base: Name | None = None
    protocol: Protocol | None = None
    link: BytesPerSecond | None = None
    links_per_node: Count | None = None
    rails: bool | None = None
    tiers: Annotated[int, Field(ge=1, le=4)] | None = None
    switch: Name | None = None
    oversubscription: Oversubscription | None = None
    routing: Literal["ecmp", "adaptive", "spray"] | None = None
    storage: Literal["shared", "separate"] | None = None

    @model_validator(mode="after")
    def _complete(self) -> FabricSpec:
        if self.base is None and (self.protocol is None or self.link is None):
            raise ValueError("needs protocol and link, or base with the name of a catalogue fabric")
        return self


class Background(Part):
    """Other traffic on the fabric: a flow of a given rate, or the whole of another job."""

    source: Name | None = Field(default=None, alias="from")
    rate: BytesPerSecond | None = None
    job: Name | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Background:
        flow = self.source is not None and self.rate is not None
        if flow == (self.job is not None) or (self.job and (self.source or self.rate)):
            raise ValueError("needs from and rate, or job")
        return self


class Cluster(Part):
    """What the job runs on; fabric absent = what the catalogue node comes with."""

    node: Annotated[Annotated[Name, WORD] | Annotated[NodeSpec, MAPPING], ByShape]
    nodes: Count
    spares: CountOrZero = 0
    fabric: Annotated[Annotated[Name, WORD] | Annotated[FabricSpec, MAPPING], ByShape] | None = None
    background: tuple[Background, ...] = ()
