"""Machines named on the command line, laid over a job: what they say holds, what they do not say stays or gives way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError, UsageError
from simcluster.scenario import inline_candidate, is_candidate, load_text, parse_candidate

JOB = {"model": "llama-7b", "training": {"tokens": "2T"}}
TERMS = ("own", "on-demand", "1y", "3y", "spot")
NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,15}", fullmatch=True)
COUNTS = st.integers(1, 10**6)


@given(COUNTS, NAMES, st.none() | NAMES, st.none() | st.sampled_from(TERMS))
def test_what_it_says_is_what_is_loaded(count, node, fabric, term):
    text = f"{count}x{node}" + (f"/{fabric}" if fabric else "") + (f":{term}" if term else "")
    assert is_candidate(text)
    scenario = inline_candidate(text, JOB).scenario
    assert scenario.name == text
    assert (scenario.cluster.nodes, scenario.cluster.node, scenario.cluster.fabric) == (count, node, fabric)
    assert scenario.training.tokens == 2 * 10**12
    if term is None:
        assert scenario.acquire is None
    elif term == "own":
        assert scenario.acquire.own is not None
        assert scenario.acquire.rent is None
    else:
        assert (scenario.acquire.own, scenario.acquire.rent.term) == (None, term)


@given(COUNTS, NAMES, st.sampled_from(TERMS))
def test_blanks_around_it_do_not_count(count, node, term):
    text = f"{count}x{node}:{term}"
    assert parse_candidate(f"  {text} ") == parse_candidate(text)
    assert inline_candidate(f" {text} ", JOB).scenario == inline_candidate(text, JOB).scenario


@pytest.mark.parametrize("text", ["4xdgx-h100:4y", "4xdgx-h100:rent", "0xdgx-h100", "4xdgx h100", "4x/ib", "x4"])
def test_what_it_cannot_be_is_a_usage_error(text):
    with pytest.raises(UsageError, match="candidate"):
        inline_candidate(text, JOB)


@pytest.mark.parametrize("text", ["4xdgx-h100.yaml", "4xdgx-h100.yml", "study.yaml", "x4", "-4xa", "4 x a"])
def test_files_are_not_machines(text):
    assert not is_candidate(text)


BASE = """\
name: base
model: llama-7b
cluster: {node: dgx-a100-80gb, nodes: 2, fabric: ib-hdr-200, spares: 3}
training: {tokens: 1T, global_batch: 512, micro_batch: 2}
operations: {failures: {restart: 10 min}}
acquire: {own: {price: 150000 USD/node}}
use: {hours: 60%}
"""


@pytest.mark.parametrize("term", ["", ":own", ":1y"])
def test_machines_of_a_file_give_way_and_its_job_stays(term):
    scenario = inline_candidate(f"4xdgx-h100{term}", load_text(BASE)).scenario
    assert (scenario.cluster.nodes, scenario.cluster.node, scenario.cluster.fabric) == (4, "dgx-h100", None)
    assert scenario.cluster.spares == 0
    assert (scenario.training.tokens, scenario.training.micro_batch) == (10**12, 2)
    assert scenario.operations.failures.restart == 600
    assert scenario.use.hours == pytest.approx(0.6)


def test_prices_of_other_machines_do_not_come_along():
    """150,000 USD were for a DGX A100."""
    assert inline_candidate("4xdgx-h100:own", load_text(BASE)).scenario.acquire.own.price == "catalogue"


def test_renting_over_a_file_that_owns_leaves_one_way():
    acquire = inline_candidate("4xaws-p5:1y", load_text(BASE)).scenario.acquire
    assert acquire.own is None
    assert acquire.rent.term == "1y"


@pytest.mark.parametrize("term", ["", ":own", ":3y"])
def test_changes_win_over_the_candidate(term):
    sets = ["cluster.nodes=8", "training.tokens=5T", "use.hours=70%"]
    scenario = inline_candidate(f"4xdgx-h100{term}", load_text(BASE), sets).scenario
    assert (scenario.cluster.nodes, scenario.training.tokens) == (8, 5 * 10**12)
    assert scenario.use.hours == pytest.approx(0.7)


def test_a_change_of_the_price_reaches_the_candidate():
    acquire = inline_candidate("4xdgx-h100:own", JOB, ["acquire.own.price=250000 USD/node"]).scenario.acquire
    assert acquire.own.price.usd == 250_000
    rent = inline_candidate("4xaws-p5:3y", JOB, ["acquire.rent.price=2.5 USD/GPU-h"]).scenario.acquire.rent
    assert (rent.term, rent.price.per) == ("3y", "gpu")


def test_origins_say_who_stated_what():
    origins = inline_candidate("4xdgx-h100:own", load_text(BASE, "b.yaml"), ["use.hours=70%"]).origins
    assert str(origins["cluster.nodes"]) == "candidate 4xdgx-h100:own"
    assert str(origins["training.tokens"]).startswith("b.yaml:4:")
    assert str(origins["use.hours"]) == "--set"
    assert str(inline_candidate("4xdgx-h100", JOB).origins["training.tokens"]) == "arguments"


def test_problems_come_at_once():
    with pytest.raises(InputError) as caught:
        inline_candidate("4xdgx-h100:own", {"model": "m", "training": {"tokens": "many"}}, ["use.hours=200%"])
    assert len(caught.value.problems) == 2


def test_a_job_without_a_model_is_refused():
    with pytest.raises(InputError, match="model"):
        inline_candidate("4xdgx-h100:own", {"training": {"tokens": "2T"}})
