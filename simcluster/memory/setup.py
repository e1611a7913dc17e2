"""What the memory of a rank depends on, beside the model and the software."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simcluster.memory import precision as recipes
from simcluster.memory.arrays import plain
from simcluster.shapes import Num


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
    ep, etp               ranks that experts are spread over, and that each of them is cut over
    expert_shard_ranks    ranks that share the shards of one set of experts; 0 means as many as hold the same experts,
                          at most shard_ranks if that is given
    imbalance             tokens of the busiest expert rank over the mean, >= 1
    recompute, modules    none, full, or selective with the modules that are recomputed (none: the software's)
    precision             fp32, tf32, bf16, fp16, fp8, fp8-block, mxfp8 or nvfp4; see `precision`
    offload               states live outside the GPU, and shards of parameters where these are gathered to be used
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
    ep: Num = 1
    etp: Num = 1
    expert_shard_ranks: Num = 0
    imbalance: Num = 1.0
    offload: bool = False

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
        return self.dp * self.cp if _unset(self.shard_ranks) else self.shard_ranks

    @property
    def expert_shards(self) -> Any:
        """Ranks that share the shards of one set of experts: at most the ranks that hold the same ones."""
        if not _unset(self.expert_shard_ranks):
            return self.expert_shard_ranks
        copies = np.maximum(1, np.floor_divide(np.multiply(self.tp * self.dp, self.cp), np.multiply(self.ep, self.etp)))
        return plain(copies if _unset(self.shard_ranks) else np.minimum(copies, self.shard_ranks))

    @property
    def element_bytes(self) -> float:
        """Bytes of an activation's element."""
        return recipes.element_bytes(self.precision)


def _unset(ranks: Num) -> bool:
    return isinstance(ranks, int) and ranks == 0
