"""Kernel profiles by name or file: how fast one accelerator runs isolated kernels.

The records are in `records`, the file format in `profile_reader`, what stands in for measurements in `priors`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from simcluster.data import data_root
from simcluster.errors import InputError, Problem
from simcluster.timing.priors import prior_profile
from simcluster.timing.profile_reader import read_profile
from simcluster.timing.records import AttentionTable, GemmTable, KernelProfile, LaunchRates, StreamingRates, peak_name

__all__ = [
    "AttentionTable",
    "GemmTable",
    "KernelProfile",
    "LaunchRates",
    "StreamingRates",
    "has_profile",
    "load_profile",
    "peak_flops",
    "prior_profile",
    "profile_path",
]


def peak_flops(profile: KernelProfile, dtype: str) -> float:
    """Dense peak of a precision [FLOP/s].

    Raises InputError if the profile states none.

    >>> peak_flops(load_profile("a100-80gb-sxm"), "fp16") / 1e12
    312.0
    """
    peaks = profile.device.peak_flops
    name = peak_name(peaks, dtype)
    if name in peaks:
        return peaks[name]
    known = ", ".join(sorted(peaks))
    raise InputError(Problem(f"{profile.id} has no {dtype} rate", f"use one of {known}"))


def profile_path(name: str) -> Path:
    """File of a profile that ships with simcluster; InputError names the near ones if there is none."""
    folder = data_root("calibration") / "profiles"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(item.stem for item in folder.glob("*.yaml") if item.stem != "collectives"))
        raise InputError(Problem(f"no kernel profile {name!r}", f"known: {known}; or give the path of a profile file"))
    return path


def has_profile(name: str) -> bool:
    """True if a profile of that name ships with simcluster.

    >>> has_profile("h100-80gb-sxm"), has_profile("abacus")
    (True, False)
    """
    return (data_root("calibration") / "profiles" / f"{name}.yaml").is_file()


def load_profile(name: str | Path) -> KernelProfile:
    """A profile by its id, or from a file (a path, or text that ends in .yaml or holds a slash); cached.

    Raises InputError with every problem of the file, each with line and column.

    >>> profile = load_profile("h100-80gb-sxm")
    >>> profile.generation, sorted(profile.gemm.tables)
    ('hopper', ['bf16', 'fp8', 'fp8-block'])
    """
    is_path = isinstance(name, Path) or name.endswith((".yaml", ".yml")) or "/" in name
    path = Path(name) if is_path else profile_path(str(name))
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        stamp = 0  # the reader says what is wrong
    return _load(path, stamp)


@lru_cache(maxsize=64)
def _load(path: Path, _stamp: int) -> KernelProfile:
    return read_profile(path)
