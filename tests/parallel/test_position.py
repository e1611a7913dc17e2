"""Positions of nodes against ranks that are counted out axis by axis."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.mesh import Mesh
from simcluster.parallel.position import counted, node_position

DEGREE = st.sampled_from([1, 2, 3, 4, 8])


@given(st.builds(Mesh, DEGREE, DEGREE, DEGREE, DEGREE), st.sampled_from([1, 4, 8]))
def test_every_rank_is_where_counting_through_the_axes_puts_it(mesh, gpus):
    order = product(range(mesh.pp), range(mesh.dp), range(mesh.cp), range(mesh.tp))  # tp counts fastest
    nodes = {}
    for rank, (stage, replica, _, _) in enumerate(order):
        stages, replicas = nodes.setdefault(rank // gpus, (set(), set()))
        stages.add(stage)
        replicas.add(replica)
    for node, (stages, replicas) in nodes.items():
        found = node_position(mesh, node, gpus)
        assert (set(found.stages), set(found.replicas)) == (stages, replicas)


def test_words():
    assert counted("node", (4,)) == "node 4"
    assert counted("node", (4, 6)) == "nodes 4 and 6"
