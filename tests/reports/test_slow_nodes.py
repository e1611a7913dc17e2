"""Slow nodes as tables, from results written out."""

from dataclasses import replace

import pytest

from simcluster.analysis.straggler_costs import NodeCost, StageCost
from simcluster.analysis.straggler_remedies import Remedies
from simcluster.evaluation import StragglerResult
from simcluster.evaluation.stragglers import LayersBySpeed, SlowNode
from simcluster.parallel.position import Position
from simcluster.reports.layout import Page
from simcluster.reports.slow_nodes import slow_nodes_blocks, slow_sentence
from simcluster.reports.step_page import headline
from simcluster.reports.terminal import render


def slow(name, factor, alone_s, gives_back_s):
    return SlowNode(name, Position((2,), (5,)), NodeCost(0, factor, alone_s, gives_back_s))


KNOWN = StragglerResult(
    healthy_s=10.0,
    drawn=(),
    mean_s=10.5,
    p50_s=10.5,
    p90_s=10.5,
    p99_s=10.5,
    nodes=(slow("n37", 1.05, 0.5, 0.0), slow("n20", 1.05, 0.4, 0.0)),
    replaced_s=(10.5, 10.0),
    remedies=Remedies(10.5, dropped_s=11.0, rebalanced_s=10.4, micro_batches=(3, 4)),
    layers=LayersBySpeed((19, 20, 20, 21), (19, 20, 20, 21), 10.45, fits=True, as_now=False),
)
ANYWHERE = StragglerResult(
    healthy_s=10.0,
    drawn=("places of the slow nodes",),
    mean_s=10.2,
    p50_s=10.1,
    p90_s=10.3,
    p99_s=10.3,
    stages=tuple(StageCost((stage,), 4, 1.05, step_s) for stage, step_s in enumerate((10.1, 10.1, 10.3))),
)


def page(found):
    return render(slow_nodes_blocks(found), Page())


def row(text, words):
    (line,) = [line for line in text.splitlines() if line.startswith(words)]
    return line[len(words) :].split()


def test_known_nodes_with_place_cost_and_what_replacing_gives_back():
    text = page(KNOWN)
    assert row(text, "n37") == ["stage", "2,", "replica", "5", "5%", "500", "ms", "+5.00%", "nothing"]
    assert "takes longer by" in text
    assert row(text, "a typical spare for n37")[-2:] == ["no", "gain"]
    assert row(text, "and one for n20")[-1] == "-4.76%"


def test_remedies_that_make_no_sense_are_left_out_and_bad_ones_gain_nothing():
    text = page(KNOWN)
    assert row(text, "the replicas of n37 left out, the others doing their work")[-2:] == ["no", "gain"]
    assert row(text, "micro-batches shared out over replicas by speed")[-1] == "-0.95%"
    assert "put together" not in text
    assert row(text, "layers shared out over stages by speed (19 20 20 21)")[-1] == "-0.48%"
    same = replace(KNOWN.layers, as_now=True, fits=False, step_s=10.5)
    assert row(page(replace(KNOWN, layers=same)), "layers shared out over stages by speed (as they are)")[-1] == "gain"
    tight = replace(KNOWN.layers, fits=False)
    assert "does not fit in memory" in page(replace(KNOWN, layers=tight))


def test_many_nodes_are_counted():
    many = replace(KNOWN, nodes=KNOWN.nodes * 5, replaced_s=(10.4, 10.3, 10.25, 10.2, 10.15, 10.1, 10.0))
    text = page(many)
    assert "and 5 more" in text
    assert row(text, "and 2 more, for the worst 7")[-1] == "-4.76%"


def test_a_node_that_nobody_names_has_rows_by_stage_and_no_name():
    text = page(ANYWHERE)
    assert row(text, "one node 5% slower, in stages 0 and 1") == ["10.1", "s", "+1.00%"]
    assert row(text, "one node 5% slower, in stage 2") == ["10.3", "s", "+3.00%"]
    assert row(text, "in nine of ten places at most") == ["10.3", "s", "+3.00%"]
    assert row(text, "mean over places of the slow nodes")
    assert "steps" not in text
    assert "node 0" not in text
    assert "node: 5 instead of count" in text


def test_stages_that_are_alike_have_one_row_and_many_two():
    alike = replace(ANYWHERE, stages=ANYWHERE.stages[:2])
    assert row(page(alike), "one node 5% slower, wherever it is")
    many = tuple(StageCost((stage,), 1, 1.05, 10.0 + 0.1 * stage) for stage in range(12))
    text = page(replace(ANYWHERE, stages=many))
    assert row(text, "one node 5% slower, where it costs least, in stage 0")
    assert row(text, "one node 5% slower, where it costs most, in stage 11")
    assert text.count("one node") == 2


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (("steps",), "in half of the steps at most"),
        (("speeds of the nodes",), "in half of the fleets at most"),
        (("speeds of the nodes", "places of the slow nodes", "steps"), "in half of the draws at most"),
    ],
)
def test_percentiles_say_what_they_are_over(drawn, words):
    assert row(page(replace(ANYWHERE, drawn=drawn)), words)


def test_one_sentence_says_what_the_headline_leaves_out(run, ascii_page):
    with_them = "That is with all nodes alike; with slow nodes as stated it takes 10.5 s (+5.00%)."
    assert slow_sentence(KNOWN) == with_them
    drawn = replace(ANYWHERE, drawn=("speeds of the nodes", "places of the slow nodes", "steps"))
    over = "the mean over speeds of the nodes, places of the slow nodes and steps"
    assert slow_sentence(drawn).endswith(f"10.2 s (+2.00%, {over}).")
    evaluation = run({"operations": {"stragglers": {"slow_nodes": [{"node": 1, "factor": 1.05}]}}})
    _, speed, said, _ = headline(evaluation, ascii_page)
    assert speed.startswith("A step takes ")
    assert said == slow_sentence(evaluation.stragglers)
