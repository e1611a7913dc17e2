"""What can be wrong with a scenario: each is told with file, line, column, value and a way out; nothing is a traceback.

Every case is one change of a sound scenario. Places are counted by hand from the text.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.cli import run as run_cli
from simcluster.errors import InputError
from simcluster.evaluation import evaluate
from simcluster.hardware.catalogue import Catalogue
from simcluster.scenario import load_text

BASE = """\
name: base
model: llama-7b
cluster:
  node: dgx-h100
  nodes: 8
  fabric: ib-ndr-400
training:
  sequence_length: 4096
  global_batch: 64
  micro_batch: 1
  precision: bf16
  parallelism: {tp: 2, pp: 2, dp: 16}
  sharding: {strategy: zero-1}
  recompute: none
  software: {family: megatron-core, date: 2025-10}
"""
LAYOUT = "{tp: 2, pp: 2, dp: 16}"
SOFTWARE = "{family: megatron-core, date: 2025-10}"


def sw(more: str) -> tuple[str, str]:
    """More words of the software."""
    return SOFTWARE, f"{SOFTWARE[:-1]}, {more}}}"


@dataclass(frozen=True)
class Case:
    """Edits of the sound text, and what is told of them: place, message and advice (parts of them)."""

    name: str
    edits: list[tuple[str, str]]
    place: str
    message: str
    advice: str

    @property
    def text(self) -> str:
        text = BASE
        for old, new in self.edits:
            assert old in text, old
            text = text.replace(old, new)
        return text


# fmt: off
CASES = [
    Case("world", [(LAYOUT, "{tp: 3, pp: 2}")], "12:3",
         "tp 3 x pp 2 x cp 1 = 6 does not divide the 64 GPUs (8 nodes x 8)", "make it one of 2, 4, 8"),
    Case("world dp", [(LAYOUT, "{tp: 2, pp: 2, dp: 8}")], "12:3",
         "tp 2 x pp 2 x cp 1 x dp 8 = 32, but there are 64 GPUs (8 nodes x 8)", "dp 16 would fit"),
    Case("world cp", [(LAYOUT, "{tp: 2, pp: 2, cp: 5}")], "12:31",
         "5 does not divide the sequence of 4096 tokens (819.2 a rank)", "use 2, 4, 8"),
    Case("heads", [(LAYOUT, "{tp: 64, pp: 1}")], "12:17", "64 does not divide the 32 heads (0.5 a rank)",
         "use 8, 16, 32"),
    Case("kv",
         [("llama-7b", "llama-3-70b"), ("node: dgx-h100", "node: {base: dgx-h100, gpus: 6}"),
          (LAYOUT, "{tp: 3, pp: 2}"), ("global_batch: 64", "global_batch: 80")],
         "12:17", "3 neither divides the 8 KV heads nor is a multiple of them (64 heads in all)",
         "use 1, 2, 4, 8, 16, 32 or 64"),
    Case("depth", [(LAYOUT, "{tp: 1, pp: 64}")], "12:24",
         "pp 64 x virtual_stages 1 = 64 is more than the 32 layers with embedding and head", "at most 34 in all"),
    Case("depth virtual", [(LAYOUT, "{tp: 2, pp: 4, virtual_stages: 10}")], "12:24",
         "pp 4 x virtual_stages 10 = 40 is more than the 32 layers with embedding and head", "at most 34 in all"),
    Case("batch small", [("global_batch: 64", "global_batch: 8")], "9:3", "8 sequences over dp 16 are 0.5 a replica",
         "at most 8 replicas (raise tp, pp or cp), or global_batch 16 or more"),
    Case("batch unequal", [("global_batch: 64", "global_batch: 72")], "9:3",
         "72 sequences over dp 16 are 4.5 a replica, not equal micro-batches of 1 (micro_batch 1 x dp 16 = 16)",
         "use 64 or 80, or change dp"),
    Case("micro unequal", [("micro_batch: 1", "micro_batch: 3")], "9:3",
         "64 sequences over dp 16 are 4 a replica, not equal micro-batches of 3 (micro_batch 3 x dp 16 = 48)",
         "micro_batch 1, 2, 4 would fit, or global_batch 48 or 96"),
    Case("tokens few", [("global_batch: 64", "global_batch: 40k tokens")], "9:3",
         "40000 tokens are 9.76562 sequences of 4096, less than micro_batch 1 x dp 16 = 16 sequences",
         "at least 65536 tokens, or fewer replicas (raise tp, pp or cp)"),
    Case("tokens less than one", [("global_batch: 64", "global_batch: 100 tokens")], "9:3",
         "100 tokens are less than one sequence of 4096", "state more tokens"),
    Case("accumulation", [("micro_batch: 1", "micro_batch: 1\n  gradient_accumulation_steps: 8")], "11:3",
         "micro_batch 1 x gradient_accumulation 8 x dp 16 = 128, but global_batch is 64",
         "leave one of the three out"),
    Case("cp seq", [("sequence_length: 4096", "sequence_length: 4100"), (LAYOUT, "{tp: 2, pp: 2, cp: 8}")], "12:31",
         "8 does not divide the sequence of 4100 tokens (512.5 a rank)", "use 4, 5, 10"),
    Case("ulysses",
         [(LAYOUT, "{tp: 8, pp: 1, cp: 8}"),
          ("llama-7b", "qwen2.5-14b"), sw("overrides: {cp_communication: all-to-all}")],
         "12:31", "cp 8 x tp 8 = 64 does not divide the 40 heads, which all-to-all context parallelism shares out",
         "use cp 1, 5, or cp_communication: p2p"),
    Case("sp", [("sequence_length: 4096", "sequence_length: 4095")], "12:17",
         "cp 1 x tp 2 = 2 does not divide the sequence of 4095 tokens, which sequence parallelism shares out",
         "use a sequence_length that it divides, or sequence_parallel: false"),
    Case("virtual no pipeline", [(LAYOUT, "{tp: 2, virtual_stages: 2}")], "12:24", "2 needs a pipeline, but pp is 1",
         "use 1, or raise pp"),
    Case("virtual gpipe", [(LAYOUT, "{tp: 2, pp: 2, virtual_stages: 2, schedule: gpipe}")], "12:31",
         "2 goes with schedule 1f1b, not gpipe", "use 1, or schedule 1f1b"),
    Case("virtual groups", [(LAYOUT, "{tp: 2, pp: 4, virtual_stages: 2}"), ("global_batch: 64", "global_batch: 56")],
         "12:31", "2 with pp 4 runs micro-batches in groups of 4, and a replica has 7",
         "use a global_batch that is a multiple of pp 4 x micro_batch 1 x dp 8 = 32, or virtual_stages 1"),
    Case("layers per virtual", [(LAYOUT, "{tp: 2, pp: 2, num_layers_per_virtual_pipeline_stage: 3}")], "12:31",
         "pp 2 x 3 layers = 6 does not divide the 32 layers", "use 1, 2, 4"),
    Case("schedule none", [(LAYOUT, "{tp: 2, pp: 2, schedule: none}")], "12:31", "none leaves pp 2 without a schedule",
         "use 1f1b"),
    Case("schedule typo", [(LAYOUT, "{tp: 2, pp: 2, schedule: 1f1c}")], "12:31", "'1f1c' is not known here",
         "did you mean '1f1b'?"),
    Case("stages count", [(LAYOUT, "{tp: 2, pp: 2, stages: [10, 10, 12]}")], "12:31",
         "3 entries for pp 2 x virtual_stages 1 = 2", "list 2"),
    Case("stages sum", [(LAYOUT, "{tp: 2, pp: 2, stages: [10, 10]}")], "12:31",
         "2 stages with 20 layers, the model has 32 in 2 stages",
         "list the layers of each virtual stage in model order"),
    Case("ep dense", [(LAYOUT, "{tp: 2, pp: 2, ep: 4}")], "12:31", "llama-7b has no experts", "set ep: 1"),
    Case("ep experts",
         [("llama-7b", "mixtral-8x7b"), (LAYOUT, "{tp: 1, pp: 1, ep: 3, dp: 48}"), ("nodes: 8", "nodes: 6"),
          ("global_batch: 64", "global_batch: 48")],
         "12:31", "3 does not divide 8 experts", "use a divisor of the experts"),
    Case("ep ranks", [("llama-7b", "mixtral-8x7b"), (LAYOUT, "{tp: 1, pp: 16, ep: 8}")], "12:32",
         "ep 8 x etp 1 does not divide tp 1 x cp 1 x dp 4 = 4 ranks of a stage", "use an ep that divides 4"),
    Case("etp ranks", [("llama-7b", "mixtral-8x7b"), (LAYOUT, "{tp: 2, pp: 2, ep: 8, etp: 8}")], "12:31",
         "ep 8 x etp 8 does not divide tp 2 x cp 1 x dp 16 = 32 ranks of a stage", "use an ep that divides 4"),
    Case("group", [("{strategy: zero-1}", "{strategy: zero-1, group: 5}")], "13:32",
         "5 does not divide the 16 data-parallel ranks", "one of 1, 2, 4, 8, 16, or all"),
    Case("hsdp all", [("{strategy: zero-1}", "{strategy: hsdp, group: all}")], "13:30",
         "hsdp shards over less than all ranks", "use node or a number"),
    Case("two engines", [(SOFTWARE, "{family: deepspeed, date: 2025-10}"), ("zero-1", "fsdp")], "13:14",
         "fsdp is not what deepspeed shards with: DeepSpeed has none, zero-1, zero-2 or zero-3",
         "use zero-3, or another family"),
    Case("two engines named", [(SOFTWARE, "{family: \"Megatron-LM + DeepSpeed + FSDP\", date: 2025-10}")], "15:14",
         "'Megatron-LM + DeepSpeed + FSDP' names DeepSpeed and PyTorch FSDP, two sharding engines for one set",
         "keep the one that shards"),
    Case("fsdp zero-1", [(SOFTWARE, "{family: fsdp2, date: 2025-10}")], "13:14",
         "zero-1 is not what fsdp2 shards with: PyTorch FSDP2 has none, zero-2, zero-3, fsdp or hsdp",
         "use one of these, or another family"),
    Case("ddp fsdp", [(SOFTWARE, "{family: pytorch-ddp, date: 2025-10}"), ("zero-1", "fsdp")], "13:14",
         "fsdp is not what pytorch-ddp shards with: PyTorch DDP has none or zero-1",
         "use one of these, or another family"),
    Case("zero-3 pipeline", [(SOFTWARE, "{family: deepspeed, date: 2025-10}"), ("zero-1", "zero-3")], "13:14",
         "zero-3 does not go with pp 2 in DeepSpeed", "use none or zero-1, or pp 1"),
    Case("zero default pipeline",
         [(SOFTWARE, "{family: deepspeed, date: 2025-10}"), ("  sharding: {strategy: zero-1}\n", "")], "7:1",
         "zero-3, the default of deepspeed, does not go with pp 2 in DeepSpeed", "use none or zero-1, or pp 1"),
    Case("family typo", [(SOFTWARE, "{family: megtron-core, date: 2025-10}")], "15:14",
         "unknown software family 'megtron-core'", "did you mean 'megatron-core'?"),
    Case("date month", [("2025-10", "2024-99")], "15:37", "2024-99 has no month 99", "write 2024, or 2024-06"),
    Case("date day", [("2025-10", "2024-02-30")], "15:37", "2024-02-30 has no day 30", "write 2024-02"),
    Case("date year", [("2025-10", "1024-02")], "15:37", "1024-02 is no year of training software", "from 2012 on"),
    Case("date words", [("2025-10", "last june")], "15:37", "'last june' should be a date like '2024-06'", ""),
    Case("cuda hopper", [sw("cuda: \"11.4\"")], "15:52",
         "CUDA 11.4 has no kernels for h100-80gb-sxm (hopper), which needs 11.8 or later", "use \"11.8\" or later"),
    Case("cuda blackwell", [("dgx-h100", "dgx-b200"), sw("cuda: \"12.6\", torch: \"2.8\"")], "15:52",
         "CUDA 12.6 has no kernels for b200-sxm (blackwell), which needs 12.8 or later", "use \"12.8\" or later"),
    Case("cuda ampere", [("dgx-h100", "dgx-a100-80gb"), sw("cuda: \"10.2\"")], "15:52",
         "CUDA 10.2 has no kernels for a100-80gb-sxm (ampere), which needs 11.0 or later", "use \"11.0\" or later"),
    Case("cuda volta", [("dgx-h100", "dgx-1-v100-32gb"), ("bf16", "fp16"), sw("cuda: \"13.0\"")], "15:52",
         "CUDA 13.0 has dropped v100-32gb-sxm (volta)", "use a release before 13.0"),
    Case("cuda amd", [("dgx-h100", "mi300x-x8"), sw("cuda: \"12.4\"")], "15:52",
         "CUDA 12.4 does not drive mi300x (cdna3), which runs ROCm", "state cuda: \"rocm 6.0\", or later"),
    Case("rocm nvidia", [sw("cuda: rocm 6.2")], "15:52",
         "ROCm 6.2 does not drive h100-80gb-sxm (hopper), which runs CUDA", "state cuda: \"11.8\", or later"),
    Case("rocm old", [("dgx-h100", "mi355x-x8"), sw("cuda: rocm 6.1")], "15:52",
         "ROCm 6.1 has no kernels for mi355x (cdna4), which needs 7.0 or later", "use \"7.0\" or later"),
    Case("cuda nonsense", [sw("cuda: latest")], "15:52", "'latest' is not a release",
         "write it like \"12.4\" or \"rocm 6.2\""),
    Case("cuda date", [(SOFTWARE, "{family: megatron-core, date: 2023-01, cuda: \"12.8\"}")], "15:52",
         "CUDA 12.8 came in 2025-01, after the date 2023-01", "state an older release, or a later date"),
    Case("torch blackwell", [("dgx-h100", "dgx-b200"), sw("torch: \"2.5\"")], "15:52",
         "torch 2.5 is built with CUDA 12.4 at most, and b200-sxm (blackwell) needs 12.8 or later",
         "use torch \"2.7\" or later, or state the cuda that it was built with"),
    Case("torch local", [("dgx-h100", "dgx-b200"), sw("torch: \"2.8.0+cu126\"")], "15:52",
         "CUDA 12.6 has no kernels for b200-sxm (blackwell), which needs 12.8 or later", "use \"12.8\" or later"),
    Case("torch local conflict", [sw("torch: \"2.8.0+cu126\", cuda: \"12.8\"")], "15:52",
         "torch 2.8.0+cu126 is built with CUDA 12.6, not with 12.8", "keep one of them"),
    Case("torch date", [(SOFTWARE, "{family: megatron-core, date: 2023-06, torch: \"2.8\"}")], "15:52",
         "torch 2.8 came in 2025-08, after the date 2023-06", "state an older release, or a later date"),
    Case("torch fsdp2", [(SOFTWARE, "{family: fsdp2, date: 2025-10, torch: \"2.1\"}"), ("zero-1", "fsdp")], "15:44",
         "torch 2.1 has no PyTorch FSDP2, which fsdp2 runs on", "use \"2.4\" or later"),
    Case("torch nonsense", [sw("torch: nightly")], "15:52", "'nightly' is not a release",
         "write it like \"2.4\" or \"2.7.1+cu128\""),
    Case("backend typo", [sw("backend: ncll")], "15:52", "'ncll' is not a known backend", "did you mean 'nccl'?"),
    Case("backend rccl", [sw("backend: rccl")], "15:52", "rccl does not drive h100-80gb-sxm (hopper) of NVIDIA",
         "use nccl"),
    Case("backend gloo", [sw("backend: gloo")], "15:52", "communication over gloo is not simulated yet",
         "see the list of what is modelled in docs/coverage.md"),
    Case("precision fp8 a100", [("dgx-h100", "dgx-a100-80gb"), ("precision: bf16", "precision: fp8")], "11:3",
         "a100-80gb-sxm (ampere) has no fp8 rate", "use bf16, fp16 or tf32"),
    Case("precision nvfp4 h100", [("precision: bf16", "precision: nvfp4")], "11:3",
         "h100-80gb-sxm (hopper) has no nvfp4 rate", "use bf16, fp16, fp8, fp8-block or tf32"),
    Case("precision mxfp8 h100", [("precision: bf16", "precision: mxfp8")], "11:3",
         "h100-80gb-sxm (hopper) has no microscaling units, which mxfp8 needs",
         "use bf16, fp16, fp8, fp8-block or tf32"),
    Case("precision bf16 v100", [("dgx-h100", "dgx-1-v100-32gb")], "11:3", "v100-32gb-sxm (volta) has no bf16 rate",
         "use fp16"),
    Case("precision typo", [("precision: bf16", "precision: bf15")], "11:3", "'bf15' is not known here",
         "did you mean 'bf16'?"),
    Case("attention flash-3", [("dgx-h100", "dgx-b200"), sw("attention: flash-3")], "15:52",
         "flash-3 has no kernels for blackwell GPUs", "use flash-1, flash-2 or cudnn"),
    Case("attention typo", [sw("attention: flash-4")], "15:52", "'flash-4' is not a known kernel",
         "did you mean 'flash-3'? use flash, flash-1, flash-2, flash-3, cudnn, unfused"),
    Case("attention cudnn amd", [("dgx-h100", "mi300x-x8"), sw("attention: cudnn")], "15:52",
         "cudnn has no kernels for cdna3 GPUs", "use flash-1 or flash-2"),
    Case("attention override", [("dgx-h100", "dgx-a100-80gb"), sw("overrides: {attention: flash-3}")], "15:64",
         "flash-3 has no kernels for ampere GPUs", "use flash-1, flash-2 or cudnn"),
    Case("attention date", [(SOFTWARE, "{family: megatron-core, date: 2023-01, attention: flash-3}")], "15:52",
         "flash-3 came in 2024-07, after the date 2023-01", "state an older kernel"),
    Case("fabric cloud", [("node: dgx-h100", "node: aws-p5-48xlarge")], "6:3",
         "ib-ndr-400 (ib) is not a network of aws-p5-48xlarge: instances of aws have efa or tcp",
         "leave fabric out for its own, such as efa-v2, or name a node that is bought"),
    Case("fabric efa", [("ib-ndr-400", "efa-v2")], "6:3",
         "efa-v2 (efa) exists in instances of aws alone, and dgx-h100 is none",
         "name an instance of aws, or another fabric"),
    Case("override typo", [sw("overrides: {overlap_grad: true}")], "15:64", "unknown field 'overlap_grad'",
         "did you mean 'overlap_grad_reduce'?"),
    Case("override value", [sw("overrides: {bucket_bytes: big}")], "15:64", "bucket_bytes is 'big'",
         "give a number, zero or more"),
    Case("profile", [sw("profile: nowhere")], "15:52", "no kernel profile 'nowhere'",
         "or give the path of a profile file"),
    Case("model", [("llama-7b", "lama-7b")], "2:1", "unknown model 'lama-7b'", "did you mean llama-7b"),
    Case("config", [("llama-7b", "models/config.json")], "2:1", "no such file: models/config.json",
         "give a path that starts at the scenario's folder"),
    Case("node", [("dgx-h100", "dgx-h10")], "4:3", "no node 'dgx-h10'", "did you mean dgx-h100"),
    Case("fabric", [("ib-ndr-400", "ib-ndr-40")], "6:3", "no fabric 'ib-ndr-40'", "did you mean ib-ndr-400"),
    Case("no fabric", [("ib-ndr-400", "none")], "6:3", "'none' cannot join 8 nodes",
         "name a fabric, such as ib-ndr-400"),
    Case("switch", [("ib-ndr-400", "qm9700")], "6:3", "'qm9700' is a switch, not a fabric",
         "name a fabric, or write {protocol: …, link: …, switch: …}"),
    Case("gpu", [("node: dgx-h100", "node: {gpu: h1000, gpus: 8}")], "4:3", "no GPU 'h1000'", "did you mean H100"),
    Case("inline incomplete", [("node: dgx-h100", "node: {gpu: h100}")], "4:3",
         "needs gpu and gpus, or base with the name of a catalogue node", ""),
    Case("unknown key", [("micro_batch:", "micro_bacth:")], "10:3", "unknown key", "did you mean 'micro_batch'?"),
    Case("misplaced key", [("name: base", "name: base\ntp: 8")], "2:1", "unknown key",
         "did you mean training.parallelism.tp?"),
    Case("missing model", [("model: llama-7b\n", "")], "1:1", "is missing", "state it"),
    Case("missing nodes", [("  nodes: 8\n", "")], "3:1", "is missing", "state it"),
    Case("zero nodes", [("nodes: 8", "nodes: 0")], "5:3", "0 should be at least 1", ""),
    Case("half tp", [(LAYOUT, "{tp: 2.5}")], "12:17", "2.5 is not a whole number", ""),
    Case("unit", [("fabric: ib-ndr-400", "fabric: {protocol: ib, link: 400}")], "6:26", "400 has no unit",
         "write it like '400 Gbit/s' or '50 GB/s'"),
    Case("bool", [(LAYOUT, "{tp: 2, pp: 2, sequence_parallel: maybe}")], "12:31", "'maybe' should be true or false",
         ""),
    Case("twice", [("  nodes: 8", "  nodes: 8\n  nodes: 9")], "6:3", "", "the first is on line 5, keep one"),
    Case("tab", [("  nodes: 8", "\tnodes: 8")], "5:1", "tab character", ""),
    Case("tag", [("nodes: 8", "nodes: !!python/object:os.system 8")], "5:10", "", "remove it; quote text instead"),
    Case("alias conflict", [("micro_batch: 1", "micro_batch: 1\n  train_batch_size: 128")], "11:3", "",
         "keep one of them"),
    Case("bf16 conflict", [("precision: bf16", "precision: fp16\n  bf16: true")], "12:3", "", "keep one of them"),
    Case("recompute modules", [("recompute: none", "recompute: {modules: [core_atn]}")], "14:15",
         "unknown module 'core_atn'", "known: attention, core_attn"),
    Case("recompute", [("recompute: none", "recompute: sometimes")], "14:3", "'sometimes' is not known here",
         "use none, selective, full or a mapping"),
    Case("compression", [("recompute: none", "recompute: none\n  grad_compression: powersgd")], "15:3",
         "'powersgd' is not a gradient compression",
         "use one like none, bf16, fp8, powersgd(4), topk(0.01), local-sgd(16)"),
    Case("offload", [("{strategy: zero-1}", "{strategy: zero-1, offload: disk}")], "13:32", "'disk' is not known here",
         "use none, cpu, nvme or pool"),
    Case("inline model heads", [("llama-7b", "{layers: 8, hidden: 1000, heads: 7, ffn: 4096, vocab: 32000}")], "2:1",
         "hidden 1000 is not a multiple of heads 7", "state head_dim"),
    Case("inline kv", [("llama-7b", "{layers: 8, hidden: 1024, heads: 8, kv_heads: 3, ffn: 4096, vocab: 32000}")],
         "2:1", "heads 8 is not a multiple of kv_heads 3", ""),
    Case("inline experts",
         [("llama-7b", "{layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000, experts: 4, top_k: 8}")],
         "2:1", "top_k is 8 of 4 experts", "give a whole number from 1 to 4"),
    Case("tiers", [("ib-ndr-400", "{base: ib-ndr-400, oversubscription: {spine: 2}, tiers: 1}")], "6:3",
         "1 tiers have no uplinks to oversubscribe above tier 2", "set tiers: 3 or drop the ratio"),
    Case("auto", [(LAYOUT, "auto")], "12:3", "no layout is given, and a plain evaluation chooses none",
         "state it, like parallelism: {tp: 8, pp: 4}, or let simulate, compare or plan_layout choose it"),
]
# fmt: on


@pytest.fixture(scope="module")
def problems():
    """Problems of a text, loaded and evaluated as a command would."""
    catalogue = Catalogue.load()

    def call(text: str):
        with pytest.raises(InputError) as caught:
            assert evaluate(load_text(text, "bad.yaml"), catalogue).step.time_s < 0
        return caught.value.problems

    return call


def test_the_sound_scenario_is_sound():
    assert evaluate(load_text(BASE, "bad.yaml")).step.time_s > 0


def test_there_are_many_kinds():
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_place_value_and_advice(case, problems):
    found = problems(case.text)
    told = [one for one in found if case.message in one.message and case.advice in one.advice]
    assert told, [str(one) for one in found]
    assert str(told[0]).startswith(f"bad.yaml:{case.place}: ")
    line, column = map(int, case.place.split(":"))
    assert re.match(r"[\w{!\t-]", case.text.splitlines()[line - 1][column - 1 :])


# A pair of mistakes of one change each is told together where both are found in the same pass.
SEVERAL = {
    "schema": (
        ["nodes: 8", "micro_batch: 1", "precision: bf16", "recompute: none", "{strategy: zero-1}"],
        ["nodes: -1", "micro_bacth: 1", "precision: bf15", "recompute: some", "{strategy: zero-9}"],
        ["5:3", "10:3", "11:3", "13:14", "14:3"],
    ),
    "meaning": (
        ["llama-7b", "dgx-h100", "ib-ndr-400", "precision: bf16", SOFTWARE],
        ["lama-7b", "dgx-h10", "ib-ndr-40", "precision: fp32", "{family: megtron-core, attention: no}"],
        ["2:1", "4:3", "6:3", "11:3", "15:14", "15:36"],
    ),
    "compatibility": (
        ["node: dgx-h100", "precision: bf16", "{strategy: zero-1}", SOFTWARE],
        [
            "node: dgx-a100-80gb",
            "precision: fp8",
            "{strategy: fsdp}",
            '{family: deepspeed, date: 2025-10, cuda: "10.2", torch: "new", backend: rccl, attention: flash-3}',
        ],
        ["11:3", "13:14", "15:48", "15:62", "15:76", "15:91"],
    ),
    "layout": (
        ["sequence_length: 4096", LAYOUT, "{strategy: zero-1}", "global_batch: 64"],
        [
            "sequence_length: 4095",
            "{tp: 2, pp: 2, dp: 16, ep: 4}",
            "{strategy: zero-1, group: 5}",
            "global_batch: 64",
        ],
        ["12:17", "12:39", "13:32"],
    ),
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_several_problems_are_told_together(kind, problems):
    old, new, places = SEVERAL[kind]
    text = BASE
    for one, other in zip(old, new):
        text = text.replace(one, other)
    found = sorted(f"{one.mark.line}:{one.mark.column}" for one in problems(text))
    assert sorted(set(found)) == sorted(places)


SAMPLE = [case for case in CASES if case.name in {
    "world", "heads", "batch small", "cuda blackwell", "two engines", "family typo", "config", "tab", "missing model",
}]  # fmt: skip


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
@pytest.mark.parametrize("command", [["simulate"], ["show", "--resolved"]])
def test_command_line_says_it_and_exits_with_3(case, command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.yaml").write_text(case.text, encoding="utf-8")
    assert run_cli([*command, "bad.yaml"]) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert f"bad.yaml:{case.place}: " in said.err
    assert case.message in said.err
    assert "Traceback" not in said.err


WORDS = st.sampled_from([
    "", "0", "-1", "1", "2", "3", "7", "8", "64", "1e9", "2.5", "null", "auto", "none", "true", "[]", "{}", "x",
    "'\\0'", "1e400", "99999999999999999999", "4M tokens", "fp8", "fsdp", "1f1b", "llama-7b", "mixtral-8x7b",
    "dgx-b200", "mi300x-x8", "dgx-1-v100-32gb", "deepspeed", "flash",
])  # fmt: skip
PATHS = st.sampled_from([
    "model", "cluster.node", "cluster.nodes", "cluster.fabric", "training.sequence_length", "training.global_batch",
    "training.micro_batch", "training.gradient_accumulation_steps", "training.precision", "training.bf16",
    *(f"training.parallelism.{key}" for key in ("tp", "pp", "dp", "cp", "ep", "etp", "virtual_stages", "stages",
                                                "layers_per_virtual_stage", "schedule")),
    "training.sharding.strategy", "training.sharding.group", "training.recompute",
    *(f"training.software.{key}" for key in ("family", "date", "torch", "cuda", "backend", "attention", "profile",
                                             "overrides.attention")),
])  # fmt: skip


@settings(max_examples=80)
@given(st.dictionaries(PATHS, WORDS, min_size=1, max_size=4))
def test_whatever_is_stated_is_answered_or_refused(catalogue, changes):
    sets = [f"{path}={word}" for path, word in changes.items()]
    with contextlib.suppress(InputError):
        assert evaluate(load_text(BASE, "bad.yaml", sets=sets), catalogue).step.time_s > 0
