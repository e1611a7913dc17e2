"""Times steps on nodes of unlike speed: 1,000 samples of 128 replicas of Llama-3-405B, drawn and solved exactly.

`python benchmarks/stragglers.py`. Limits count as in run.py: with the noise of this machine, and longer where it is
slow.
"""

import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import LOOP, allowed, best_of, timed

from simcluster.analysis.node_speeds import NodeSpeeds
from simcluster.analysis.straggler_costs import node_costs, replaced_one_by_one
from simcluster.analysis.straggler_remedies import remedies
from simcluster.analysis.stragglers import node_places, simulate_stragglers
from simcluster.engine.critical import critical_path
from simcluster.engine.paced import paced_step
from simcluster.evaluation import evaluate
from simcluster.hardware.catalogue import Catalogue
from simcluster.scenario import load_mapping

NODES, SAMPLES = 2048, 1000
DENSE, SPARSE = NodeSpeeds(NODES, jitter_sigma=0.02), NodeSpeeds(NODES, slow_nodes=((2, 1.3),))


def scenario(virtual_stages):
    """Llama-3-405B on 16,384 GPUs: tp 8, pp 16, dp 128, 128 micro-batches."""
    return load_mapping(
        {
            "name": "llama-3-405b-16384xh100",
            "model": "llama-3-405b",
            "cluster": {"node": "dgx-h100", "nodes": NODES, "fabric": "roce-400"},
            "training": {
                "sequence_length": 8192,
                "global_batch": 128 * 128,
                "micro_batch": 1,
                "precision": "bf16",
                "parallelism": {
                    "tp": 8,
                    "pp": 16,
                    "dp": 128,
                    "virtual_stages": virtual_stages,
                    "sequence_parallel": True,
                },
                "sharding": {"strategy": "zero-1"},
                "recompute": {"modules": ["mlp_act"]},
                "software": {"family": "megatron-core", "date": "2024-06"},
            },
        }
    )


class Case:
    """One design, and what is timed of it."""

    def __init__(self, catalogue, virtual_stages):
        evaluation = evaluate(scenario(virtual_stages), catalogue)
        self.figures = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
        plan, machine, _ = self.figures
        self.step, self.places = paced_step(*self.figures), node_places(plan, machine.network.gpus_per_node)
        self.micro_batches = plan.micro_batches
        self.known = SPARSE.draw(1, 0)[0]

    def sampled(self, speeds):
        return simulate_stragglers(self.step, self.places, speeds, SAMPLES)

    def path(self):
        return critical_path(self.step.graph, self.step.durations, self.step.lags)

    def costs(self):
        known = self.step, self.places, self.known
        slow = [one.node for one in node_costs(*known)]
        return replaced_one_by_one(*known, slow), remedies(*known, self.micro_batches, slow)


def rows(catalogue):
    """(name, limit [s], seconds, remark) of each."""
    numba = find_spec("numba") is not None
    kernel = "numba" if numba else "numpy"
    for virtual_stages, limit in ((2, 0.6 if numba else 2.5), (8, 2.5 if numba else 10.0)):
        case, chunks = Case(catalogue, virtual_stages), f"{virtual_stages} chunks"
        tasks = len(case.step.graph)
        for name, speeds, most in (("jitter of 2 %", DENSE, limit), ("two slow nodes", SPARSE, 0.5 * limit)):
            seconds = best_of(partial(case.sampled, speeds))
            slow_down = case.sampled(speeds).slow_down
            yield f"{name}, {chunks}", most, seconds, f"{kernel}, {tasks:,} tasks, steps {slow_down - 1:+.2%}"
        yield f"critical path, {chunks}", 0.05, best_of(case.path), ""
        yield f"costs and remedies, {chunks}", 1.0, best_of(case.costs), ""


def main():
    """Prints the table; 1 if a limit is broken."""
    loop, broken = timed(("-c", LOOP)), 0
    row = "{:32} {:>9} {:>8} {:>8}  {}".format
    print(row("best of 3", "time", "limit", "/ loop", ""))
    for name, limit, seconds, remark in rows(Catalogue.load()):
        late = seconds > allowed(limit, loop)
        broken += late
        print(row(name, f"{seconds:.3f} s", f"{limit:g} s", f"{seconds / loop[0]:.2f}", remark + " BROKEN" * late))
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
