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
# # Build or rent 256 B200?
#
# A team needs 256 B200s (32 DGX nodes) to train 13B models. A rule of thumb says that such a cluster costs
# 8 to 12 M USD and draws 120 to 150 kW, and that building pays after six months. Does it?
#
# All prices are those of the catalogue, dated and with their sources; `acquire.own.price` and the like take a
# quotation instead.

# %%
import pandas as pd

from simcluster import compare, evaluate, load
from simcluster.data import data_root
from simcluster.reports import frames
from simcluster.reports.records import evaluation_record

job = load(data_root("examples") / "llama-2-13b-64xb200.yaml").set("cluster.nodes=32", "training.tokens=2T")
designs = {
    "own": job.what_if(acquire={"own": {}}),
    **{term: job.what_if(acquire={"rent": {"term": term}}) for term in ("on-demand", "1y", "3y", "spot")},
}
own = evaluate(designs["own"])
cost = evaluation_record(own)["cost"]

# %% [markdown]
# ## The run: days, interruptions, watts

# %%
frames.part(own, "run")

# %%
frames.part(own, "power")

# %% [markdown]
# ## What a month of owning costs
#
# Capital is the annuity of what is paid at the start, less what is got back at the end.

# %%
monthly = pd.Series(cost["monthly_usd"], name="USD a month").to_frame()
monthly["share"] = monthly["USD a month"] / monthly["USD a month"].sum()
monthly.round(3)

# %%
money = frames.assumptions(own)
money[money.index.str.startswith(("acquire", "facility", "use"))]

# %% [markdown]
# ## Owning against renting
#
# USD for a GPU-hour that is there, at work, and at useful work; 80 % interval for the cost of a million tokens.
# `total_usd_alone` is the whole bill if this run is all that the machines ever do.

# %%
comparison = compare(designs)
table = frames.candidates(comparison)
table[[key for key in table.columns if key.startswith("cost.usd_per") or key.startswith("cost.total")]].T

# %% [markdown]
# ## How long are the machines needed?
#
# Bought machines that are sold early lose much of their price; the longer they are used, the cheaper an hour gets.
# The last column is the rent of a used GPU-hour at which both cost the same.

# %%
MONTHS = (6, 12, 24, 36, 48)


def horizon(months, **changes):
    """The cost part of owning for so many months."""
    changed = designs["own"].what_if({"use.horizon": f"{months} months"}, **changes)
    return evaluation_record(evaluate(changed))["cost"]


by_month = {months: horizon(months) for months in MONTHS}
pd.DataFrame({
    months: {
        "own, USD/GPU-h used": one["usd_per_gpu_hour_used"],
        "rent, USD/GPU-h used": one["break_even"]["rival_usd_per_gpu_hour"],
        "break-even rent": one["break_even"]["rent_usd_per_gpu_hour"],
    }
    for months, one in by_month.items()
}).T.rename_axis("months").round(2)

# %% [markdown]
# ## What moves the answer?
#
# One assumption at a time, on four years.

# %%
changes = {
    "as assumed": {},
    "node 20 % dearer": {"acquire__own__price": "552000 USD/node"},
    "nothing back at the end": {"acquire__own__residual": 0},
    "half of the hours used": {"use__hours": "50%"},
    "capital at 15 %": {"acquire__own__wacc": "15%"},
    "electricity at 0.20 USD/kWh": {"facility__electricity": "0.20 USD/kWh"},
}
moved = {name: horizon(48, **change)["usd_per_gpu_hour_used"] for name, change in changes.items()}
pd.Series(moved, name="own, USD/GPU-h used").to_frame().round(2)

# %% [markdown]
# ## Answer

# %%
rent = cost["break_even"]["rival_usd_per_gpu_hour"]
levels = {months: one["break_even"]["rent_usd_per_gpu_hour"] for months, one in by_month.items()}
verdict = "Build" if levels[48] < rent else "Rent"
shortest = next((months for months in MONTHS if levels[months] < rent), None)
kept = by_month[48]["break_even"]["month_without_resale"]
print(
    f"{verdict} for four years: an owned GPU-hour at work costs {levels[48]:.2f} USD, one on demand {rent:.2f}; "
    f"owning is cheaper from {shortest or 'no'} months of use on if the machines can be sold then "
    f"({f'{kept:.0f}' if kept else 'never'} if not), renting below {levels[6]:.2f} USD for six months and below "
    f"{levels[48]:.2f} for four years; it takes {cost['capital_usd'] / 1e6:.1f} M USD and "
    f"{own.power.it_average_w / 1e3:.0f} kW, not 8 to 12 M USD and 120 to 150 kW."
)
