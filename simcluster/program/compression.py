"""Gradient compression: what a bucket sends instead of its gradients, and what making it costs.

    bf16, fp8       narrower elements on the wire
    powersgd(r)     two factors of rank r for each matrix, all-reduced (Vogels et al. 2019)
    topk(x)         the largest share x with its indices, 8 bytes each, all-gathered (Lin et al. 2018)
    local-sgd(h)    parameters are averaged every h steps instead of gradients every step (Stich 2019)

Compression can save no more than the data-parallel time that is exposed.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.shapes import CollectiveKind, GroupShape

# Bytes moved over HBM to encode and decode, for each byte of gradient (reads and writes counted; estimates).
_PASSES = {"bf16": 1.5, "fp8": 1.25, "powersgd": 3.0, "topk": 3.0}
_NARROW = {"bf16": 2.0, "fp8": 1.0}
INDEXED_BYTES = 8.0  # a value and its index


@dataclass(frozen=True, slots=True)
class Compression:
    """A method and its argument (rank, kept share, local steps)."""

    method: str
    argument: float | None = None

    @property
    def needs_whole_gradient(self) -> bool:
        """Whether every rank must hold the whole gradient, so that it does not go with sharded optimizers."""
        return self.method in ("powersgd", "topk", "local-sgd")


@dataclass(frozen=True, slots=True)
class Wire:
    """What goes over the wire for a bucket.

    kind, bytes   collective and its size
    codec_bytes   HBM traffic of encoding and decoding
    share         part of the collective's time that a step pays (1/h if it runs every h steps)
    """

    kind: CollectiveKind
    bytes: float
    codec_bytes: float = 0.0
    share: float = 1.0


def wire(
    compression: Compression | None,
    kind: CollectiveKind,
    parameters: float,
    gradient_bytes: float,
    group: GroupShape,
    rows: int,
) -> Wire:
    """Traffic of `parameters` gradients of `gradient_bytes` each, as matrices of `rows` rows.

    >>> wire(None, "all_reduce", 1e6, 4.0, GroupShape(8), 1024).bytes
    4000000.0
    >>> wire(Compression("topk", 0.01), "all_reduce", 1e6, 4.0, GroupShape(64), 1024).bytes
    5120000.0
    """
    plain = parameters * gradient_bytes
    if compression is None or parameters == 0:
        return Wire(kind, plain)
    method, argument = compression.method, compression.argument or 1.0
    codec = _PASSES.get(method, 0.0) * plain
    if method in _NARROW:
        width = min(_NARROW[method], gradient_bytes)
        return Wire(kind, parameters * width, codec if width < gradient_bytes else 0.0)
    if method == "powersgd":
        factors = argument * (rows + parameters / rows)
        return Wire(kind, min(plain, factors * gradient_bytes), codec)
    if method == "topk":
        return Wire("all_gather", group.ranks * argument * INDEXED_BYTES * parameters, codec)
    return Wire("all_reduce", plain, share=1.0 / argument)
