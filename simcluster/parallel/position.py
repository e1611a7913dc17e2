"""Which stages and replicas the ranks of a node belong to."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.parallel.mesh import Mesh


@dataclass(frozen=True, slots=True)
class Position:
    """Pipeline stages and data-parallel replicas that some ranks belong to."""

    stages: tuple[int, ...]
    replicas: tuple[int, ...]

    def __str__(self) -> str:
        return f"{counted('stage', self.stages)}, {counted('replica', self.replicas)}"


def counted(noun: str, numbers: tuple[int, ...]) -> str:
    """Neighbouring or single numbers in words.

    >>> counted("stage", (3,)), counted("stage", (0, 1)), counted("stage", (2, 3, 4)), counted("stage", (0, 5, 6))
    ('stage 3', 'stages 0 and 1', 'stages 2 to 4', 'stages 0, 5 and 6')
    """
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    if len(numbers) > 2 and numbers == tuple(range(numbers[0], numbers[-1] + 1)):
        return f"{noun}s {numbers[0]} to {numbers[-1]}"
    return f"{noun}s {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def node_position(mesh: Mesh, node: int, gpus_per_node: int) -> Position:
    """Where the ranks of a node lie in the mesh; ranks are numbered as `AXES` has it, and fill node after node.

    >>> str(node_position(Mesh(tp=8, pp=4, dp=16), 37, 8)), str(node_position(Mesh(tp=2, pp=4, dp=2), 1, 8))
    ('stage 2, replica 5', 'stages 2 and 3, replicas 0 and 1')
    """
    ranks = range(node * gpus_per_node, min((node + 1) * gpus_per_node, mesh.world))
    stages = {rank // mesh.stride("pp") for rank in ranks}
    replicas = {rank // mesh.stride("dp") % mesh.dp for rank in ranks}
    return Position(tuple(sorted(stages)), tuple(sorted(replicas)))
