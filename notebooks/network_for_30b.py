# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Which network for a 30B model?
#
# A rule of thumb says that a 30B model trains 3.2 times faster over 400 Gbit/s InfiniBand than over 200 Gbit/s RoCE.
# The line rates differ by a factor of 2. So when does 3.2 come out, when 2, and when nothing at all?
#
# The model is LLaMA 33B on 64 H100s (8 nodes of 8). Three jobs put very different loads on the fabric:
#
# * **split**: tensor parallelism inside the node, 16 sequences a GPU and step, gradients once a step;
# * **sharded, large**: every GPU gathers all parameters in each pass (FSDP), 4 sequences a GPU;
# * **sharded, small**: the same with 1 sequence a GPU, so that there is little compute to hide the traffic behind.

# %%
import pandas as pd

from simcluster import compare, evaluate, load
from simcluster.data import data_root
from simcluster.reports import plots

split = load(data_root("examples") / "llama-1-33b-64xh100.yaml")
sharded = split.set(
    "training.parallelism={tp: 1, dp: 64, sequence_parallel: false}",
    "training.sharding={strategy: fsdp}",
    "training.software={family: torchtitan, date: 2024-06}",
)
jobs = {
    "split": split,
    "sharded, large": sharded.set("training.micro_batch=4", "training.global_batch=256"),
    "sharded, small": sharded.set(
        "training.micro_batch=1", "training.global_batch=64", "training.recompute=none"
    ),
}


def fabric(protocol, gbit_per_s, cards, congestion=1.0):
    """A fabric with so many cards a node; congestion divides the rate of its links upwards."""
    return {
        "protocol": protocol,
        "link": f"{gbit_per_s} Gbit/s",
        "links_per_node": cards,
        "oversubscription": {"leaf": congestion},
    }


def step(job, *parameters):
    """The evaluated step of a job on a fabric."""
    return evaluate(job.what_if(cluster__fabric=fabric(*parameters)))


# %% [markdown]
# ## Eight designs, three jobs
#
# Step times in seconds. All jobs fit in memory on every fabric.

# %%
designs = [(protocol, rate, cards) for cards in (8, 1) for rate in (400, 200) for protocol in ("ib", "roce")]
steps = {name: {design: step(job, *design) for design in designs} for name, job in jobs.items()}
assert all(one.memory.fits for row in steps.values() for one in row.values())
times = pd.DataFrame({name: {design: one.step.time_s for design, one in row.items()} for name, row in steps.items()})
times.rename_axis(["protocol", "Gbit/s a card", "cards a node"]).round(3)

# %% [markdown]
# Three things stand out. The protocol hardly matters. With 8 cards a node the jobs that have enough compute hide
# either rate. With 1 card a node the sharded jobs wait for the wire, whatever it is.

# %%
plots.comparison(
    compare({
        "8 x 400 Gbit/s IB": jobs["sharded, large"].what_if(cluster__fabric=fabric("ib", 400, 8)),
        "8 x 200 Gbit/s RoCE": jobs["sharded, large"].what_if(cluster__fabric=fabric("roce", 200, 8)),
        "1 x 400 Gbit/s IB": jobs["sharded, large"].what_if(cluster__fabric=fabric("ib", 400, 1)),
        "1 x 200 Gbit/s RoCE": jobs["sharded, large"].what_if(cluster__fabric=fabric("roce", 200, 1)),
    })
)

# %% [markdown]
# ## 200 Gbit/s RoCE against 400 Gbit/s InfiniBand
#
# The ratio of step times, by cards a node. Without congestion it never exceeds the ratio of the line rates by more
# than the protocols differ.

# %%
cards = (1, 2, 4, 8)


def ratio(job, count, congestion=1.0):
    """Step time over RoCE at 200 Gbit/s, over that over InfiniBand at 400 Gbit/s."""
    return step(job, "roce", 200, count, congestion).step.time_s / step(job, "ib", 400, count).step.time_s


free = pd.DataFrame({name: {count: ratio(job, count) for count in cards} for name, job in jobs.items()})
free.rename_axis("cards a node").round(2)

# %% [markdown]
# ## With congestion
#
# Flows that a switch hashes onto the same uplink share it. Suppose that RoCE loses that way, and InfiniBand, with
# adaptive routing, does not. Congestion of 1.6 leaves RoCE 62.5 % of its line rate.

# %%
worse = (1.0, 1.25, 1.6, 2.0)
one_card = pd.DataFrame(
    {name: {congestion: ratio(job, 1, congestion) for congestion in worse} for name, job in jobs.items()}
)
one_card.rename_axis("congestion, 1 card a node").round(2)

# %%
eight_cards = pd.DataFrame(
    {name: {congestion: ratio(job, 8, congestion) for congestion in worse} for name, job in jobs.items()}
)
eight_cards.rename_axis("congestion, 8 cards a node").round(2)

# %% [markdown]
# ## When does 3.2 come out?
#
# The least congestion at which RoCE is 3.2 times slower, by bisection; none if even three-fold congestion is not
# enough.

# %%
CLAIM, MOST = 3.2, 3.0


def congestion_for(job, count, claim=CLAIM):
    """Least congestion of RoCE for a ratio of `claim`, or None if there is none up to `MOST`."""
    low, high = 1.0, MOST
    if ratio(job, count, high) < claim:
        return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if ratio(job, count, middle) >= claim else (middle, high)
    return high


needed = pd.DataFrame({name: {count: congestion_for(job, count) for count in cards} for name, job in jobs.items()})
needed.rename_axis("cards a node").round(2)

# %% [markdown]
# ## Answer

# %%
protocol = max(
    abs(row["roce", rate, 8].step.time_s / row["ib", rate, 8].step.time_s - 1)
    for row in steps.values()
    for rate in (200, 400)
)
large, small = (eight_cards[name].loc[1.0] for name in ("sharded, large", "sharded, small"))
share = 1 / needed["sharded, large"].loc[1]
print(
    f"Buy 8 cards a node: then 200 Gbit/s RoCE costs a 33B model {large - 1:.1%} of step time against 400 Gbit/s "
    f"InfiniBand at 4 sequences a GPU (but {small - 1:.0%} at 1), and the protocol alone at most {protocol:.1%}; "
    f"{CLAIM} times comes out with 1 card a node and RoCE that reaches {share:.0%} of its line rate, "
    f"{free['sharded, large'].loc[1]:.1f} times without that congestion."
)
