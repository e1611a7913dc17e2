"""Interest: level payments, present values (textbook annuity algebra, months as periods).

Payments fall at the end of each month; the first of n is discounted once. All functions broadcast over arrays.
"""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num


def monthly_rate(rate_per_year: Num) -> Num:
    """Monthly rate that compounds to `rate_per_year` [fraction per year, > -1]: (1 + r)^(1/12) - 1.

    >>> round(monthly_rate(0.10), 8)
    0.00797414
    """
    return plain(np.expm1(np.log1p(rate_per_year) / 12.0))


def discount(rate: Num, months: Num) -> Num:
    """Worth today of 1 USD paid `months` from now, at a monthly rate > -1.

    >>> round(discount(monthly_rate(0.10), 12), 6)
    0.909091
    """
    return plain(np.exp(-np.asarray(months) * np.log1p(rate)))


def present_worth_factor(rate: Num, months: Num) -> Num:
    """Worth today of 1 USD at the end of each of `months` >= 0: (1 - (1+i)^-n) / i, n if i is 0.

    >>> present_worth_factor(0.0, 48), round(present_worth_factor(monthly_rate(0.10), 48), 4)
    (48.0, 39.7518)
    """
    i = np.asarray(rate, dtype=float)
    safe = np.where(i == 0, 1.0, i)
    return plain(np.where(i == 0, np.asarray(months, dtype=float), -np.expm1(-np.asarray(months) * np.log1p(i)) / safe))


def annuity_factor(rate: Num, months: Num) -> Num:
    """Level monthly payment that pays back 1 USD in `months` > 0.

    >>> round(annuity_factor(monthly_rate(0.10), 48), 8)
    0.02515608
    """
    return plain(1.0 / present_worth_factor(rate, months))


def capital_charge(capital_usd: Num, resale_usd: Num, rate: Num, months: Num) -> Num:
    """Level monthly payment [USD] for capital that brings `resale_usd` after `months` > 0; rate per month.

    Without interest and resale it is capital / months.

    >>> round(capital_charge(17_058_080, 3_411_616, monthly_rate(0.10), 48), 2)
    370496.31
    >>> capital_charge(4800.0, 0.0, 0.0, 48)
    100.0
    """
    return plain((capital_usd - resale_usd * discount(rate, months)) * annuity_factor(rate, months))
