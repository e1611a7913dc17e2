"""What an evaluation rests on."""

import re

import pytest

from simcluster.analysis.uncertainty import Z80
from simcluster.reports import basis


def test_hardware_facts_are_those_of_the_catalogue(run):
    evaluation = run()
    facts = {fact.label: fact for fact in basis.hardware_facts(evaluation)}
    assert facts["GPU peak, bf16"].marked == "312 TFLOP/s d"
    assert facts["network card, ib-hdr-200"].text == "200 Gbit/s"
    entry = evaluation.resolved.cluster.node.gpu.entry
    for label, key in (("GPU memory", "memory_visible"), ("link of GPUs, nvlink3", "scale_up_rate")):
        kind = entry.values[key].provenance.kind
        assert facts[label].mark == basis.MARKS[kind]
        assert facts[label].source.startswith(entry.values[key].provenance.source)


def test_what_was_assumed_and_what_was_stated_are_told_apart(run):
    def card(fabric):
        facts = basis.hardware_facts(run({"cluster": {"fabric": fabric}}))
        return next(fact for fact in facts if fact.label.startswith("network card"))

    assert card(None).mark == "*"
    assert card("ib-hdr-200").mark in "dme"
    assert card({"protocol": "roce", "link": "100 Gbit/s", "links_per_node": 2}).marked == "100 Gbit/s"


def test_precisions_name_the_peak_that_they_use(run):
    change = {"cluster": {"node": "dgx-h100", "fabric": "ib-ndr-400"}, "training": {"precision": "fp8"}}
    assert any(fact.label == "GPU peak, fp8" for fact in basis.hardware_facts(run(change)))


def test_a_single_node_has_no_network_card(run):
    facts = basis.hardware_facts(run({"cluster": {"nodes": 1, "fabric": None}}))
    assert not any(fact.label.startswith("network") for fact in facts)


def test_evidence_adds_up_to_the_interval(run):
    evaluation = run()
    rows = basis.evidence_table(evaluation).rows
    parts = [float(row[2]) / 100 for row in rows]
    width = sum(part**2 for part in parts) ** 0.5
    step = evaluation.step
    assert step.time_s_p90 / step.time_s == pytest.approx(2.718281828 ** (width), rel=1e-3)
    assert parts == sorted(parts, reverse=True)
    shares = [float(row[1]) for row in rows if row[1]]
    assert sum(shares) == pytest.approx(100, abs=1)
    assert pytest.approx(1.2816, abs=1e-4) == Z80
    grades = [row[3] for row in rows if not str(row[0]).startswith("the model")]
    assert all(grade in tuple("ABCD") for grade in grades)


def test_coverage_counts_every_value_once(run):
    evaluation = run({"training": {"software": {"family": "nobody-knows", "date": "2024-06"}}})
    line = basis.coverage_line(evaluation)
    found = re.match(r"(\d+) of (\d+) inputs stated; (\d+) assumed, (\d+) at their defaults", line)
    stated, total, assumed, defaults = map(int, found.groups())
    assert stated == 19  # single values of the base scenario, without the family that none knows
    assert stated + assumed + defaults == total
    values = {**evaluation.resolved.values, **evaluation.means.values}
    paths = {one.path for one in evaluation.assumptions}
    assert assumed == len([path for path in paths if values[path][0] is not None])
    assert line.endswith("not modelled: nothing that was stated.")


def test_what_is_not_modelled_is_named(run, ascii_page):
    evaluation = run({"operations": {"elastic": "torchelastic"}, "training": {"software": {"torch": "2.4"}}})
    assert basis.coverage_line(evaluation).endswith("not modelled: training.software.torch, operations.elastic.")


def test_notable_assumptions_are_listed(run, ascii_page):
    evaluation = run({"training": {"software": {"family": "nobody-knows", "date": "2024-06"}}})
    points = basis.coverage(evaluation, ascii_page)
    assert any(item.startswith("training.software.family = generic: 'nobody-knows' matches") for item in points.items)
    assert not any(item.startswith("training.software.cuda_graphs") for item in points.items)
