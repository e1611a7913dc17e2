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
# # A first look
#
# Does LLaMA 65B train faster on 512 A100s over InfiniBand or over RoCE, both with 200 Gbit/s a GPU?
# And what would help more than choosing between them?

# %%
from simcluster import compare, evaluate, load
from simcluster.data import data_root
from simcluster.reports import frames, plots

examples = data_root("examples")
infiniband = load(examples / "llama-65b-512xa100.yaml")
roce = load(examples / "llama-65b-512xa100-roce.yaml")

# %% [markdown]
# A comparison shows its verdict first, then what differs in the inputs, then results and causes.

# %%
comparison = compare(infiniband, roce)
comparison

# %% [markdown]
# ## Where a step goes
#
# The waterfall takes one cause of loss away after the other, down to the FLOPs of the model at the GPU's peak rate.

# %%
evaluation = evaluate(infiniband)
frames.waterfall(evaluation)

# %%
plots.waterfall(evaluation)

# %% [markdown]
# ## The step as a timeline
#
# A row for each pipeline stage, a box for each micro-batch; below them gradients and parameters on the wire.
# The white gaps are the pipeline bubble.

# %%
plots.step_timeline(evaluation)

# %%
spans = frames.timeline(evaluation)
compute = spans[spans["stream"] == "compute"]
busy = (compute["end_s"] - compute["start_s"]).groupby(compute["stage"]).sum() / evaluation.step.time_s
busy.rename("busy share of the step")

# %% [markdown]
# ## Memory of each stage

# %%
plots.memory(evaluation)

# %% [markdown]
# ## What if?
#
# Any value can be changed by its dotted path. Here: smaller micro-batches, and virtual stages that shorten the bubble.

# %%
changed = {
    "as it is": infiniband,
    "micro-batch 2": infiniband.set("training.micro_batch=2"),
    "four virtual stages": infiniband.set("training.parallelism.virtual_stages=4"),
}
levers = compare(changed)
frames.candidates(levers)[["step.time_s", "step.mfu", "memory.peak_bytes", "delta.step_time_s.relative"]]

# %%
plots.comparison_waterfalls(levers)

# %% [markdown]
# ## Answer

# %%
fabric = comparison.candidates[1].delta["step_time_s"].relative
lever = min(levers.candidates, key=lambda one: one.evaluation.step.time_s)
gain = 1 - lever.evaluation.step.time_s / evaluation.step.time_s
print(
    f"The two fabrics differ by {abs(fabric):.2%} of a step of {evaluation.step.time_s:.1f} s; "
    f"with {lever.name} it would be {gain:.1%} shorter."
)
