"""Every value out of range is named once, arrays and NaN too."""

import math

import numpy as np
import pytest

from simcluster.economics.checks import problems_of, refuse
from simcluster.errors import InputError


def test_all_problems_at_once():
    ranges = [
        ("a", -1.0, 0.0, math.inf),
        ("b", math.nan, 0.0, 1.0),
        ("c", 0.5, 0.0, 1.0),
        ("d", np.array([1, 3]), 0, 2),
    ]
    found = problems_of(ranges, [("e", 0), ("f", math.inf), ("g", 1)])
    assert [p.message.split(":")[0] for p in found] == ["a", "b", "d", "e", "f"]
    with pytest.raises(InputError) as caught:
        refuse(found)
    assert len(caught.value.problems) == 5


def test_good_values_pass():
    refuse(problems_of([("a", 0.0, 0.0, 1.0)], [("b", np.array([1.0, 2.0]))]))
