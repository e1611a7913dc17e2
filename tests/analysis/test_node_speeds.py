"""Factors of nodes: as many slow ones as stated, named ones where they are, everything reproducible."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.node_speeds import NodeSpeeds


def test_known_slow_nodes_are_as_many_as_stated():
    drawn = NodeSpeeds(8, 0.01, slow_nodes=((2, 1.5), (1, 2.0))).draw(512, 0)
    assert ((drawn == 1.5).sum(axis=1) == 2).all()
    assert ((drawn == 2.0).sum(axis=1) == 1).all()
    assert (drawn == 2.0).mean(axis=0) == pytest.approx(1 / 8, abs=0.06)


@given(st.integers(1, 6), st.integers(0, 3), st.floats(0, 0.02), st.integers(0, 99))
def test_named_nodes_stay_and_others_lie_between_them(nodes, anywhere, sigma, seed):
    named = tuple((node, 1.5 + node) for node in range(0, nodes, 2))
    anywhere = min(anywhere, nodes - len(named))
    speeds = NodeSpeeds(nodes, sigma, slow_nodes=((anywhere, 1.25),), named=named)
    drawn = speeds.draw(64, seed)
    for node, factor in named:
        assert (drawn[:, node] == factor).all()
    assert ((drawn == 1.25).sum(axis=1) == anywhere).all()
    assert speeds.known().tolist() == [dict(named).get(node, 1.0) for node in range(nodes)]


def test_what_is_drawn_and_what_is_known():
    assert not NodeSpeeds(2, named=((0, 1.1),)).is_drawn
    assert not NodeSpeeds(2, measured=(1.0, 1.1)).is_drawn
    assert NodeSpeeds(2, jitter_sigma=0.1, measured=(1.0, 1.1)).is_drawn
    assert NodeSpeeds(2, slow_nodes=((1, 1.1),)).is_one_anywhere
    assert not NodeSpeeds(2, slow_nodes=((2, 1.1),)).is_one_anywhere
    assert not NodeSpeeds(2, slow_nodes=((1, 1.1),), named=((0, 1.2),)).is_one_anywhere
    assert np.array_equal(NodeSpeeds(2, measured=(1.0, 1.1)).known(), [1.0, 1.1])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"measured": (1.0, 1.0, 1.0)}, "3 factors for 4 nodes"),
        ({"slow_nodes": ((5, 1.1),)}, "more slow nodes"),
        ({"slow_nodes": ((4, 1.1),), "named": ((0, 1.1),)}, "more slow nodes"),
        ({"named": ((4, 1.1),)}, "none of the 4"),
    ],
)
def test_speeds_that_do_not_fit(more, words):
    with pytest.raises(ValueError, match=words):
        NodeSpeeds(4, **more)
