"""What SLAQ measures, on matrices of right and wrong answers (paper §3.1, equations 1 to 4; §4.2, Figure 3).

Rows are topics, columns the five facts in the order in which the long question asks for them: 1.0 right, 0.0 wrong, NaN
where there is no verdict. What rests on a cell without a verdict is NaN itself: a pair of which one half is unknown may be
aligned or not, and a run that reaches back to an unknown answer may be longer.
"""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def align(short: Matrix, long: Matrix) -> Matrix:
    """Return 1.0 where the short and the long answer are both right or both wrong, else 0.0 (equations 1 and 3)."""
    return np.where(np.isnan(short) | np.isnan(long), np.nan, short == long)


def sign_alignment(short: Matrix, long: Matrix) -> Matrix:
    """Return +1.0 where both are right, -1.0 where both are wrong, 0.0 where they differ (equation 4)."""
    return short + long - 1


def count_run(verdicts: Matrix, of: float) -> Matrix:
    """Return how many answers in a row, just before each one, have the verdict `of` (momentum, Figures 3b and 3c).

    The run is counted whole: 2 means two and no third before them. That is the paper's way: with "at least" both of its
    curves would begin at one figure, and they begin at 30 and 45 %. The first answer has none before it: NaN.
    """
    runs = np.full(verdicts.shape, np.nan)
    run = np.zeros(len(verdicts))
    for at in range(1, verdicts.shape[1]):
        before = verdicts[:, at - 1]
        run = np.where(np.isnan(before), np.nan, np.where(before == of, run + 1, 0))
        runs[:, at] = run
    return runs
