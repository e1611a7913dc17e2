"""Measured speeds of nodes: read from a file beside the scenario, and counted in the step."""

import pytest

from simcluster.errors import InputError
from simcluster.evaluation import evaluate
from simcluster.resolve import resolve
from simcluster.scenario import load


@pytest.fixture
def scenario(tmp_path, text):
    """`scenario(csv, key)` writes both and loads the scenario with `key: speeds.csv` among its stragglers."""

    def write(csv, more=""):
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
    assert slow.stragglers.names == ("a", "b")
    assert [slow.stragglers.names[one.node] for one in slow.stragglers.blame] == ["b"]
    assert slow.stragglers.p50_s == slow.stragglers.p99_s == pytest.approx(slow.stragglers.remedies.now_s)


def test_nodes_behind_the_cluster_are_not_used(scenario, catalogue):
    few = evaluate(scenario("node,factor\na,1.0\nb,1.0\nc,1.0\n"), catalogue)
    slow_spare = evaluate(scenario("node,factor\na,1.0\nb,1.0\nc,9.0\n"), catalogue)
    assert slow_spare.run.goodput == few.run.goodput


@pytest.mark.parametrize(
    ("csv", "more", "words"),
    [
        ("node,factor\na,1.0\n", "", "has 1 nodes, the cluster 2"),
        ("node,factor\na,1.0\nb,fast\n", "", "factor of 'b' is 'fast'"),
        ("node,factor\na,1.0\nb,1.1\n", ", node_sigma: 1%", "say the same of nodes"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(scenario, catalogue, csv, more, words):
    with pytest.raises(InputError, match=words):
        resolve(scenario(csv, more), catalogue).means()


def test_no_file(settle):
    with pytest.raises(InputError, match=r"operations\.stragglers\.speeds|cannot read"):
        settle("operations.stragglers.speeds=absent.csv")
