"""What the memory of a rank depends on, beside the model and the software."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simcluster.shapes import Num

_ELEMENT_BYTES = {"fp32": 4.0, "tf32": 4.0}


@dataclass(frozen=True, slots=True)
class MemorySetup:
    """Layout and training plan; numbers are scalars or arrays that broadcast, names and `modules` are the same for all.

    tp, pp, dp, cp        ranks of each axis
    micro_batch           sequences of one micro-batch
    sequence              tokens of a sequence
    micro_batches         micro-batches of a replica in one step
    schedule              none, gpipe, 1f1b, zb-h1, zb-h2 or dualpipe
    sequence_parallel     what is not divided by heads or width is divided by tokens over tp
    sharding              none, zero-1, zero-2, zero-3, fsdp or hsdp
    shard_ranks           ranks that share one set of shards; 0 means dp·cp
    recompute, modules    none, full, or selective with the modules that are recomputed (none: the software's)
    precision             fp32 and tf32 keep activations of four bytes, all others of two
    vocab_multiple        the vocabulary is padded to a multiple of this times tp

    >>> MemorySetup(tp=8, pp=4, dp=4, micro_batch=1, sequence=4096, micro_batches=32).shards
    4
    """

    tp: Num = 1
    pp: Num = 1
    dp: Num = 1
    cp: Num = 1
    micro_batch: Num = 1
    sequence: Num = 2048
    micro_batches: Num = 1
    schedule: str = "1f1b"
    sequence_parallel: bool = True
    sharding: str = "zero-1"
    shard_ranks: Num = 0
    recompute: str = "none"
    modules: tuple[str, ...] = ()
    precision: str = "bf16"
    vocab_multiple: int = 128

    @property
    def tokens(self) -> Num:
        """Tokens of one micro-batch on one rank."""
        return self.micro_batch * self.sequence / self.cp

    @property
    def residual_shards(self) -> Num:
        """Ranks that share the residual stream."""
        return self.tp if self.sequence_parallel else 1

    @property
    def shards(self) -> Any:
        """Ranks that share one set of shards."""
        return self.dp * self.cp if isinstance(self.shard_ranks, int) and self.shard_ranks == 0 else self.shard_ranks

    @property
    def element_bytes(self) -> float:
        """Bytes of an activation's element."""
        return _ELEMENT_BYTES.get(self.precision, 2.0)
