"""Makes calibration/profiles/*.yaml from calibration/measured/*.csv: `python calibration/fit_kernels.py [FOLDER]`.

Each recipe says which rows of the measured tables describe a device, and what stands in where nobody measured.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from simcluster.calibrate.kernels import Recipe, fit_kernel_profile
from simcluster.calibrate.measured import (
    AttentionSource,
    GemmSource,
    Row,
    layout_rates,
    read_measured,
    stream_rate,
)
from simcluster.calibrate.profile_writer import write_profile
from simcluster.timing.priors import DEVICE_GAP_S, HALF_BYTES, default_alignment, default_layouts
from simcluster.timing.records import DeviceRates, Figure, Grade, KernelProfile, LaunchRates, Origin, StreamingRates

HERE = Path(__file__).resolve().parent
DATE = "2026-08"  # of the measured tables' snapshots
PRIOR = Origin("engineering prior, no measurement", "2026-11", "estimate")
LAUNCH = LaunchRates(DEVICE_GAP_S, replace(PRIOR, note="typical gap between kernels on the device, 1.5 to 3 us"))
HALF = Figure(HALF_BYTES, "B", PRIOR.source, PRIOR.date, "estimate", "typical 2 to 8 MB")
NOISE = {"ampere": 0.02, "hopper": 0.02, "blackwell": 0.04}  # spread of one shape on two parts with the same die

# id: generation, SMs, memory GB/s, dense TFLOP/s by precision
DATASHEETS: Mapping[str, tuple[str, int, float, dict[str, float]]] = {
    "a100-40gb-sxm": ("ampere", 108, 1555, {"bf16": 312, "tf32": 156, "fp32": 19.5}),
    "a100-80gb-sxm": ("ampere", 108, 2039, {"bf16": 312, "tf32": 156, "fp32": 19.5}),
    "a100-80gb-pcie": ("ampere", 108, 1935, {"bf16": 312, "tf32": 156, "fp32": 19.5}),
    "h100-80gb-sxm": ("hopper", 132, 3350, {"bf16": 989.4, "fp8": 1978.9, "tf32": 494.7, "fp32": 66.9}),
    "h200-141gb-sxm": ("hopper", 132, 4800, {"bf16": 989.4, "fp8": 1978.9, "tf32": 494.7, "fp32": 66.9}),
    "b200-sxm": ("blackwell", 148, 8000, {"bf16": 2250, "fp8": 4500, "fp4": 9000, "tf32": 1125, "fp32": 75}),
    "b300-sxm": ("blackwell", 148, 8000, {"bf16": 2250, "fp8": 4500, "fp4": 13500, "tf32": 1125, "fp32": 75}),
    "gb200": ("blackwell", 152, 8000, {"bf16": 2500, "fp8": 5000, "fp4": 10000, "tf32": 1250, "fp32": 80}),
    "gb300": ("blackwell", 152, 8000, {"bf16": 2500, "fp8": 5000, "fp4": 15000, "tf32": 1250, "fp32": 80}),
}
NAMES = {  # of the measured devices in the tables
    "A100-SXM4-80GB": "a100-80gb-sxm",
    "A100-PCIe (SimuMax host)": "a100-80gb-pcie",
    "H100-SXM5": "h100-80gb-sxm",
    "H200-SXM5": "h200-141gb-sxm",
    "B200-SXM": "b200-sxm",
    "B300-SXM": "b300-sxm",
    "GB200": "gb200",
    "NVIDIA A100 80GB PCIe": "a100-80gb-pcie",
    "NVIDIA H200": "h200-141gb-sxm",
    "NVIDIA B200": "b200-sxm",
    "NVIDIA GB200": "gb200",
    "NVIDIA GB300": "gb300",
}
# id: device and precisions of its GEMM tables; device of its attention tables; device of its stream rate
SOURCES: Mapping[str, tuple[list[tuple[str, str]], str, str]] = {
    "a100-40gb-sxm": ([("A100-SXM4-80GB", "bfloat16")], "A100-SXM4-80GB", "A100-SXM4-80GB"),
    "a100-80gb-sxm": ([("A100-SXM4-80GB", "bfloat16")], "A100-SXM4-80GB", "A100-SXM4-80GB"),
    "a100-80gb-pcie": ([("A100-PCIe (SimuMax host)", "bfloat16")], "A100-SXM4-80GB", "A100-SXM4-80GB"),
    "h100-80gb-sxm": ([("H100-SXM5", d) for d in ("bfloat16", "fp8", "fp8_block")], "H100-SXM5", "H100-SXM5"),
    "h200-141gb-sxm": (
        [("H200-SXM5", d) for d in ("bfloat16", "fp8", "fp8_block")],
        "H200-SXM5",
        "H200-SXM5-141GB",
    ),
    "b200-sxm": ([("B200-SXM", d) for d in ("bfloat16", "fp8", "fp8_block", "nvfp4")], "B200-SXM", ""),
    "b300-sxm": ([("B300-SXM", d) for d in ("bfloat16", "fp8", "fp8_block", "nvfp4")], "B200-SXM", ""),
    "gb200": ([("GB200", d) for d in ("bfloat16", "fp8", "fp8_block", "nvfp4")], "GB200", ""),
    "gb300": (
        [("GB200", d) for d in ("bfloat16", "fp8", "fp8_block")] + [("B300-SXM", "nvfp4")],
        "GB200",
        "",
    ),
}
STREAM_NAMES = {"A100-SXM4-80GB": "A100-SXM4-80GB", "H100-SXM5": "H100-SXM5-80GB"}
BLACKWELL_STREAM = 0.855  # of the datasheet: self copy of a GB200 (0.725), times triad over self copy of an H100 (1.18)


def device_rates(gpu: str) -> DeviceRates:
    """Datasheet record of one device, SI units."""
    _, sms, memory, peaks = DATASHEETS[gpu]
    origin = Origin("NVIDIA datasheet, dense rates", "2026-11", "datasheet")
    return DeviceRates(sms, memory * 1e9, {name: value * 1e12 for name, value in peaks.items()}, origin)


def streaming(gpu: str, links: list[dict[str, str]]) -> StreamingRates:
    """Measured stream rate, or the fraction of the datasheet that a near device reaches."""
    device, datasheet = SOURCES[gpu][2], DATASHEETS[gpu][2] * 1e9
    if not device:
        note = "GB200 self copy over the datasheet, times BabelStream triad over self copy of an H100"
        rate = Figure(BLACKWELL_STREAM * datasheet, "B/s", "github.com/stas00/ml-engineering", DATE, "estimate", note)
        return StreamingRates(rate, HALF, "C")
    rate = stream_rate(links, STREAM_NAMES.get(device, device), DATE)
    own = NAMES.get(device, gpu) == gpu
    if own:
        return StreamingRates(rate, HALF, "B")
    fraction = rate.value / (DATASHEETS[NAMES[device]][2] * 1e9)
    note = f"fraction of the datasheet that {NAMES[device]} reaches"
    return StreamingRates(replace(rate, value=fraction * datasheet, kind="derived", note=note), HALF, "C")


def layouts(generation: str, gemm_rows: list[dict[str, str]]) -> dict[str, Figure]:
    """Measured on a host of the generation; Hopper lies between the two that were measured."""
    ampere = layout_rates(gemm_rows, "A100-PCIe (SimuMax host)", DATE)
    blackwell = layout_rates(gemm_rows, "B200-SXM (SimuMax host)", DATE)
    if generation != "hopper":
        return default_layouts() | (ampere if generation == "ampere" else blackwell)
    note = "mean of the Ampere and Blackwell hosts"
    return default_layouts() | {
        key: replace(
            ampere[key], value=round((ampere[key].value + blackwell[key].value) / 2, 3), kind="estimate", note=note
        )
        for key in ampere.keys() & blackwell.keys()
    }


def attention(gpu: str) -> list[AttentionSource]:
    """Attention tables in the order in which they build on each other."""
    generation, device = DATASHEETS[gpu][0], SOURCES[gpu][1]
    best: Grade = "A" if NAMES[device] == gpu else "C"
    return {"ampere": _ampere, "hopper": _hopper, "blackwell": _blackwell}[generation](device, best, gpu)


def _ampere(device: str, best: Grade, gpu: str) -> list[AttentionSource]:
    pcie = "NVIDIA A100 80GB PCIe"
    own: Grade = "A" if NAMES[pcie] == gpu else "C"
    paged, note = "flash-2-paged/forward", "cudnn-frontend benchmark, release of 2026-09"
    return [
        AttentionSource(paged, "", device, "flash_attention", "fwd", best=best),
        AttentionSource(
            "flash-2/forward", paged, pcie, "FlashAttention-2", "fwd", best=own, base_at="neutral", note=note
        ),
        AttentionSource("flash-2/backward", "flash-2/forward", device, "FlashAttention-2", "fwd+bwd", best=best),
        AttentionSource("cudnn/forward", "flash-2/forward", pcie, "cuDNN", "fwd", best=own, note=note),
        AttentionSource("cudnn/backward", "flash-2/backward", pcie, "cuDNN", "bwd", best=own, note=note),
        *_older(),
    ]


def _hopper(device: str, best: Grade, gpu: str) -> list[AttentionSource]:
    inference = "fa3" if device == "H100-SXM5" else "vllm_flash_attn_fa3"
    h100, h200 = "H100-SXM5", "NVIDIA H200"
    figures: Grade = "A" if NAMES[h100] == gpu else "C"  # the published figures are of an H100
    paged, cudnn = "flash-3-paged/forward", (h100 if gpu == NAMES[h100] else h200)
    return [
        AttentionSource(paged, "", device, inference, "fwd", best=best),
        AttentionSource("flash-3/forward", paged, h100, "FlashAttention-3", "fwd", base_at="neutral", best=figures),
        AttentionSource("flash-3/backward", "flash-3/forward", h100, "FlashAttention-3", "bwd", best=figures),
        AttentionSource("flash-2/forward", paged, h100, "FlashAttention-2", "fwd", base_at="neutral", best=figures),
        AttentionSource("flash-2/backward", "flash-2/forward", h100, "FlashAttention-2", "fwd+bwd", best=figures),
        AttentionSource("cudnn/forward", paged, cudnn, "cuDNN", "fwd", base_at="neutral"),
        AttentionSource("cudnn/backward", "cudnn/forward", cudnn, "cuDNN", "bwd"),
        *_older(),
    ]


def _blackwell(device: str, best: Grade, gpu: str) -> list[AttentionSource]:
    paged, gb200 = "trtllm-paged/forward", "NVIDIA GB200"
    own = {"b200-sxm": "NVIDIA B200", "gb200": gb200}.get(gpu, "NVIDIA GB300")
    grade: Grade = "A" if NAMES[own] == gpu else "C"
    tables = [AttentionSource(paged, "", device, "torch_flow", "fwd", best=best)]
    for key, kernel in (("cudnn", "cuDNN"), ("flash-2", "FlashAttention-2")):
        for direction, passes in (("forward", "fwd"), ("backward", "bwd")):
            base = paged if direction == "forward" else f"{key}/forward"
            if own != gb200:  # the others were timed at long sequences only: the GB200 gives the shape
                near = f"{key}-gb200/{direction}"
                base = paged if direction == "forward" else f"{key}-gb200/forward"
                tables.append(AttentionSource(near, base, gb200, kernel, passes, base_at=_at(base), best="C"))
                base = near
            tables.append(
                AttentionSource(f"{key}/{direction}", base, own, kernel, passes, base_at=_at(base), best=grade)
            )
    return tables + _older()


def _at(base: str) -> Literal["same", "neutral"]:
    return "neutral" if "paged" in base else "same"


def _older() -> list[AttentionSource]:
    note = "FlashAttention-2 is about twice as fast as its predecessor (Dao, 2023)"
    return [
        AttentionSource("flash-1/forward", "flash-2/forward", speed=0.55, best="D", note=note),
        AttentionSource("flash-1/backward", "flash-2/backward", speed=0.55, best="D", note=note),
    ]


def recipe(gpu: str, gemm_rows: list[dict[str, str]], links: list[dict[str, str]]) -> Recipe:
    """All that makes the profile of one device."""
    generation, own = DATASHEETS[gpu][0], {name for name, item in NAMES.items() if item == gpu}
    gemm = []
    for device, dtype in SOURCES[gpu][0]:
        note = (
            "isolated kernels, inference collector, layout TN" if "host" not in device else "training sweep, layout TN"
        )
        if dtype.startswith("fp8"):
            note += "; against cuBLASLt figures, 2.5 bytes per input element and 9 us longer: quantising seems included"
        if device not in own:
            note += f"; measured on {NAMES[device]}, memory traffic scaled"
        gemm.append(GemmSource(device, dtype, "A" if device in own else "C", note))
    return Recipe(
        gpu,
        generation,
        device_rates(gpu),
        gemm,
        attention(gpu),
        streaming(gpu, links),
        LAUNCH,
        NOISE[generation],
        DATE,
        layouts(generation, gemm_rows),
        default_alignment(),
        {name: device_rates(item) for name, item in NAMES.items()},
    )


def fit(gpu: str, folder: Path = HERE / "measured") -> KernelProfile:
    """Profile of one device from the measured tables."""
    gemm_rows = read_measured(
        folder / "gemm.csv", ("gpu", "dtype", "m", "n", "k", "layout", "time_us", "source", "kind")
    )
    attention_rows: list[Row] = list(
        read_measured(folder / "attention.csv", ("gpu", "kernel", "pass", "seq_len", "tflops"))
    )
    links = read_measured(folder / "memory_links.csv", ("gpu", "what", "value", "unit", "source"))
    return fit_kernel_profile(recipe(gpu, gemm_rows, links), gemm_rows, attention_rows)


def main(out: Path) -> None:
    """Fit and write every profile; say how well each table predicts the points left out of it."""
    for gpu in DATASHEETS:
        profile = fit(gpu)
        write_profile(profile, out / f"{gpu}.yaml")
        rows = [(f"gemm {key}", len(table.points), table.fit) for key, table in profile.gemm.tables.items()]
        rows += [(key, len(table.points), table.fit) for key, table in profile.attention.items() if len(table.points)]
        for name, count, quality in rows:
            error = f"{quality.loo_median:6.1%} {quality.loo_p90:6.1%}"
            print(f"{gpu:16} {name:24} {count:4} points, left out one by one: median, p90 {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "profiles")
