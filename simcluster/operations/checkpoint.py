"""Bytes of a checkpoint, how long it blocks the steps, how long it takes to reach storage and to come back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num

# Seconds until all ranks of a job are connected; estimate: half a minute for a node, five minutes at 16384 ranks.
INIT_S = 30.0
INIT_S_PER_RANK = 0.0165


def checkpoint_bytes(parameters: Num, weight_bytes: Num = 2.0, optimizer_bytes: Num = 12.0) -> Num:
    """Bytes of all that a restart needs: weights and the optimizer's states.

    parameters [count]; bytes of one parameter each: Adam in mixed precision saves 2 of weights, and 4 + 4 + 4 of master
    copy and moments. Software that rebuilds the weights from the master copy saves none of them.

    >>> checkpoint_bytes(175e9), checkpoint_bytes(175e9, 0.0)
    (2450000000000.0, 2100000000000.0)
    """
    return plain(np.multiply(parameters, np.add(weight_bytes, optimizer_bytes)))


@dataclass(frozen=True, slots=True)
class SavePath:
    """The way from GPU memory to storage. Rates are in bytes/s, > 0; infinite where a stage does not exist.

    writers                    GPUs that each write their own shard of the state
    nodes                      nodes that these are in
    copy_bytes_per_s           device to host, one GPU
    serialise_bytes_per_s      turning tensors into a file, one GPU's process
    storage_bytes_per_s        what the storage system takes in, all nodes together
    nic_bytes_per_s            what one node sends to storage
    barrier_s                  ranks agree that all is written
    """

    writers: Num
    nodes: Num
    copy_bytes_per_s: Num
    storage_bytes_per_s: Num
    nic_bytes_per_s: Num = np.inf
    serialise_bytes_per_s: Num = np.inf
    barrier_s: Num = 0.0


@dataclass(frozen=True, slots=True)
class SaveTime:
    """Seconds that a checkpoint blocks the steps, and seconds that it then needs behind them until it counts."""

    blocking_s: Num = 0.0
    flush_s: Num = 0.0


def synchronous_save(state_bytes: Num, path: SavePath) -> SaveTime:
    """Steps wait until all is written: max(copy and serialise, storage, a node's link) + barrier.

    >>> path = SavePath(512, 64, 25e9, 100e9, 25e9, barrier_s=1.0)
    >>> synchronous_save(2.45e12, path)
    SaveTime(blocking_s=25.5, flush_s=0.0)
    """
    local = _copy_s(state_bytes, path) + _serialise_s(state_bytes, path)
    return SaveTime(plain(np.maximum(local, _write_s(state_bytes, path)) + path.barrier_s))


def asynchronous_save(state_bytes: Num, path: SavePath) -> SaveTime:
    """Steps wait for the copy to host memory alone; serialising, writing and the barrier run behind them.

    >>> found = asynchronous_save(2.45e12, SavePath(512, 64, 25e9, 100e9, 25e9))
    >>> round(found.blocking_s, 3), found.flush_s
    (0.191, 24.5)
    """
    flush = np.maximum(_serialise_s(state_bytes, path), _write_s(state_bytes, path)) + path.barrier_s
    return SaveTime(plain(_copy_s(state_bytes, path)), plain(flush))


def load_s(state_bytes: Num, storage_bytes_per_s: Num, *, nodes: Num = 1, nic_bytes_per_s: Num = np.inf) -> Num:
    """Seconds to read `state_bytes` once over all nodes, at the storage system's or the nodes' rate.

    Where every replica reads all, state_bytes is the sum of what they read.

    >>> load_s(2.45e12, 100e9, nodes=64, nic_bytes_per_s=25e9)
    24.5
    """
    return plain(np.divide(state_bytes, np.minimum(storage_bytes_per_s, np.multiply(nodes, nic_bytes_per_s))))


def restart_s(ranks: Num, load_s: Num, *, scheduler_s: Num = 0.0, warm_up_s: Num = 0.0) -> Num:
    """Seconds from a new allocation to the first useful step: scheduler, connecting all ranks, load, warm-up.

    Connecting takes INIT_S + INIT_S_PER_RANK * ranks (estimate; published: 1 to 15 minutes before start-up was tuned,
    Jiang et al. 2024).

    >>> round(restart_s(512, 24.5, scheduler_s=20, warm_up_s=30), 3)
    112.948
    """
    connect = np.add(INIT_S, np.multiply(INIT_S_PER_RANK, ranks))
    return plain(np.add(scheduler_s, connect) + load_s + warm_up_s)


def _copy_s(state_bytes: Num, path: SavePath) -> Num:
    return np.divide(state_bytes, np.multiply(path.writers, path.copy_bytes_per_s))


def _serialise_s(state_bytes: Num, path: SavePath) -> Num:
    return np.divide(state_bytes, np.multiply(path.writers, path.serialise_bytes_per_s))


def _write_s(state_bytes: Num, path: SavePath) -> Num:
    return load_s(state_bytes, path.storage_bytes_per_s, nodes=path.nodes, nic_bytes_per_s=path.nic_bytes_per_s)
