"""Reads tables of measured kernels: which rows describe which part of a profile."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from simcluster.errors import InputError, Mark, Problem
from simcluster.timing.records import Figure, Grade
from simcluster.timing.regression import Array

Row = Mapping[str, str]

# Names that measured tables use, and those of profiles.
KERNELS = {
    "FlashAttention-2": "flash-2",
    "FlashAttention-3": "flash-3",
    "cuDNN": "cudnn",
    "flash_attention": "flash-2-paged",
    "fa3": "flash-3-paged",
    "vllm_flash_attn_fa3": "flash-3-paged",
    "torch_flow": "trtllm-paged",
}
DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "bf16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8-block",
    "nvfp4": "nvfp4",
}

MIN_LAYOUT_PAIRS = 10
FIGURE_TOKENS, FIGURE_WIDTH = 16384, 2048  # of the published bar charts: 16k tokens, heads * head_dim = 2048


@dataclass(frozen=True, slots=True)
class GemmSource:
    """Rows of the GEMM table that become one precision's table; `best` is C when the device is another one."""

    device: str
    dtype: str  # as the table names it
    best: Grade = "A"
    note: str = ""


@dataclass(frozen=True, slots=True)
class AttentionSource:
    """Rows of the attention table (kernel, pass as it names them) that become one table.

    Without rows the table is `speed` times its base.
    """

    key: str
    base: str = ""
    device: str = ""
    kernel: str = ""
    passes: str = "fwd"
    speed: float = 1.0
    base_at: Literal["same", "neutral"] = "same"
    best: Grade = "A"
    note: str = ""


def read_measured(path: str | Path, required: Iterable[str]) -> list[dict[str, str]]:
    """Rows of a measured CSV; InputError if the file or one of the `required` columns is missing."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            missing = sorted(set(required) - set(reader.fieldnames or ()))
            if missing:
                raise InputError(
                    Problem(f"lacks the columns {', '.join(missing)}", "see the header", Mark(str(path), 1, 1))
                )
            return list(reader)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", "check the path", Mark(str(path)))) from None


def gemm_points(rows: Iterable[Row], source: GemmSource) -> tuple[Array, str]:
    """Isolated-kernel points of one device and precision, and the source that they name."""
    mine = [r for r in rows if (r["gpu"], r["dtype"]) == (source.device, source.dtype) and _is_forward(r)]
    if not mine:
        raise InputError(
            Problem(f"no {source.dtype} GEMM rows of {source.device}", "check the device's name in the table")
        )
    table = np.array([[float(r[c]) for c in ("m", "n", "k", "time_us")] for r in mine])
    return table * np.array([1, 1, 1, 1e-6]), mine[0]["source"]


def _is_forward(row: Row) -> bool:
    """Whole sweeps in the forward layout; neither best-of-search figures nor single published shapes."""
    return row["kind"] == "measured(kernel)" or (row["kind"] == "measured(training op sweep)" and row["layout"] == "TN")


def attention_points(rows: Iterable[Row], source: AttentionSource) -> tuple[Array, str]:
    """Points of one kernel and pass, columns ATTENTION_COLUMNS in seconds, and the source that they name."""
    found = [r for r in rows if _is_source(r, source)]
    if not found:
        raise InputError(
            Problem(f"no attention rows of {source.device} {source.kernel}", "check the names in the table")
        )
    return np.array([attention_point(r, source.passes) for r in found]), found[0]["source"]


def _is_source(row: Row, source: AttentionSource) -> bool:
    same = (row["gpu"], row["kernel"]) == (source.device, source.kernel)
    return same and row["pass"].partition("(")[0] == source.passes and row["causal"] in ("0", "1")


def attention_point(row: Row, passes: str) -> list[float]:
    """ATTENTION_COLUMNS of one row of the attention table, in seconds; `passes` is fwd, bwd or fwd+bwd.

    Rows of published bar charts state no batch and no heads: 16k tokens of width 2048 are assumed.

    >>> row = {"seq_len": "8192", "head_dim": "128", "causal": "0", "batch": "", "num_heads": "", "num_kv_heads": "",
    ...     "tflops": "370"}
    >>> attention_point(row, "fwd")[3:6]
    [2.0, 16.0, 16.0]
    """
    seq, head_dim, causal = float(row["seq_len"]), float(row["head_dim"]), float(row["causal"])
    batch = float(row["batch"] or max(1.0, FIGURE_TOKENS / seq))
    heads = float(row["num_heads"] or FIGURE_WIDTH / head_dim)
    kv_heads = float(row["num_kv_heads"] or heads)
    work = {"fwd": 1.0, "bwd": 2.5, "fwd+bwd": 3.5}[passes]
    flops = work * 4 * batch * heads * seq * seq * head_dim * (0.5 if causal else 1.0)
    seconds = float(row["time_us"]) * 1e-6 if row.get("time_us") else flops / (float(row["tflops"]) * 1e12)
    return [head_dim, causal, seq, batch, heads, kv_heads, seconds]


def layout_rates(rows: Iterable[Row], device: str, date: str) -> dict[str, Figure]:
    """Rate of the training layouts relative to the forward one on the same host: medians over one layer's products.

    Forward (m, n, k) pairs with input gradient (m, k, n) and weight gradient (n, k, m); the ratio is independent of how
    fast that host is, so it carries over to devices of the same generation.
    """
    times: dict[str, dict[tuple[float, ...], float]] = {"TN": {}, "NN": {}, "NT": {}, "NT-accumulate": {}}
    found = ""
    for row in rows:
        if row["gpu"] == device and row["layout"] in times:
            layout = row["layout"] + ("-accumulate" if "out=fp32" in row["notes"] else "")
            times[layout][tuple(float(row[c]) for c in ("m", "n", "k"))] = float(row["time_us"])
            found = row["source"]
    order = {"NN": (0, 2, 1), "NT": (1, 2, 0), "NT-accumulate": (1, 2, 0)}
    rates = {}
    for layout, axes in order.items():
        pairs = [(t, times[layout].get(tuple(shape[i] for i in axes))) for shape, t in times["TN"].items()]
        ratios = [forward / other for forward, other in pairs if other]
        if len(ratios) >= MIN_LAYOUT_PAIRS:
            note = f"median of {len(ratios)} pairs on one host ({device}), relative to its layout TN"
            rates[layout] = Figure(round(float(np.median(ratios)), 3), "1", found, date, "measured", note)
    return rates


def stream_rate(rows: Iterable[Row], device: str, date: str) -> Figure:
    """BabelStream triad of a device from the table of memory figures (columns gpu, what, value, unit, source)."""
    for row in rows:
        if row["gpu"] == device and row["what"] == "HBM BabelStream triad" and row["unit"] == "GB/s":
            return Figure(float(row["value"]) * 1e9, "B/s", row["source"], date, "measured", "BabelStream triad")
    raise InputError(Problem(f"no stream rate of {device}", "check the device's name in the table"))
