"""Which label next: how much a review of each image is expected to bring.

An answer is worth the bits it resolves, times how much is left to learn about images like this one:
those with the same proposal. The second answer about them is worth half, the third a third, and
so on; so reviews are spread over the proposals by how uncertain each is. This is uncertainty
sampling with a density weight (Settles and Craven, EMNLP 2008) and a spread over groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def gains(proposals: NDArray[np.int64], entropies: Floats) -> Floats:
    """Return the expected gain of each review; the highest is asked first.

    >>> gains(np.array([7, 7, 7, 9]), np.array([1.0, 0.5, 0.5, 1.5])).round(2).tolist()
    [2.0, 0.5, 0.33, 2.25]
    """
    _, group = np.unique(proposals, return_inverse=True)
    uncertain = np.bincount(group, weights=entropies)  # bits, of all images alike
    order = np.lexsort((-entropies, group))  # stable: of equal images the first comes first
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rank = np.empty(len(group), np.int64)
    rank[order] = np.arange(len(group)) - starts
    return np.asarray(entropies * uncertain[group] / (1 + rank))
