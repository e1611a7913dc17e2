"""Plain floats for scalars, arrays for arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simcluster.shapes import Num


def plain(value: Num) -> Num:
    """A Python float for a scalar of any kind, an array unchanged.

    >>> plain(np.float64(2)), plain(np.array([1.0, 2.0]))
    (2.0, array([1., 2.]))
    """
    return float(value) if np.ndim(value) == 0 else value


def total(values: Iterable[Num]) -> Num:
    """Sum of scalars and arrays that broadcast; 0.0 of nothing.

    >>> total([1, 2.0]), total([])
    (3.0, 0.0)
    """
    result: Num = 0.0
    for value in values:
        result = result + value
    return plain(result)
