"""The peak among the moments of a step that compete for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from simcluster.memory.arrays import total
from simcluster.shapes import Num


def peak_moment(moments: Sequence[Mapping[str, Num]]) -> dict[str, Num]:
    """Components of the moment with the largest sum; the first one where sums are equal.

    Each moment maps components to bytes (scalars or arrays that broadcast); the choice is made element by element, and
    a component that a chosen moment lacks is 0. The components sum to the largest of the moments' sums.

    >>> peak_moment([{"logits": 5.0}, {"recompute": 2.0, "backward": 1.0}])
    {'logits': 5.0, 'recompute': 0.0, 'backward': 0.0}
    """
    totals = np.stack(np.broadcast_arrays(*(total(moment.values()) for moment in moments)))
    chosen = np.argmax(totals, axis=0)
    names = dict.fromkeys(name for moment in moments for name in moment)
    return {
        name: total(np.where(chosen == index, moment.get(name, 0.0), 0.0) for index, moment in enumerate(moments))
        for name in names
    }
