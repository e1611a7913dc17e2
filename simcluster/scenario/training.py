"""The training plan: batch, precision, layout, sharding, software."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from simcluster import units
from simcluster.scenario.fields import (
    MAPPING,
    WORD,
    AutoCount,
    ByShape,
    Count,
    CountOrZero,
    Name,
    Part,
    Ratio,
    Tokens,
    whole,
)

Precision = Literal["bf16", "fp16", "fp8", "fp8-block", "mxfp8", "nvfp4", "tf32", "fp32"]
Schedule = Literal["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe", "none"]
Strategy = Literal["none", "zero-1", "zero-2", "zero-3", "fsdp", "hsdp"]
RecomputeMode = Literal["none", "selective", "full"]

COMPRESSIONS = ("none", "bf16", "fp8", "powersgd(4)", "topk(0.01)", "local-sgd(16)")


class StageSpec(Part):
    """Content of one stage (of one chunk with virtual stages); also just the number of layers.

    Absent: the first holds the embedding and the last the head.
    """

    layers: CountOrZero
    embedding: bool | None = None
    head: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return value if isinstance(value, (dict, StageSpec)) else {"layers": value}


def _stages(value: Any) -> Any:
    if value not in ("auto", "balanced") and (not isinstance(value, (list, tuple)) or not value):
        raise ValueError(f"{value!r} should be 'auto', 'balanced' or a list with the layers of each stage")
    return value


def _stages_shape(value: Any) -> str:
    return "auto" if isinstance(value, str) else "a list"


class Parallelism(Part):
    """How the job is cut; absent: dp = GPUs / (tp pp cp), etp = tp, ep and sequence_parallel as the software does."""

    tp: Count = 1
    pp: Count = 1
    dp: Count | None = None
    cp: Count = 1
    ep: Count | None = None
    etp: Count | None = None
    sequence_parallel: bool | None = None
    schedule: Schedule = "1f1b"
    virtual_stages: Count = 1
    layers_per_virtual_stage: Count | None = None  # states virtual_stages by the layers of each
    order: Literal["depth-first", "breadth-first"] = "depth-first"
    stages: Annotated[
        Annotated[Literal["auto", "balanced"], Tag("auto")] | Annotated[tuple[StageSpec, ...], Tag("a list")],
        Discriminator(_stages_shape),
        BeforeValidator(_stages),
    ] = "auto"


class Sharding(Part):
    """What data-parallel ranks share out; strategy absent = as the software does."""

    strategy: Strategy | None = None
    group: Literal["all", "node"] | int = "all"  # ranks that one shard set spans
    offload: Literal["none", "cpu", "nvme", "pool"] = "none"

    @field_validator("group", mode="before")
    @classmethod
    def _group(cls, value: Any) -> Any:
        if value in ("all", "node"):
            return value
        try:
            number = whole()(value)
        except ValueError:
            number = 0
        if number < 1:
            raise ValueError(f"{value!r} should be 'all', 'node' or a number of ranks")
        return number


class RecomputeModules(Part):
    """Parts of a layer that are computed again in the backward pass."""

    modules: tuple[Name, ...] = Field(min_length=1)


class Software(Part):
    """Framework and libraries; family absent = generic. `profile` names a calibration profile."""

    family: Name | None = None
    date: Annotated[str, Field(pattern=r"^\d{4}(-\d{2}(-\d{2})?)?$")] | None = None
    torch: Name | None = None
    cuda: Name | None = None
    backend: Name | None = None
    attention: Name | None = None
    profile: Name | None = None
    overrides: Mapping[str, bool | int | float | str] = Field(default_factory=dict)


class BatchTokens(Part):
    """A global batch stated in tokens."""

    tokens: Tokens


def _global_batch(value: Any) -> Any:
    if isinstance(value, (dict, BatchTokens)):
        return BatchTokens.model_validate(value)
    if not isinstance(value, str):
        return _at_least_one(whole()(value), value)
    found = re.fullmatch(r"(.*?\S)\s*(tokens?|tok|sequences?|samples?)\s*", value)
    if found and found[2].startswith("tok"):
        return BatchTokens(tokens=whole("tokens")(found[1]))
    if not found and re.search(r"[A-Za-z]", value):
        raise ValueError(f"{value!r} should be a number of sequences, or like '4M tokens'")
    return _at_least_one(whole()(found[1] if found else value), value)


def _at_least_one(number: int, value: Any) -> int:
    if number < 1:
        raise ValueError(f"{value!r} should be at least 1")
    return number


GlobalBatch: TypeAlias = Annotated[int | BatchTokens, BeforeValidator(_global_batch)]


def parse_compression(text: str) -> tuple[str, float | None]:
    """Method of gradient compression and its argument (rank, kept share, local steps).

    >>> parse_compression("powersgd(4)"), parse_compression("topk(1%)"), parse_compression("none")
    (('powersgd', 4.0), ('topk', 0.01), ('none', None))
    """
    found = re.fullmatch(r"(powersgd|topk|local-sgd)\((.+)\)", text.strip().lower())
    if found:
        value = units.parse(found[2], "fraction" if found[1] == "topk" else "count")
        if value > 0 and (value <= 1 if found[1] == "topk" else value == int(value)):
            return found[1], value
    elif text in ("none", "bf16", "fp8"):
        return text, None
    raise ValueError(f"{text!r} is not a gradient compression; use one like {', '.join(COMPRESSIONS)}")


def _compression(value: Any) -> str:
    text = str(value)
    parse_compression(text)
    return text.strip().lower()


class Training(Part):
    """Job and plan; what is absent is assumed (and listed) or planned later."""

    sequence_length: Count | None = None
    global_batch: GlobalBatch | None = None
    micro_batch: AutoCount = "auto"
    gradient_accumulation: Count | None = None  # micro-batches of a replica; states the batch where that is absent
    tokens: Tokens | None = None
    precision: Precision = "bf16"
    parallelism: Annotated[
        Annotated[Literal["auto"], WORD] | Annotated[Parallelism, MAPPING],
        ByShape,
    ] = "auto"
    sharding: Sharding = Sharding()
    recompute: Annotated[Annotated[RecomputeMode, WORD] | Annotated[RecomputeModules, MAPPING], ByShape] | None = (
        None  # absent = as the software does
    )
    grad_compression: Annotated[str, BeforeValidator(_compression)] = "none"
    expert_imbalance: Ratio | None = None  # tokens of the busiest expert rank over the mean; absent = balanced
    software: Software = Software()

    def sequences_per_step(self, sequence_length: int | None = None, multiple: int = 1) -> int | None:
        """Global batch in sequences; one stated in tokens becomes the nearest multiple of `multiple` (at least one).

        >>> Training.model_validate({"sequence_length": 4096, "global_batch": "4Mi tokens"}).sequences_per_step()
        1024
        """
        if not isinstance(self.global_batch, BatchTokens):
            return self.global_batch
        length = sequence_length or self.sequence_length
        if length is None:
            return None
        return max(1, round(self.global_batch.tokens / length / multiple)) * multiple
