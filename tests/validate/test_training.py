import random
import time
from dataclasses import replace

import numpy as np
import pytest

from simcluster.formats.published import PublishedResult, parse_published
from simcluster.validate import training
from simcluster.validate.floor import shipped_rows
from simcluster.validate.training import validate_training

SUBSET = 12


@pytest.fixture(scope="module")
def rows():
    return shipped_rows()[3::SUBSET]


@pytest.fixture(scope="module")
def results(rows):
    return validate_training(rows, workers=1)


def predictions(results):
    return [(one.predicted, one.low, one.high, one.grade, one.assumed) for one in results]


def test_most_rows_of_every_split_are_judged_or_skipped_for_a_reason(rows, results):
    assert len(results) == len(rows)
    assert not [one.skipped_because for one in results if one.skipped_because.startswith("error")]
    assert all(one.judged != bool(one.skipped_because) for one in results)
    assert sum(one.judged for one in results) > len(rows) / 4
    assert {one.split for one in results if one.judged} == {"fit", "test"}


def test_bands_hold_the_prediction(results):
    judged = [one for one in results if one.judged]
    assert all(one.low < one.predicted < one.high for one in judged)
    assert all(one.error == pytest.approx(one.predicted / one.published - 1) for one in judged)
    assert all(one.assumed and one.grade in "ABCD" for one in judged)


def test_predictions_see_facts_alone(rows, results):
    blank = [replace(row, result=PublishedResult()) for row in rows]
    assert predictions(validate_training(blank, workers=1)) == predictions(results)
    renamed = [
        replace(row, result=PublishedResult(id=f"x{number}", source="s", split="fit", trust="C", step_time_s=1e-3))
        for number, row in enumerate(rows)
    ]
    assert predictions(validate_training(renamed, workers=1)) == predictions(results)


def test_order_of_rows_does_not_matter(rows, results):
    order = list(range(len(rows)))
    random.Random(1).shuffle(order)
    shuffled = validate_training([rows[place] for place in order], workers=1)
    assert shuffled == [results[place] for place in order]


def test_number_of_workers_does_not_matter(rows, results):
    assert validate_training(rows, workers=2) == results


def test_a_row_without_throughput_is_predicted_but_not_judged(rows, results):
    place = next(place for place, one in enumerate(results) if one.judged)
    (blank,) = validate_training([replace(rows[place], result=PublishedResult())], workers=1)
    assert (blank.skipped_because, blank.published, blank.error) == ("no_throughput", None, None)
    assert blank.predicted == results[place].predicted


def test_reasons():
    header = (
        "gpu,n_gpus,gpus_per_node,layers,hidden,heads,ffn_hidden,vocab,gated_ffn,seq_len,micro_batch,global_batch,"
        "tp,pp,dp,fsdp_or_zero_stage,precision,step_time_s,task,n_experts,topk,moe_ffn_hidden"
    )
    good = "H100-80GB-SXM,8,8,4,1024,8,4096,32000,0,2048,1,64,1,1,8,1,bf16,1.0,pretrain,,,"
    changes = {
        "": (),
        "unknown_gpu": ("H100-80GB-SXM", "XPU-9"),
        "task": ("pretrain", "lora"),
        "no_throughput": ("1.0", ""),
        "no_architecture": ("32000", ""),
        "no_layout": (",64,", ",,"),
        "unknown_precision": ("bf16", "int3"),
        "inconsistent_row: experts": ("1,bf16,1.0,pretrain,,,", "1,bf16,1.0,pretrain,8,9,4096"),
        "inconsistent_row: layout": ("1,1,8,1,bf16", "1,1,3,1,bf16"),
    }
    table = parse_published(
        "\n".join([header, *(good.replace(*change) if change else good for change in changes.values())])
    )
    for one, wanted in zip(validate_training(table, workers=1), changes):
        assert one.skipped_because.startswith(wanted), (one.skipped_because, wanted)
        assert one.judged == (wanted == "")


def test_a_defect_costs_one_row(monkeypatch, rows, results):
    def broken(*_):
        raise ZeroDivisionError("oops")

    place = next(place for place, one in enumerate(results) if one.judged)
    monkeypatch.setattr(training, "evaluate", broken)
    (only,) = validate_training([rows[place]], workers=1)
    assert only.skipped_because == "error: ZeroDivisionError: oops"
    assert only.predicted is None


def test_the_floor_stands_beside_each_judged_row(results):
    judged = [one for one in results if one.judged]
    assert sum(one.floor is not None for one in judged) > 0.9 * len(judged)


@pytest.mark.slow
def test_the_whole_table():
    rows = shipped_rows()
    started = time.perf_counter()
    results = validate_training(rows)
    assert time.perf_counter() - started < 60
    assert not [one.id for one in results if one.skipped_because.startswith("error")]
    held_back = [one for one in results if one.split == "test"]
    trusted = [one for one in held_back if one.trust in "AB" and one.skipped_because not in ("task", "no_throughput")]
    assert sum(one.judged for one in trusted) >= 0.97 * len(trusted)
    errors = np.abs([one.error for one in held_back if one.judged])
    assert len(errors) > 700
    assert np.median(errors) <= 0.10


@pytest.mark.slow
def test_korthikanti_and_others_2022():
    """Eight runs of one machine, none of which any constant was chosen on."""
    rows = [row for row in shipped_rows() if row.result.source.startswith("Korthikanti")]
    errors = np.abs([one.error for one in validate_training(rows, workers=1)])
    assert len(errors) == 8
    assert errors.mean() <= 0.08
    assert errors.max() <= 0.15
