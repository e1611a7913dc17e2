"""The table of what runs on what: `calibration/software/compatibility/rules.yaml` as records, each with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import yaml

from simcluster.data import data_root
from simcluster.timing.software_files import FieldSource

Version: TypeAlias = "tuple[int, int]"
ANY_MINOR = 99  # "12" alone is any 12.x
TOOLKITS = ("cuda", "rocm")


@dataclass(frozen=True, slots=True)
class Runs:
    """Toolkit of a GPU generation: first release with kernels for it, first one without; None where not known."""

    toolkit: str
    first: Version | None
    dropped: Version | None
    source: FieldSource


@dataclass(frozen=True, slots=True)
class TorchRelease:
    """A torch release: month, newest CUDA that its official wheels were built with."""

    month: str
    cuda: Version
    source: FieldSource


@dataclass(frozen=True, slots=True)
class Limited:
    """Something that only some GPU generations have, since a month ("" if that does not matter)."""

    generations: tuple[str, ...]
    source: FieldSource
    since: str = ""
    what: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """A communication library: makers whose GPUs it drives, its other names by maker, whether it is modelled."""

    makers: tuple[str, ...]
    source: FieldSource
    reads_as: Mapping[str, str] = field(default_factory=dict)
    modelled: bool = True


@dataclass(frozen=True, slots=True)
class Engine:
    """What shards a model: families that run on it, its strategies (those beside a pipeline), its first torch."""

    name: str
    families: tuple[str, ...]
    strategies: tuple[str, ...]
    with_pipeline: tuple[str, ...]
    torch: Version | None
    word: re.Pattern[str] | None
    source: FieldSource


@dataclass(frozen=True, slots=True)
class Rules:
    """All of the table."""

    runs: Mapping[str, Runs]
    cuda_months: Mapping[Version, str]
    torch: Mapping[Version, TorchRelease]
    attention: Mapping[str, Limited]
    precisions: Mapping[str, Limited]
    backends: Mapping[str, Backend]
    engines: tuple[Engine, ...]
    same: Mapping[str, str]
    cloud_protocols: Mapping[str, tuple[str, ...]]
    only_at: Mapping[str, str]


def release(text: str) -> Version | None:
    """Major and minor number of a release; None if the text holds none.

    >>> release("12.8.1"), release("v2.10.0a0+git"), release("12"), release("soon")
    ((12, 8), (2, 10), (12, 99), None)
    """
    found = re.match(r"\s*v?(\d{1,4})(?:\.(\d{1,4}))?(?![\d])", text)
    if not found:
        return None
    return int(found[1]), ANY_MINOR if found[2] is None else int(found[2])


def toolkit_release(text: str) -> tuple[str, Version] | None:
    """Toolkit and release of what people write for it; None if it is neither CUDA nor ROCm.

    >>> toolkit_release("12.8"), toolkit_release("cu124"), toolkit_release("ROCm 6.2.1"), toolkit_release("latest")
    (('cuda', (12, 8)), ('cuda', (12, 4)), ('rocm', (6, 2)), None)
    """
    words = text.strip().lower()
    short = re.fullmatch(r"cu(\d{2})(\d)", words)
    if short:
        return "cuda", (int(short[1]), int(short[2]))
    found = re.fullmatch(r"(cuda|rocm|hip)?[\s_-]*(\d.*)", words)
    number = release(found[2]) if found else None
    if found is None or number is None:
        return None
    return ("rocm" if found[1] in ("rocm", "hip") else "cuda"), number


def said(version: Version) -> str:
    """A release as people write it.

    >>> said((12, 8)), said((12, ANY_MINOR))
    ('12.8', '12')
    """
    return f"{version[0]}" if version[1] == ANY_MINOR else f"{version[0]}.{version[1]}"


@cache
def load_rules() -> Rules:
    """The shipped table.

    >>> rules = load_rules()
    >>> rules.runs["blackwell"].first, rules.torch[(2, 6)].cuda
    ((12, 8), (12, 6))
    """
    path = data_root("calibration") / "software" / "compatibility" / "rules.yaml"
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    sources = {
        name: FieldSource(str(entry["source"]), str(entry["date"]), str(entry["kind"]))
        for name, entry in raw["sources"].items()
    }
    return Rules(
        runs={name: _runs(entry, sources) for name, entry in raw["runs"].items()},
        cuda_months={_version(name): str(month) for name, month in raw["cuda"]["releases"].items()},
        torch={
            _version(name): TorchRelease(str(entry["month"]), _version(entry["cuda"]), sources[entry["from"]])
            for name, entry in raw["torch"].items()
        },
        attention={name: _limited(entry, sources) for name, entry in raw["attention"].items()},
        precisions={name: _limited(entry, sources) for name, entry in raw["precisions"].items()},
        backends={name: _backend(entry, sources) for name, entry in raw["backends"].items()},
        engines=tuple(_engine(name, entry, sources) for name, entry in raw["engines"].items()),
        same=raw["same"],
        cloud_protocols={cloud: tuple(names) for cloud, names in raw["clouds"]["protocols"].items()},
        only_at=raw["clouds"]["only"],
    )


Sources: TypeAlias = Mapping[str, FieldSource]


def _version(text: str) -> Version:
    found = release(str(text))
    if found is None:
        raise ValueError(f"{text!r} is not a release")
    return found


def _maybe(text: str | None) -> Version | None:
    return _version(text) if text else None


def _runs(entry: Mapping[str, Any], sources: Sources) -> Runs:
    return Runs(entry["toolkit"], _maybe(entry.get("first")), _maybe(entry.get("dropped")), sources[entry["from"]])


def _limited(entry: Mapping[str, Any], sources: Sources) -> Limited:
    what = str(entry.get("what", ""))
    return Limited(tuple(entry["generations"]), sources[entry["from"]], str(entry.get("since", "")), what)


def _backend(entry: Mapping[str, Any], sources: Sources) -> Backend:
    also = entry.get("reads_as", {})
    return Backend(tuple(entry["makers"]), sources[entry["from"]], also, bool(entry.get("modelled", True)))


def _engine(name: str, entry: Mapping[str, Any], sources: Sources) -> Engine:
    strategies = tuple(map(str, entry["strategies"]))
    return Engine(
        name=name,
        families=tuple(entry["families"]),
        strategies=strategies,
        with_pipeline=tuple(map(str, entry.get("with_pipeline", strategies))),
        torch=_maybe(entry.get("torch")),
        word=re.compile(entry["word"], re.IGNORECASE) if "word" in entry else None,
        source=sources[entry["from"]],
    )
