"""Goldens of tests/data/statistics_test.cc, by other ways than the program's: Wilson limits by bisection on the score test
in 50-digit decimals, joined limits (Zou and Donner 2008) from those, bootstrap by numpy.

    python make_data_statistics.py        # writes tests/golden/data/statistics.json
"""

import json
from decimal import Decimal, getcontext
from pathlib import Path

import numpy

getcontext().prec = 50
NORMAL_975 = Decimal("1.95996398454005423552459443052055152795555007786954")


def score(passed, total, share):
    """Squared score statistic of the hypothesis that the share is `share`."""
    observed = Decimal(passed) / total
    return (observed - share) ** 2 * total / (share * (1 - share))


def limit(passed, total, outer):
    """The share between the observed one and `outer` (0 or 1) that the score test just does not reject."""
    near, far = Decimal(passed) / total, Decimal(outer)
    if near == far:
        return far
    for _ in range(120):
        middle = (near + far) / 2
        if score(passed, total, middle) < NORMAL_975**2:
            near = middle
        else:
            far = middle
    return near


def wilson(passed, total):
    return Decimal(passed) / total, limit(passed, total, 0), limit(passed, total, 1)


def mean_of_shares(groups):
    estimates = [wilson(*group) for group in groups]
    count = len(groups)
    mean = sum(p for p, _, _ in estimates) / count
    below = sum((p - low) ** 2 for p, low, _ in estimates).sqrt() / count
    above = sum((high - p) ** 2 for p, _, high in estimates).sqrt() / count
    return mean, max(Decimal(0), mean - below), min(Decimal(1), mean + above)


def bootstrap(groups, resamples=200_000):
    rng = numpy.random.default_rng(12)
    means = numpy.zeros(resamples)
    for group in groups:
        values = numpy.array(group)
        means += values[rng.integers(0, len(values), size=(resamples, len(values)))].mean(axis=1) / len(groups)
    mean = numpy.mean([numpy.mean(group) for group in groups])
    return (mean, *numpy.quantile(means, [0.025, 0.975]))


def seed_means(scores, rng, resamples):
    """Mean of drawn seeds for each resample and sample: [resamples, samples]."""
    seeds = scores.shape[0]
    counts = rng.multinomial(seeds, [1.0 / seeds] * seeds, size=resamples) / seeds
    return counts @ scores


def seed_difference(first, second, groups, resamples=100_000):
    """Difference of means over seeds and samples: samples drawn once for both, within groups where all have two or more."""
    rng = numpy.random.default_rng(21)
    first, second = numpy.array(first), numpy.array(second)
    weights = numpy.zeros(first.shape[1])
    for group in groups:
        weights[group] = 1.0 / (len(groups) * len(group))
    value = weights @ (second.mean(axis=0) - first.mean(axis=0))
    difference = seed_means(second, rng, resamples) - seed_means(first, rng, resamples)
    if min(len(group) for group in groups) > 1:
        draws = numpy.zeros(resamples)
        for group in groups:
            picks = rng.choice(numpy.array(group), size=(resamples, len(group)))
            draws += numpy.take_along_axis(difference, picks, axis=1).mean(axis=1) / len(groups)
    else:
        picks = rng.integers(0, len(weights), size=(resamples, len(weights)))
        taken = weights[picks]
        draws = (numpy.take_along_axis(difference, picks, axis=1) * taken).sum(axis=1) / taken.sum(axis=1)
    tail = min(int((draws <= 1e-12).sum()), int((draws >= -1e-12).sum())) + 1
    return {
        "estimate": numbers((value, *numpy.quantile(draws, [0.025, 0.975]))),
        "p_value": round(min(1.0, 2.0 * tail / (resamples + 1)), 6),
    }


def seed_cases(rng):
    def scores(seeds, share, samples):
        return (rng.random((seeds, samples)) < share).astype(float).tolist()

    even = [list(range(start, start + 6)) for start in range(0, 30, 6)]
    uneven = [[0, 1, 2, 3, 4, 5, 6], [7, 8], list(range(9, 20))]
    single = [[0], [1, 2, 3], list(range(4, 24))]
    cases = [
        (scores(1, 0.2, 30), scores(3, 0.6, 30), even),
        (scores(3, 0.5, 30), scores(3, 0.55, 30), even),
        (scores(2, 0.3, 20), scores(4, 0.5, 20), uneven),
        (scores(3, 0.3, 24), scores(1, 0.4, 24), single),
    ]
    return [
        {"first": a, "second": b, "groups": groups, **seed_difference(a, b, groups)} for a, b, groups in cases
    ]


def numbers(estimate):
    return [round(float(value), 12) for value in estimate]


def main():
    rng = numpy.random.default_rng(5)
    shares = [(0, 1), (1, 1), (0, 10), (3, 10), (10, 10), (5, 8), (1, 1000), (499, 1000)]
    group_lists = [
        [(0, 10)] * 20,
        [(10, 10), (0, 10), (5, 10)],
        [(int(rng.integers(0, 11)), 10) for _ in range(26)],
        [(7, 8)],
    ]
    value_lists = [
        [rng.integers(-1, 2, size=10).astype(float).tolist() for _ in range(12)],
        [rng.random(30).round(4).tolist(), rng.random(5).round(4).tolist()],
    ]
    golden = {
        "wilson": [{"passed": p, "total": n, "estimate": numbers(wilson(p, n))} for p, n in shares],
        "mean_of_shares": [{"groups": g, "estimate": numbers(mean_of_shares(g))} for g in group_lists],
        "bootstrap": [{"groups": g, "estimate": numbers(bootstrap(g))} for g in value_lists],
        "seeds": seed_cases(numpy.random.default_rng(9)),
    }
    path = Path(__file__).resolve().parents[2] / "tests" / "golden" / "data" / "statistics.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(golden) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
