"""Families are facts of frameworks and dates: chosen by them alone, complete, sourced, overridable."""

from __future__ import annotations

import contextlib
import csv
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.data import data_root
from simcluster.errors import InputError
from simcluster.timing.software import (
    SoftwareFamily,
    choose_family,
    family_assumptions,
    family_ids,
    family_sources,
    field_names,
    load_family,
    resolve,
    with_overrides,
)
from simcluster.timing.software_files import read_families

HERE = data_root("calibration")


def id_of(framework, date=""):
    return choose_family(framework, date)[0].id


@pytest.mark.parametrize("id", family_ids())
def test_every_family_loads_and_says_where_each_value_comes_from(id):
    family, sources = load_family(id), family_sources(id)
    assert set(sources) == set(field_names())
    assert all(
        s.source and s.date and s.kind in {"documentation", "repository", "paper", "estimate"} for s in sources.values()
    )
    for generation in ("volta", "ampere", "hopper", "blackwell", "cdna3"):
        settled = resolve(family, generation)
        assert settled.by_generation == ()
        assert with_overrides(settled, {name: getattr(settled, name) for name in field_names()}) == settled


@pytest.mark.parametrize(
    ("framework", "date", "id"),
    [
        ("Megatron-LM", "2020-09", "megatron-lm-2021"),
        ("Megatron-LM", "2022-04-30", "megatron-lm-2021"),
        ("Megatron-LM", "2022-05", "megatron-lm-2022"),
        ("Megatron-LM", "2023", "megatron-core-2023"),
        ("Megatron-LM (TE 2.11)", "2026-04", "megatron-core-2026"),
        ("Megatron-Core 0.9", "2024-11", "megatron-core"),
        ("megatron-core", "", "megatron-core"),
        ("Megatron-DeepSpeed", "2022-01", "megatron-deepspeed"),
        ("Megatron-DeepSpeed ZeRO", "2024", "megatron-deepspeed-2023"),
        ("DeepSpeed ZeRO-3", "2021-04", "deepspeed-2022"),
        ("DeepSpeed", "2024", "deepspeed"),
        ("NeMo Megatron (MLPerf)", "2025-11", "mlperf-nemo"),
        ("NeMo on ROCm (MLPerf)", "2025-11", "mlperf-rocm"),
        ("NeMo Megatron", "2023", "nemo-2023"),
        ("NeMo 25.04", "2025-06", "nemo"),
        ("Megatron-Bridge (NeMo 25.09)", "2025-10", "megatron-bridge-2025"),
        ("Megatron-Bridge", "2026", "megatron-bridge"),
        ("NeMo AutoModel (PyTorch FSDP2)", "2025-10", "automodel"),
        ("torchtitan 2025-06 (torch 2.8 nightly)", "2025-06", "fsdp2-torchtitan"),
        ("Composer/FSDP (llm-foundry)", "2023", "llm-foundry-2023"),
        ("HF Trainer FSDP", "2024", "fsdp1-hf"),
        ("PaxML (JAX)", "2024-04", "jax-pax"),
        ("a framework of our own", "2019", "generic-2021"),
        ("a framework of our own", "2023-01", "generic-2022"),
        ("a framework of our own", "2023-08", "generic-2023"),
        ("", "", "generic"),
        ("megatron-lm-2021", "2024-01", "megatron-lm-2021"),
    ],
)
def test_framework_and_date_choose_the_generation(framework, date, id):
    assert id_of(framework, date) == id


def test_names_of_frameworks_agree_with_the_patterns():
    known = set(family_ids())
    dates = {"": "", "<2022-05": "2022-01", "2022-05..2022-12": "2022-08", ">=2023": "2024-06"}
    with (HERE / "published" / "names.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            r
            for r in csv.DictReader(file)
            if r["kind"] == "framework" and r["id"] in known and " vs " not in r["alias"]
        ]
    assert len(rows) > 60
    for row in rows:
        chosen = id_of(row["alias"], dates[row["when"]])
        assert chosen == row["id"] or chosen.startswith(row["id"] + "-20"), row["alias"]


def test_only_framework_and_date_are_asked():
    assert list(inspect.signature(choose_family).parameters) == ["framework", "date"]


def test_patterns_settle_every_choice_without_a_tie():
    families = read_families()
    for family in families.values():
        for match in family.matches:
            assert not match.start or not match.until or match.start <= match.until
    for month in ("2020-01", "2022-05", "2022-12", "2023-01", "2023-12", "2024-01", "2026-01"):
        for name in (
            "no such framework",
            "Megatron-LM",
            "NeMo",
            "Megatron-Bridge",
            "DeepSpeed",
            "Megatron-DeepSpeed",
            "llm-foundry",
        ):
            fits = [
                (match.priority, family.id)
                for family in families.values()
                for match in family.matches
                if match.pattern.search(name) and match.start <= month and (not match.until or month <= match.until)
            ]
            best = max(fits)[0]
            assert len([id for priority, id in fits if priority == best]) == 1, (name, month, fits)


def test_what_the_text_does_not_settle_is_an_assumption():
    assert choose_family("Megatron-LM", "2024-03")[1] == ()
    assert "without a date" in choose_family("Megatron-LM")[1][0].why
    assert "no known framework" in choose_family("Acme Trainer", "2025")[1][0].why


def test_eras_differ_in_what_decides_the_step():
    old, mid, new = load_family("megatron-lm-2021"), load_family("megatron-lm-2022"), load_family("megatron-core")
    assert (old.attention, old.sequence_parallel, old.recompute, old.overlap_grad_reduce) == (
        "unfused",
        False,
        "full",
        False,
    )
    assert (mid.attention, mid.sequence_parallel, mid.recompute) == ("unfused", True, "selective")
    assert (resolve(new, "hopper").attention, new.overlap_grad_reduce, new.recompute) == ("cudnn", True, "none")
    # bytes of states for a parameter: 20 without, 18 with gradient accumulation into fp32 (Megatron-Core documentation)
    size = {"fp32": 4, "bf16": 2, "fp16": 2}
    for family, total in ((old, 20), (mid, 18), (new, 18), (load_family("fsdp2"), 16), (load_family("deepspeed"), 18)):
        stored = size[family.parameter_storage] + size[family.gradient_storage] + family.optimizer_state_bytes
        assert stored == total, family.id


def test_generation_falls_back_on_the_default():
    bridge = load_family("megatron-bridge")
    assert resolve(bridge, "blackwell").dispatcher == "hybridep"
    assert resolve(bridge, "hopper").dispatcher == "deepep"
    assert resolve(bridge, "cdna3").dispatcher == bridge.dispatcher == "all-to-all"


def test_an_override_holds_for_every_generation():
    family = with_overrides(load_family("megatron-core"), {"attention": "flash-3", "cuda_graph_modules": ["attn"]})
    assert {resolve(family, g).attention for g in ("ampere", "hopper", "blackwell")} == {"flash-3"}
    assert family.cuda_graph_modules == ("attn",)


def test_wrong_overrides_are_told_together():
    wrong = {
        "overlap_grad_reduc": True,
        "attention": "flash-9",
        "tp_overlap": "yes",
        "bucket_bytes": -1,
        "selective_modules": 3,
    }
    with pytest.raises(InputError) as caught:
        with_overrides(SoftwareFamily("mine"), wrong)
    text = str(caught.value)
    assert len(caught.value.problems) == 5
    assert "did you mean 'overlap_grad_reduce'?" in text
    assert "unfused | flash-1 | flash-2 | flash-3 | cudnn" in text


def test_identity_is_no_override():
    for name in ("id", "title", "by_generation"):
        with pytest.raises(InputError):
            with_overrides(SoftwareFamily("mine"), {name: "x"})


@given(st.dictionaries(st.text(max_size=8), st.none() | st.booleans() | st.floats() | st.text(max_size=4), max_size=4))
def test_overrides_never_fail_otherwise(mapping):
    with contextlib.suppress(InputError):
        with_overrides(SoftwareFamily("mine"), mapping)


@given(st.text(max_size=30), st.text(max_size=10))
def test_any_framework_text_gets_a_family(framework, date):
    family, _ = choose_family(framework, date)
    assert family.id in family_ids()


def test_unknown_family_names_the_nearest():
    with pytest.raises(InputError, match="did you mean 'megatron-core'"):
        load_family("megatron-cor")


def test_assumptions_leave_out_what_is_stated():
    family = load_family("internevo")
    every = family_assumptions(family)
    assert len(every) == len(field_names())
    assert len(family_assumptions(family, frozenset({"zero_group"}))) == len(every) - 1
    group = next(a for a in every if a.path.endswith(".zero_group"))
    assert group.value == 8
    assert "github:InternLM/InternEvo" in group.why


def test_broken_family_files_are_told_by_name_and_line(tmp_path):
    (tmp_path / "a.yaml").write_text("id: a\ntitle: A\nextends: nothing\n")
    (tmp_path / "b.yaml").write_text("id: [b\n")
    (tmp_path / "c.yaml").write_text("title: no id\n")
    (tmp_path / "d.yaml").write_text("id: d\ntitle: D\nsources: {s: {source: x, date: 2024, kind: rumour}}\n")
    with pytest.raises(InputError) as caught:
        read_families(tmp_path)
    text = str(caught.value)
    assert "a.yaml: extends unknown family 'nothing'" in text
    assert "b.yaml:2" in text
    assert "c.yaml" in text
    assert "rumour" not in text
    assert "kind of source s" in text
