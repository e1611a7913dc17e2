"""Measured speeds of nodes: read from a file beside the scenario, and counted in the step."""

import pytest

from simcluster.errors import InputError
from simcluster.evaluation import evaluate
from simcluster.resolve import resolve
from simcluster.scenario import load


@pytest.fixture
def scenario(tmp_path, text):
    """`scenario(csv, key)` writes both and loads the scenario with `key: speeds.csv` among its stragglers."""

    def write(csv, more="", text=text):
        (tmp_path / "speeds.csv").write_text(csv)
        file = tmp_path / "a.yaml"
        file.write_text(text + f"operations: {{stragglers: {{speeds: speeds.csv{more}}}}}\n")
        return load(file)

    return write


def test_factors_count_over_their_median(scenario, catalogue):
    """Two nodes, one of them 4 % slower than the other: the median lies between them."""
    plain = evaluate(scenario("node,factor\na,2.0\nb,2.0\n"), catalogue)
    slow = evaluate(scenario("node,factor\na,2.0\nb,2.08\n"), catalogue)
    assert plain.run.shares["degraded"] == 0
    assert slow.run.shares["degraded"] > 0
    assert [(one.name, one.position.stages) for one in slow.stragglers.nodes] == [("b", (1,))]
    assert slow.stragglers.p50_s == slow.stragglers.p99_s == pytest.approx(slow.stragglers.remedies.now_s)


def test_nodes_behind_the_cluster_are_not_used(scenario, catalogue):
    few = evaluate(scenario("node,factor\na,1.0\nb,1.0\nc,1.0\n"), catalogue)
    slow_spare = evaluate(scenario("node,factor\na,1.0\nb,1.0\nc,9.0\n"), catalogue)
    assert slow_spare.run.goodput == few.run.goodput


def test_rows_behind_the_cluster_do_not_say_what_is_typical(scenario, catalogue):
    """Ten times as many rows at half the speed change nothing, and are told."""
    rows = "node,factor\na,1.0\nb,1.1\n"
    short = evaluate(scenario(rows), catalogue)
    long = evaluate(scenario(rows + "".join(f"c{row},2.0\n" for row in range(20))), catalogue)
    assert long.stragglers == short.stragglers
    assert short.notes == ()
    (note,) = long.notes
    assert (
        "speeds.csv has 22 nodes, the cluster 2: the first 2 rows are read, c0, c1, c2 and 17 more are not used" in note
    )
    assert "a.yaml:14:27: operations.stragglers.speeds" in note


def test_a_file_of_rates_is_hinted_at(scenario, catalogue, text):
    few = text.replace("nodes: 2", "nodes: 4").replace("global_batch: 32", "global_batch: 64")
    rates = "node,factor\na,150\nb,150.5\nc,141\nd,150\n"
    (note,) = evaluate(scenario(rates, text=few), catalogue).notes
    assert "c is far below the others, which agree" in note
    assert "write 1 over each" in note
    times = evaluate(scenario("node,factor\na,150\nb,150.5\nc,159\nd,150\n", text=few), catalogue)
    assert times.notes == ()


def test_a_named_node_is_kept_by_its_number(settle):
    nodes = (
        settle("operations.stragglers.slow_nodes=[{node: 1, factor: 1.5}, {count: 1, factor: 1.02}]").means().run.nodes
    )
    assert (nodes.slow_nodes, nodes.named) == (((1, 1.02),), ((1, 1.5),))


@pytest.mark.parametrize(
    ("csv", "more", "words"),
    [
        ("node,factor\na,1.0\n", "", "has 1 node, the cluster 2"),
        ("node,factor\na,1.0\nb,fast\n", "", "factor of 'b' is 'fast'"),
        ("node,factor\na,1.0\nb,1.1\n", ", node_sigma: 1%", "say the same of nodes"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(scenario, catalogue, csv, more, words):
    with pytest.raises(InputError, match=words):
        resolve(scenario(csv, more), catalogue).means()


def test_no_file(settle):
    words = r"--set operations\.stragglers\.speeds=absent\.csv: no such file: absent\.csv; give a path that starts at"
    with pytest.raises(InputError, match=words):
        settle("operations.stragglers.speeds=absent.csv")
