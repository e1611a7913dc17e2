"""Whom to take, in three lines: the figures, the order of candidates, and what would change the choice."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from simcluster.reports.compare_page import compare_blocks
from simcluster.reports.layout import Page
from simcluster.reports.terminal import render
from simcluster.scenario import apply_sets, load_study
from simcluster.study import compare, load_candidates, settled

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DAY_S = 86400.0
WORDS = ("32xdgx-b200:own", "32xaws-p6-b200:3y", "64xhgx-h100:1y")
JOB = {"model": "llama-3-70b", "training": {"tokens": "2T"}}


@pytest.fixture(scope="module")
def by_words(catalogue):
    return compare(load_candidates(WORDS, job=JOB), catalogue)


@pytest.fixture(scope="module")
def by_study(catalogue):
    return compare(load_study(EXAMPLES / "llama-3-70b-256xb200.yaml").candidates, catalogue)


@pytest.fixture(params=["by_words", "by_study"])
def decision(request):
    return request.getfixturevalue(request.param)


def test_layouts_are_chosen_and_fit(decision):
    for one in decision.candidates:
        chosen = [said for said in one.evaluation.assumptions if said.path == "training.parallelism"]
        assert len(chosen) == 1
        assert "chosen: the fastest of" in chosen[0].why
        assert one.evaluation.memory.fits
        assert math.prod(getattr(one.evaluation.resolved.layout, axis) for axis in ("tp", "pp", "dp", "cp")) == (
            one.evaluation.resolved.cluster.gpus
        )


def test_the_first_three_lines_are_the_decision(decision):
    """Whom to take or who is probably the cheapest, days and dollars; capital and start; what flips it."""
    first, why, flips = render(compare_blocks(decision, Page()), Page()).splitlines()[:3]
    cheapest = min(decision.candidates, key=lambda one: one.evaluation.cost.usd_per_million_tokens)
    verdict = decision.verdict
    if verdict.choice is None:
        assert re.match(rf"No clear winner[a-z ]*: {re.escape(cheapest.name)} is .*cheap", first)
        assert re.search(r"\d%", first)
    else:
        assert verdict.choice == cheapest.name
        assert first.startswith(f"Take {cheapest.name}: ")
    assert re.search(r"2T tokens in \d+(\.\d+)? days for [\d.,]+[kM]? USD \([\d.]+ USD a million tokens\)", first)
    assert re.search(r"\d% less than .* \(80% interval -?\d", first)
    assert re.search(r"takes [\d.]+M USD of capital and starts \d+ days after the order", why)
    assert flips.startswith("It flips if ")


def test_the_figures_of_the_sentence_are_those_of_the_evaluation(decision):
    cheapest = min(decision.candidates, key=lambda one: one.evaluation.cost.usd_per_million_tokens).evaluation
    days, amount, unit, each = re.search(
        r"in ([\d.]+) days for ([\d.]+)([kM]) USD \(([\d.]+) USD", decision.verdict.sentence
    ).groups()
    assert float(days) == pytest.approx(cheapest.run.wall_s / DAY_S, rel=0.01)
    scale = {"k": 1e3, "M": 1e6}[unit]
    assert float(amount) * scale == pytest.approx(cheapest.cost.total_usd, rel=0.01)
    assert float(each) == pytest.approx(cheapest.cost.usd_per_million_tokens, rel=0.01)
    assert cheapest.cost.total_usd / 2e6 == pytest.approx(cheapest.cost.usd_per_million_tokens, rel=0.002)


def test_the_verdict_stays_when_the_order_changes(catalogue, by_words):
    turned = compare(load_candidates(WORDS[::-1], job=JOB), catalogue)
    assert turned.verdict == by_words.verdict


def test_a_stated_flip_flips(catalogue, by_words):
    """At the rent that the verdict names the rival is as cheap as the winner, and a tenth below it wins."""
    (flip,) = [text for text in by_words.verdict.flips_if if "is had for less than" in text]
    rival, limit = re.match(r"(\S+) is had for less than ([\d.]+) USD a GPU-hour", flip).groups()
    cheapest = min(by_words.candidates, key=lambda one: one.evaluation.cost.usd_per_million_tokens)
    at, below = (_with_rent(catalogue, rival, float(limit) * factor) for factor in (1.0, 0.9))
    own = cheapest.evaluation.cost.usd_per_million_tokens
    assert at == pytest.approx(own, rel=0.005)
    assert below < own


def _with_rent(catalogue, name, usd_per_gpu_hour):
    loaded = dict(load_candidates(WORDS, job=JOB))[name]
    return settled(
        apply_sets(loaded, [f"acquire.rent.price={usd_per_gpu_hour} USD/GPU-h"]), catalogue
    ).cost.usd_per_million_tokens
