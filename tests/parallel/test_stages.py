import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.stages import both_ways, split_layers, stage_contents


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


def test_embedding_and_head_on_any_stage():
    contents = stage_contents(6, 4, explicit=(0, 2, 4, 0), ends=(1, 2))
    assert [(one.layers, one.embedding, one.head, one.first) for (one,) in contents] == [
        (0, False, False, 0), (2, True, False, 0), (4, False, True, 2), (0, False, False, 6),
    ]  # fmt: skip


@pytest.mark.parametrize("ends", [(2, 3), (0, 1), (2, 1), (0, 4), (-1, 3)])
def test_no_layers_before_the_embedding_or_behind_the_head(ends):
    with pytest.raises(ValueError, match="have layers before or behind them"):
        stage_contents(6, 4, explicit=(0, 2, 4, 0), ends=ends)


def test_both_ways_every_layer_is_held_twice():
    held = both_ways(stage_contents(8, 4, explicit=(1, 2, 3, 2)))
    assert [[one.layers for one in stage] for stage in held] == [[1, 2], [2, 3], [3, 2], [2, 1]]
    assert [[one.embedding for one in stage] for stage in held] == [[True, False], *[[False] * 2] * 2, [False, True]]
    assert [[one.head for one in stage] for stage in held] == [[False, True], *[[False] * 2] * 2, [True, False]]
