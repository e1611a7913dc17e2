"""Published rows: every row of the shipped table is read, results stay apart from facts, garbage is never fatal."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.data import data_root
from simcluster.errors import InputError, Mark
from simcluster.formats import published_text as text
from simcluster.formats.published import RESULT_COLUMNS, PublishedResult, parse_published, read_published
from simcluster.formats.published_checks import flops_per_token, inconsistency, published_step_time, skip_reason
from simcluster.formats.published_facts import FACT_COLUMNS, PublishedFacts, facts_of
from simcluster.formats.published_names import Fabric, fabric, framework_id
from simcluster.timing.software import SoftwareFamily, choose_family, with_overrides

TABLE = data_root("calibration") / "published" / "training.csv"

KORTHIKANTI = {
    "gpu": "A100-80GB-SXM",
    "gpus_per_node": "8",
    "n_gpus": "64",
    "layers": "96",
    "hidden": "12288",
    "heads": "96",
    "ffn_hidden": "49152",
    "gated_ffn": "0",
    "vocab": "51200",
    "seq_len": "2048",
    "micro_batch": "1",
    "global_batch": "64",
    "tp": "8",
    "pp": "8",
    "vpp": "3",
    "recompute": "full",
    "precision": "fp16",
    "framework": "Megatron-LM",
    "date": "2022-05",
}


def one(**cells):
    """A row of a table that has only the given columns."""
    cells = {key: value for key, value in {**KORTHIKANTI, **cells}.items() if value is not None}
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(cells)
    writer.writerow(cells.values())
    return parse_published(out.getvalue())[0]


@pytest.fixture(scope="module")
def rows():
    return read_published(TABLE)


def test_every_shipped_row_is_read(rows):
    assert len(rows) == 1501
    assert Counter(row.result.split for row in rows) == {"test": 893, "fit": 608}
    assert Counter(row.result.trust for row in rows) == {"B": 1005, "A": 413, "C": 83}
    assert [str(p) for row in rows for p in row.problems if "recompute is 'other'" not in str(p)] == []
    assert len({row.result.id for row in rows}) == len(rows)


def test_skip_reasons_of_the_shipped_rows(rows):
    reasons = Counter((skip_reason(row) or "predicted").partition(":")[0] for row in rows)
    assert reasons == {
        "predicted": 1361,
        "no_architecture": 46,
        "task": 34,
        "no_throughput": 30,
        "no_layout": 28,
        "inconsistent_row": 2,
    }


def test_rows_with_what_a_simulation_needs_are_not_skipped(rows):
    """Trust A: architecture, layout, batch, recompute and precision present, throughput measured."""
    skipped = {row.result.id: skip_reason(row) for row in rows if row.result.trust == "A" and skip_reason(row)}
    assert set(skipped.values()) <= {"task"}


def test_facts_have_no_place_for_a_result():
    facts = {f.name for f in dataclasses.fields(PublishedFacts)}
    results = {f.name for f in dataclasses.fields(PublishedResult)}
    assert not facts & results
    assert not set(FACT_COLUMNS) & set(RESULT_COLUMNS)
    with pytest.raises(ValueError, match="step_time_s"):
        facts_of({"gpu": "A100", "step_time_s": "1"}, Mark("x"))


def test_facts_do_not_move_when_results_are_blanked_renamed_or_shuffled(rows):
    with TABLE.open(encoding="utf-8", newline="") as file:
        table = list(csv.DictReader(file))
    out = io.StringIO()
    writer = csv.DictWriter(out, [*reversed(list(table[0]))])
    writer.writeheader()
    writer.writerows(
        {**row, **dict.fromkeys(RESULT_COLUMNS, ""), "id": f"x{n}", "source": "y"} for n, row in enumerate(table)
    )
    blank = parse_published(out.getvalue())
    assert [row.facts for row in blank] == [row.facts for row in rows]
    assert all(published_step_time(row) is None for row in blank)


def test_shipped_columns_are_facts_or_results():
    with TABLE.open(encoding="utf-8", newline="") as file:
        assert set(next(csv.reader(file))) == {*FACT_COLUMNS, *RESULT_COLUMNS}


def test_stated_software_facts_are_fields_of_a_family(rows):
    for row in rows:
        family, _ = choose_family(row.facts.framework, row.facts.date)
        assert isinstance(with_overrides(family, dict(row.facts.software)), SoftwareFamily)


def test_empty_cells_are_filled_and_listed():
    facts = one(kv_heads="", vpp="", precision="", interconnect="").facts
    assert (facts.dp, facts.vpp, facts.cp, facts.ep, facts.head_dim, facts.kv_heads) == (1, 1, 1, 1, 128, 96)
    assert facts.precision == "bf16"
    listed = {a.path for a in facts.assumed}
    assert listed >= {f"training.parallelism.{name}" for name in ("dp", "cp", "virtual_stages")}
    assert listed >= {"model.head_dim", "model.kv_heads", "training.precision", "cluster.fabric", "task"}


def test_expert_tensor_parallel_size():
    experts = {"n_experts": "8", "topk": "2", "moe_ffn_hidden": "4096", "n_gpus": "64"}
    assert one(**experts, tp="2", pp="1", ep="8").facts.etp == 2  # as tp
    assert one(**experts, tp="2", pp="8", ep="8").facts.etp == 1  # 8 ranks of a stage: ep 8 leaves no room for tp
    assert one(**experts, tp="2", pp="1", ep="8", etp="1").facts.etp == 1
    assert one(**experts, ep=None).facts.ep is None  # the software decides


def test_published_step_time_prefers_throughput():
    tokens = 64 * 2048
    assert published_step_time(one(tokens_per_s_per_gpu="100", step_time_s="20")) == (
        tokens / 6400,
        "tokens_per_s_per_gpu",
    )
    assert published_step_time(one(step_time_s="18.13")) == (18.13, "step_time_s")
    assert published_step_time(one(samples_per_s="4")) == (16.0, "samples_per_s")
    assert published_step_time(one()) is None


def test_step_time_from_flops_gives_the_published_iterations_back():
    """Korthikanti et al. 2022, table 5, 175B: 18.13 s with full recompute, model FLOPs 141.0915e15."""
    model = 141.0915e15
    layers = 72 * 64 * 96 * 2048 * 12288**2 * (1 + 2048 / (6 * 12288))
    definition = "MFU: 72BsLh^2(1+s/6h+V/12Lh)"
    row = one(tflops_per_gpu=str(model / 64 / 18.13 / 1e12), flops_definition=definition)
    assert published_step_time(row) == (pytest.approx(18.13, rel=2e-5), "tflops_per_gpu")
    hardware = one(
        tflops_per_gpu=str((model + layers / 3) / 64 / 18.13 / 1e12),
        flops_definition="hardware FLOPs incl. full recompute (SC21)",
    )
    assert published_step_time(hardware)[0] == pytest.approx(18.13, rel=2e-5)


def test_flops_of_a_llama_token():
    """6 * 6,607,077,376 weights, attention of 4096 tokens: 42.864 GFLOP causal, 46.085 full (Llama-2 7B)."""
    llama = {
        "layers": "32",
        "hidden": "4096",
        "heads": "32",
        "ffn_hidden": "11008",
        "gated_ffn": "1",
        "vocab": "32000",
        "seq_len": "4096",
    }
    facts = one(**llama).facts
    assert flops_per_token(facts, "model, causal attention") == pytest.approx(42.864e9, rel=1e-5)
    assert flops_per_token(facts, "6N + 12*L*h*s (full, non-causal attention)") == pytest.approx(46.085e9, rel=1e-5)
    assert flops_per_token(facts, "") is None
    assert flops_per_token(facts, "model FLOPs (causal or not: not stated)") == pytest.approx(
        (42.864e9 + 46.085e9) / 2, rel=1e-5
    )
    long = dataclasses.replace(facts, sequence_length=131072)
    assert flops_per_token(long, "model FLOPs (causal or not: not stated)") is None


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"step_time_s": "18.13"}, None),
        ({"step_time_s": "18.13", "task": "lora"}, "task"),
        ({}, "no_throughput"),
        ({"step_time_s": "-1"}, "no_throughput"),
        ({"step_time_s": "1", "layers": ""}, "no_architecture"),
        ({"step_time_s": "1", "tp": "", "pp": ""}, "no_layout"),
        ({"step_time_s": "1", "global_batch": ""}, "no_layout"),
        ({"step_time_s": "1", "precision": "int7"}, "unknown_precision"),
        ({"step_time_s": "1", "dp": "2"}, "inconsistent_row: layout"),
        ({"step_time_s": "1", "tp": "5"}, "inconsistent_row: layout"),
        ({"step_time_s": "1", "micro_batch": "3"}, "inconsistent_row: batch"),
        ({"step_time_s": "1", "heads": "90"}, "inconsistent_row: heads"),
        ({"step_time_s": "1", "vpp": "13"}, "inconsistent_row: layers"),
        ({"step_time_s": "1", "gpus_per_node": "7"}, "inconsistent_row: nodes"),
        ({"step_time_s": "1", "ep": "2"}, "inconsistent_row: experts"),
        ({"step_time_s": "1", "tokens_per_s_per_gpu": "9"}, "inconsistent_row: throughput"),
        ({"step_time_s": "1", "schedule": "v-half"}, "unsupported: schedule v-half"),
    ],
)
def test_skip_reason(cells, reason):
    found = skip_reason(one(**{"head_dim": "128", **cells}))
    assert found is None if reason is None else found.startswith(reason)


def test_a_catalogue_may_supply_the_architecture():
    row = one(step_time_s="1", layers="", hidden="", heads="", ffn_hidden="", vocab="")
    assert skip_reason(row) == "no_architecture"
    assert skip_reason(row, architecture_known=True) is None


def test_embedding_and_head_may_fill_stages():
    assert inconsistency(one(layers="126", pp="8", vpp="16").facts) is None
    assert inconsistency(one(layers="125", pp="8", vpp="16").facts).startswith("layers")


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("4 x 100 Gb RoCE per node", Fabric("roce-100", 4)),
        ("4x Omni-Path 100 Gb/s per node", Fabric("opa-100", 4)),
        ("8x HDR200 IB (Selene)", Fabric("ib-hdr-200", 8)),
        ("8x 50 GB/s IB", Fabric("ib-ndr-400", 8)),
        ("400 Gb/s RDMA per GPU", Fabric("ib-ndr-400", 8, True)),
        ("single node", Fabric("none")),
        ("NDR InfiniBand, 8 NICs", Fabric("ib-ndr-400", 8, True)),
        ("RoCE 200 Gbps x4", Fabric("roce-200", 4, True)),
        ("3200 Gbps RoCE between nodes", Fabric("roce-400", 8, True)),
        ("3.2 Tb/s InfiniBand per node", Fabric("ib-ndr-400", 8, True)),
        ("a very fast network", None),
        ("not stated", None),
    ],
)
def test_fabrics(cell, found):
    assert fabric(cell, 8) == found


def test_a_frameworks_id_depends_on_the_date():
    assert framework_id("Megatron-LM", "2022-12-31") == "megatron-lm-2022"
    assert framework_id("Megatron-LM", "2024") == "megatron-core"
    assert framework_id("megatron-lm ") == "megatron-core"


def test_notes_on_overlap_are_read_in_parts():
    notes = text.overlap_notes(
        "recompute_modules=mla_up_proj+mlp; cuda_graph=transformer_engine:['attn', 'moe_router']; "
        "dispatcher=deepep; EP a2a overlap on"
    )
    assert notes.modules == ("mla_up_proj", "mlp")
    assert dict(notes.software) == {
        "cuda_graphs": False,
        "cuda_graph_modules": ("attn", "moe_router"),
        "dispatcher": "deepep",
        "ep_overlap": True,
    }
    assert dict(text.overlap_notes("cuda_graph=none:full_iteration").software)["cuda_graphs"] is False
    assert dict(text.overlap_notes("per-layer CUDA graphs").software)["cuda_graphs"] is True
    assert text.overlap_notes("warp drive on").unread == ("warp drive on",)


def test_stated_gradient_type_and_attention_reach_the_software():
    facts = one(
        grad_accum_dtype="bf16", attention="unfused (Megatron fused softmax)", precision="nvfp4 (fp8 attention)"
    ).facts
    assert dict(facts.software) == {
        "fused_softmax": True,
        "fp8_attention": True,
        "gradient_dtype": "bf16",
        "gradient_storage": "bf16",
    }
    assert (facts.attention, facts.precision) == ("unfused", "nvfp4")


@pytest.mark.parametrize("content", ["", "\n\n", "a,b\n1,2\n", '"' + "x" * 200_000 + '"\n'])
def test_files_that_are_no_table_are_input_errors(tmp_path, content):
    file = tmp_path / "rows.csv"
    file.write_text(content)
    with pytest.raises(InputError):
        read_published(file)
    with pytest.raises(InputError, match=r"missing\.csv"):
        read_published(tmp_path / "missing.csv")


def test_a_bad_cell_is_told_with_its_line(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(b"\xef\xbb\xbfGPU;n_gpus;TP;pp;step_time_s\nA100;sixty;8;1;fast\nA100;8;8;1;2,5\n")
    first, second = read_published(file)
    assert [str(p).partition("; ")[0].removeprefix(str(tmp_path)) for p in first.problems] == [
        "/rows.csv:2:1: n_gpus is 'sixty'",
        "/rows.csv:2:1: step_time_s is 'fast'",
    ]
    assert first.facts.n_gpus is None
    assert second.facts.gpu == "A100"


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([*FACT_COLUMNS, *RESULT_COLUMNS]), st.text(max_size=25), max_size=25))
def test_garbage_in_any_cell_is_never_fatal(cells):
    row = one(**cells)
    skip_reason(row)
    skip_reason(row, architecture_known=True)
    published_step_time(row)


numbers = st.sampled_from(["0", "-3", "1e400", "nan", "inf", "8.5", "1,024", "٣", "1e11", "1_000", "0x10", "8", "³"])


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([*FACT_COLUMNS, *RESULT_COLUMNS]), numbers, max_size=25))
def test_odd_numbers_are_never_fatal(cells):
    row = one(**cells)
    skip_reason(row)
    found = published_step_time(row)
    assert found is None or 0 < found[0] < float("inf")
    assert row.facts.tp is None or row.facts.tp >= 1


@given(st.binary(max_size=300))
def test_any_bytes_are_a_table_or_an_input_error(data):
    with contextlib.suppress(InputError):
        parse_published("gpu,n_gpus\n" + data.decode("utf-8", "replace"))
