"""Two published accountants answer the questions on standard input, one JSON document a line: what
other people's mathematics says of the same losses.
"""

import json
import sys

import dp_accounting
from autodp import dp_bank
from dp_accounting import rdp
from dp_accounting.pld import PLDAccountant


def composed(sigmas, scales):
    """Gaussian noise of each sigma and Laplace noise of each scale, at sensitivity 1."""
    events = [dp_accounting.GaussianDpEvent(s) for s in sigmas] + [
        dp_accounting.LaplaceDpEvent(b) for b in scales
    ]
    return dp_accounting.ComposedDpEvent(events)


def answer(question):
    sigmas, scales, delta = question["sigmas"], question["scales"], question["delta"]
    event = composed(sigmas, scales)
    result = {
        "pld": PLDAccountant(value_discretization_interval=1e-4).compose(event).get_epsilon(delta)
    }
    if len(sigmas) == 1 and not scales:
        result["analytic"] = dp_accounting.get_epsilon_gaussian(sigmas[0], delta)
        result["autodp"] = float(dp_bank.get_eps_ana_gaussian(sigmas[0], delta))
    if not scales:
        result["rdp"] = rdp.RdpAccountant().compose(event).get_epsilon(delta)
    return result


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
