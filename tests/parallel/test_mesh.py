from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.mesh import AXES, Mesh, axis_group, joined_group, stage_pair


def members(mesh, axis):
    """Ranks of the group along an axis that holds rank 0, counted out."""
    return [index * mesh.stride(axis) for index in range(mesh.degree(axis))]


@given(st.builds(Mesh, *[st.sampled_from([1, 2, 4, 8])] * 4), st.sampled_from(AXES), st.sampled_from([4, 8]))
def test_domains_equal_those_counted_rank_by_rank(mesh, axis, domain):
    shape = axis_group(mesh, axis, domain, domain)
    assert shape.ranks == mesh.degree(axis)
    assert shape.domains == len({rank // domain for rank in members(mesh, axis)})


@given(st.builds(Mesh, *[st.sampled_from([1, 2, 4, 8])] * 4), st.sampled_from(AXES))
def test_sharers_equal_the_groups_that_meet_in_a_node(mesh, axis):
    shape = axis_group(mesh, axis, 8, 8)
    if shape.domains == 1:
        assert shape.sharers == 1
        return
    stride, length = mesh.stride(axis), mesh.degree(axis)
    node = range(min(8, mesh.world))
    groups = {(rank % stride, rank // (stride * length)) for rank in node}
    assert shape.sharers == len(groups)


def test_joined_axes():
    assert joined_group(Mesh(tp=2, cp=2, dp=4), ("cp", "dp"), 8, 8).ranks == 8


def test_messages_inside_and_across_nodes():
    mesh = Mesh(tp=4, pp=4)
    assert stage_pair(mesh, 0, 1, 8, 8).domains == 1
    assert stage_pair(mesh, 1, 2, 8, 8).domains == 2
    assert stage_pair(mesh, 3, 0, 8, 8).domains == 2
