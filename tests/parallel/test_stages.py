import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.stages import split_layers, stage_contents


@given(st.integers(1, 200), st.integers(1, 40))
def test_split_keeps_layers_and_differs_by_at_most_one(layers, parts):
    sizes = split_layers(layers, parts)
    assert sum(sizes) == layers
    assert len(sizes) == parts
    assert max(sizes) - min(sizes) <= 1


def test_uneven_parts_put_the_longer_ones_in_the_middle():
    assert split_layers(78, 12) == (6, 6, 6, 7, 7, 7, 7, 7, 7, 6, 6, 6)


def test_chunk_j_of_stage_i_is_virtual_stage_j_pp_plus_i():
    contents = stage_contents(12, 2, 3, explicit=(1, 2, 3, 1, 2, 3))
    assert [chunk.layers for chunk in contents[0]] == [1, 3, 2]
    assert [chunk.layers for chunk in contents[1]] == [2, 1, 3]
    assert contents[0][0].embedding
    assert contents[1][2].head


def test_a_layout_that_does_not_sum_is_refused():
    with pytest.raises(ValueError, match="sum to 12"):
        stage_contents(12, 2, 1, explicit=(5, 6))
