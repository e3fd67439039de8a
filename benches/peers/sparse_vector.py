"""The epsilon of monitors next to autodp's accountant of the sparse vector technique: the numbers
of mechanism::above_threshold::tests::the_law_is_within_what_autodp_allows.

    python3 -m venv venv && venv/bin/pip install autodp==0.2.3.1
    venv/bin/python benches/peers/sparse_vector.py

autodp's LaplaceSVT with scale b and one positive answer has a threshold with Laplace noise of scale
b, and questions with noise of scale 2 b. At b = 2 / epsilon these are pgveil's noises for sums that
may move either way: 2 / epsilon and 4 / epsilon. Printed are the epsilon that autodp certifies and
its bounds on the Renyi divergence of some orders, and next to each the same of the exact law: forty
sums that all fall but the last, which rises, 1.17 sensitivities below or above a threshold. autodp
has no accountant for sums that all move one way, with half of the questions' noise.
"""

import warnings

import numpy as np
from autodp.mechanism_zoo import LaplaceSVT_Mechanism

QUESTIONS, ORDERS = 40, (2, 4, 16, np.inf)


def above(distance, scale):
    """The chance that Laplace noise is at least this."""
    tail = np.exp(-np.abs(distance) / scale) / 2
    return np.where(distance > 0, tail, 1 - tail)


def law(sums, threshold, epsilon, of_question=4):
    """The chances of each course: above at the first question, at the second, ..., never."""
    scale = 2 / epsilon
    drawn = np.linspace(-45 * scale, 45 * scale, 400_001)
    chance = np.exp(-np.abs(drawn) / scale) / (2 * scale) * (drawn[1] - drawn[0])
    found = []
    for value in sums:
        is_above = above(threshold + drawn - value, of_question / epsilon)
        found.append((chance * is_above).sum())
        chance = chance * (1 - is_above)
    return np.array([*found, chance.sum()])


def divergence(one, other, order):
    if np.isinf(order):
        return np.log(one / other).max()
    return np.log((one**order * other ** (1 - order)).sum()) / (order - 1)


def main():
    warnings.simplefilter("ignore")
    one = [1.0] * (QUESTIONS - 1) + [0.0]
    other = [0.0] * (QUESTIONS - 1) + [1.0]
    for epsilon in (0.5, 1.0, 2.0):
        autodp = LaplaceSVT_Mechanism({"b": 2 / epsilon, "k": QUESTIONS, "c": 1})
        print(f"epsilon {epsilon:g}: autodp certifies {autodp.get_approxDP(0):.6f}")
        laws = [law(sums, 7 / 6, epsilon) for sums in (one, other)]
        for order in ORDERS:
            exact = max(divergence(*laws, order), divergence(*laws[::-1], order))
            print(f"  order {order:g}: {autodp.RenyiDP(order):.6f}, exact law {exact:.6f}")
        half = [law(sums, 7 / 6, epsilon, of_question=2) for sums in (one, other)]
        worst = max(divergence(*half, np.inf), divergence(*half[::-1], np.inf))
        print(f"  with half of the questions' noise: {worst:.6f}")


if __name__ == "__main__":
    main()
