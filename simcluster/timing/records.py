"""Kernel profiles: how fast one accelerator runs isolated kernels, and where each figure comes from.

A profile holds measured point tables (GEMM, attention) and single figures (memory streams, launches), every one with
its source, date and kind. Rates are those of a kernel alone on the device, not what a training run sustains.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simcluster.timing.regression import Kernel

Kind = Literal["datasheet", "measured", "derived", "estimate"]
Grade = Literal["A", "B", "C", "D"]

GEMM_COLUMNS = ("m", "n", "k", "time_us")
ATTENTION_COLUMNS = ("head_dim", "causal", "seq", "batch", "heads", "kv_heads", "time_us")

TABLE_OF = {"fp16": "bf16", "mxfp8": "fp8-block", "fp4": "nvfp4"}  # precisions that read another one's table
PEAK_OF = {"fp8-block": "fp8", "mxfp8": "fp8", "nvfp4": "fp4"}  # recipes run at the peak of their number format
ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "fp8-block": 1.0, "mxfp8": 1.0}
ELEMENT_BYTES |= {"fp4": 0.5, "nvfp4": 0.5}


def peak_name(peaks: Collection[str], precision: str) -> str:
    """Name of the peak of a profile's device that a precision runs at; itself where there is none.

    Its own, that of its number format, or that of the precision whose table it reads (a profile states one 16-bit
    rate).

    >>> peak_name({"bf16": 1.0, "fp8": 2.0}, "mxfp8"), peak_name({"bf16": 1.0}, "fp16"), peak_name({"bf16": 1.0}, "fp8")
    ('fp8', 'bf16', 'fp8')
    """
    names = (precision, PEAK_OF.get(precision, precision), TABLE_OF.get(precision, precision))
    return next((name for name in names if name in peaks), precision)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where figures come from; `device` is the measured part as its source names it."""

    source: str
    date: str
    kind: Kind
    device: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number with unit and origin."""

    value: float
    unit: str
    source: str
    date: str
    kind: Kind
    note: str = ""


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Datasheet figures: they make tables comparable and stand in where there is no table."""

    sms: int
    hbm_bytes_per_s: float
    peak_flops: Mapping[str, float]  # dense, by precision
    origin: Origin


@dataclass(frozen=True, slots=True)
class Fit:
    """Smoothing of a table and its leave-one-out errors, relative; `noise` is that of one measurement."""

    lengths: tuple[float, ...]
    prior_weight: float
    ridge: float
    loo_median: float
    loo_p90: float
    noise: float

    def kernel(self) -> Kernel:
        """The weights that the regression uses."""
        return Kernel(self.lengths, self.prior_weight, self.ridge)


@dataclass(frozen=True, slots=True, eq=False)
class GemmTable:
    """Measured GEMMs of one precision, columns m, n, k, seconds; `best` is the grade that a hit in it earns."""

    reference_flops: float  # dense peak of the measured device, FLOP/s
    reference_bytes_per_s: float  # its memory rate
    latency_s: float  # of the roofline that the fit is relative to
    max_efficiency: float  # highest fraction of peak in the table
    best: Grade
    fit: Fit
    origin: Origin
    points: NDArray[np.float64] = field(metadata={"columns": GEMM_COLUMNS})


@dataclass(frozen=True, slots=True)
class GemmRates:
    """GEMM tables by precision, and the figures that apply where they do not reach."""

    tables: Mapping[str, GemmTable]
    efficiency_prior: Figure  # of full tiles, for shapes without a table (batched, or a precision not measured)
    layouts: Mapping[str, Figure]  # rate relative to layout TN: "NN", "NT", "NT-accumulate"
    alignment: Mapping[str, Figure]  # rate when dimensions are multiples of "64", "8", "1"


@dataclass(frozen=True, slots=True, eq=False)
class AttentionTable:
    """Fused attention of one kernel and direction, columns as ATTENTION_COLUMNS (time in seconds).

    With a `base` (key of another table) the fit is of the difference to it, and `shift` is that difference far from
    every point: ln of the speed relative to the base. Without points the base and the shift are all there is.
    `base_at` neutral asks the base for a fixed number of sequences and group of heads: inference kernels pay for paged
    keys by both, training kernels do not.
    """

    base: str
    base_at: Literal["same", "neutral"]
    shift: float = field(metadata={"any_sign": True})
    reference_flops: float
    reference_bytes_per_s: float
    latency_s: float
    best: Grade
    fit: Fit
    origin: Origin
    points: NDArray[np.float64] = field(metadata={"columns": ATTENTION_COLUMNS})


@dataclass(frozen=True, slots=True)
class StreamingRates:
    """Memory-bound operators: rate of long streams, and the size whose time the ramp-up costs."""

    bytes_per_s: Figure
    half_bytes: Figure
    best: Grade


@dataclass(frozen=True, slots=True)
class LaunchRates:
    """Seconds that pass on the device between two kernels; the host's time belongs to the software family."""

    device_gap_s: float
    origin: Origin


@dataclass(frozen=True, slots=True, eq=False)
class KernelProfile:
    """Isolated-kernel rates of one accelerator; attention tables are keyed "kernel/direction"."""

    id: str
    gpu: str
    generation: str
    device: DeviceRates
    gemm: GemmRates
    attention: Mapping[str, AttentionTable]
    streaming: StreamingRates
    launch: LaunchRates
