"""Rules that tie numbers together, one function each: what is broken, with every factor, and what would do.

Each rule takes the numbers, so that the checks of a scenario and the rooms that know more (heads of a catalogue model,
GPUs of a catalogue node) say the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from simcluster.scenario.suggest import either
from simcluster.scenario.training import Parallelism

LAYOUT = "training.parallelism"
ENDS = 2  # embedding and head may stand alone in the first and the last stage
MOST_PADDING = 0.1  # of the heads; a layout that wastes more is one that nobody would run
_LISTED = 12  # legal values in a message


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: the path it is told at, what and advice, and all paths that it rests on."""

    path: str
    message: str
    advice: str = ""
    uses: tuple[str, ...] = ()


def product_finding(plan: Parallelism, gpus: int, path: str = LAYOUT, nodes: int = 0) -> Finding | None:
    """Tp pp cp dp must be the number of GPUs; for any room that knows it. `nodes` tells how many hold them.

    >>> product_finding(Parallelism(tp=8, pp=3), 64, nodes=8).message
    'tp 8 x pp 3 x cp 1 = 24 does not divide the 64 GPUs (8 nodes x 8)'
    """
    fixed = plan.tp * plan.pp * plan.cp
    factors = f"tp {plan.tp} x pp {plan.pp} x cp {plan.cp}"
    uses = ("cluster", *(f"{path}.{key}" for key in ("tp", "pp", "cp", "dp")))
    there = f"{gpus} GPUs" + (f" ({nodes} nodes x {gpus // nodes})" if nodes else "")
    if plan.dp is None:
        if gpus % fixed == 0:
            return None
        near = ", ".join(str(size) for size in divisors_near(gpus, fixed))
        return Finding(path, f"{factors} = {fixed} does not divide the {there}", f"make it one of {near}", uses)
    if fixed * plan.dp == gpus:
        return None
    advice = f"dp {gpus // fixed} would fit" if gpus % fixed == 0 else f"make tp x pp x cp divide {gpus}"
    return Finding(path, f"{factors} x dp {plan.dp} = {fixed * plan.dp}, but there are {there}", advice, uses)


def batch_finding(batch: int, micro: int, dp: int) -> Finding | None:
    """A global batch is whole micro-batches of one size on each replica; for any room that knows dp.

    >>> batch_finding(32, 1, 64).message
    '32 sequences over dp 64 are 0.5 a replica'
    >>> batch_finding(32, 1, 64).advice
    'at most 32 replicas (raise tp, pp or cp), or global_batch 64 or more'
    """
    uses = ("training.global_batch", "training.micro_batch", LAYOUT, "cluster")
    path, whole = "training.global_batch", micro * dp
    if batch % whole == 0:
        return None
    over = f"{batch} sequences over dp {dp} are {batch / dp:.6g} a replica"
    if batch < dp:
        advice = f"at most {batch} replicas (raise tp, pp or cp), or global_batch {whole} or more"
        return Finding(path, over, advice, uses)
    message = f"{over}, not equal micro-batches of {micro} (micro_batch {micro} x dp {dp} = {whole})"
    near = either(map(str, dict.fromkeys(max(1, batch // whole + step) * whole for step in (0, 1))))
    if batch % dp:
        return Finding(path, message, f"use {near}, or change dp", uses)
    fitting = ", ".join(str(size) for size in divisors_near(batch // dp, micro))
    return Finding(path, message, f"micro_batch {fitting} would fit, or global_batch {near}", uses)


def accumulation_finding(batch: int, micro: int, accumulation: int, dp: int) -> Finding | None:
    """Stated accumulation must agree with the batch; for any room that knows dp.

    >>> accumulation_finding(64, 2, 8, 8).message
    'micro_batch 2 x gradient_accumulation 8 x dp 8 = 128, but global_batch is 64'
    """
    if batch == micro * accumulation * dp:
        return None
    product = f"micro_batch {micro} x gradient_accumulation {accumulation} x dp {dp} = {micro * accumulation * dp}"
    path = "training.gradient_accumulation"
    uses = (path, "training.global_batch", "training.micro_batch", LAYOUT, "cluster")
    return Finding(path, f"{product}, but global_batch is {batch}", "leave one of the three out", uses)


def sequence_finding(length: int, cp: int) -> Finding | None:
    """Context parallelism cuts the sequence into equal parts; for any room that knows its length.

    >>> sequence_finding(4096, 3).message
    '3 does not divide the sequence of 4096 tokens (1365.33 a rank)'
    """
    if length % cp == 0:
        return None
    near = ", ".join(str(size) for size in divisors_near(length, cp))
    message = f"{cp} does not divide the sequence of {length} tokens ({length / cp:.6g} a rank)"
    return Finding(f"{LAYOUT}.cp", message, f"use {near}", (f"{LAYOUT}.cp", "training.sequence_length"))


def padded_heads(heads: int, tp: int) -> int:
    """Heads after padding to a multiple of tp.

    >>> padded_heads(52, 8), padded_heads(64, 8)
    (56, 64)
    """
    return -(-heads // tp) * tp


def heads_finding(heads: int, tp: int) -> Finding | None:
    """Tensor parallelism gives each rank whole heads, at most a tenth of them padding; for any room that knows them.

    >>> heads_finding(25, 16).message
    '16 does not divide the 25 heads (1.56 a rank)'
    """
    if padded_heads(heads, tp) <= (1 + MOST_PADDING) * heads:
        return None
    near = ", ".join(str(size) for size in divisors_near(heads, tp))
    message = f"{tp} does not divide the {heads} heads ({heads / tp:.3g} a rank)"
    return Finding(f"{LAYOUT}.tp", message, f"use {near}", (f"{LAYOUT}.tp", "model"))


def kv_heads_finding(heads: int, kv_heads: int, tp: int) -> Finding | None:
    """Ranks share out the KV heads evenly or hold equal copies; for any room that knows them.

    >>> kv_heads_finding(12, 4, 3).advice
    'use 1, 2, 4 or 12'
    """
    if kv_heads in (0, heads) or kv_heads % tp == 0 or tp % kv_heads == 0:
        return None
    message = f"{tp} neither divides the {kv_heads} KV heads nor is a multiple of them ({heads} heads in all)"
    legal = [str(size) for size in divisors(heads) if kv_heads % size == 0 or size % kv_heads == 0]
    return Finding(f"{LAYOUT}.tp", message, f"use {either(legal[:_LISTED])}", (f"{LAYOUT}.tp", "model"))


def depth_finding(plan: Parallelism, layers: int) -> Finding | None:
    """There are no more virtual stages than layers, embedding and head; for any room that knows the layers.

    >>> depth_finding(Parallelism(pp=8, virtual_stages=5), 32).message
    'pp 8 x virtual_stages 5 = 40 is more than the 32 layers with embedding and head'
    """
    parts = plan.pp * plan.virtual_stages
    if parts <= layers + ENDS:
        return None
    message = f"pp {plan.pp} x virtual_stages {plan.virtual_stages} = {parts} is more than the {layers} layers"
    uses = (f"{LAYOUT}.pp", f"{LAYOUT}.virtual_stages", "model")
    return Finding(f"{LAYOUT}.pp", f"{message} with embedding and head", f"at most {layers + ENDS} in all", uses)


def virtual_stages_of(plan: Parallelism, layers: int) -> int | Finding:
    """Virtual stages of a plan that states them, or the layers of each; for any room that knows the layers.

    >>> virtual_stages_of(Parallelism(pp=4, layers_per_virtual_stage=2), 32)
    4
    >>> virtual_stages_of(Parallelism(pp=4, layers_per_virtual_stage=3), 32).message
    'pp 4 x 3 layers = 12 does not divide the 32 layers'
    """
    each = plan.layers_per_virtual_stage
    if each is None:
        return plan.virtual_stages
    path = f"{LAYOUT}.layers_per_virtual_stage"
    uses = (path, f"{LAYOUT}.pp", f"{LAYOUT}.virtual_stages", "model")
    if layers % (plan.pp * each):
        message = f"pp {plan.pp} x {each} layers = {plan.pp * each} does not divide the {layers} layers"
        near = ", ".join(map(str, divisors_near(layers // plan.pp, each))) if layers % plan.pp == 0 else ""
        return Finding(path, message, f"use {near}" if near else "state virtual_stages", uses)
    count = layers // (plan.pp * each)
    if plan.virtual_stages in (1, count):
        return count
    message = f"{layers} layers / (pp {plan.pp} x {each}) = {count}, but virtual_stages is {plan.virtual_stages}"
    return Finding(path, message, "keep one of them", uses)


def interleaving_finding(micro_batches: int, pp: int, virtual_stages: int, micro_batch: int, dp: int) -> Finding | None:
    """Interleaving runs micro-batches in groups of pp; for any room that knows how many there are.

    >>> interleaving_finding(6, 4, 2, 1, 8).advice
    'use a global_batch that is a multiple of pp 4 x micro_batch 1 x dp 8 = 32, or virtual_stages 1'
    """
    if virtual_stages == 1 or micro_batches % pp == 0:
        return None
    message = f"{virtual_stages} with pp {pp} runs micro-batches in groups of {pp}, and a replica has {micro_batches}"
    whole = f"pp {pp} x micro_batch {micro_batch} x dp {dp} = {pp * micro_batch * dp}"
    path, uses = f"{LAYOUT}.virtual_stages", (LAYOUT, "training.global_batch", "training.micro_batch")
    return Finding(path, message, f"use a global_batch that is a multiple of {whole}, or virtual_stages 1", uses)


def divisors(number: int) -> list[int]:
    """Divisors of a number, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [value for value in range(1, math.isqrt(number) + 1) if number % value == 0]
    return sorted({*small, *(number // value for value in small)})


def divisors_near(number: int, wanted: int) -> Iterable[int]:
    """Up to three divisors of `number` around `wanted`, ascending.

    >>> divisors_near(64, 24)
    [8, 16, 32]
    """
    small = [size for size in range(1, min(number, 100_000) + 1) if size * size <= number and number % size == 0]
    divisors = sorted({*small, *(number // size for size in small)})
    return sorted(sorted(divisors, key=lambda size: abs(size - wanted))[:3])
