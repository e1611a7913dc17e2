"""Slow nodes as users state them."""

import pytest

from simcluster.errors import InputError
from simcluster.scenario import load_text

JOB = "model: llama-7b\ncluster: {node: dgx-h100, nodes: 4}\n"


def loaded(entry):
    return load_text(JOB, sets=[f"operations.stragglers.slow_nodes=[{entry}]"]).scenario.operations.stragglers


def test_so_many_or_a_certain_one():
    (some,) = loaded("{count: 2, factor: 1.05}").slow_nodes
    assert (some.count, some.node, some.factor) == (2, None, 1.05)
    (one,) = loaded("{node: 0, factor: 105%}").slow_nodes
    assert (one.count, one.node, one.factor) == (None, 0, 1.05)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{count: 1, factor: 5%}", r"'5%' should be at least 1; write 1\.05 for 5% slower"),
        ("{count: 1, factor: 0.95}", r"0\.95 should be at least 1; it is a time over a typical node's"),
        ("{factor: 1.05}", "count is missing; state how many, or the number of a node as node: 5"),
        ("{count: 1, node: 1, factor: 1.05}", "count and node exclude each other"),
    ],
)
def test_what_is_wrong_says_what_to_write(entry, words):
    with pytest.raises(InputError, match=words):
        loaded(entry)
