"""Rules by which texts leave a classifier, and the quality that they leave."""

import argparse

import numpy as np
from exit_runtimes import predict

NUMBERS = {"num_layers": int, "patience": int, "threshold": float, "tolerance": float}
THRESHOLDS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)
TOLERANCES = (0.02, 0.05, 0.1, 0.2, 0.5)
METRICS = ("accuracy", "Matthews", "Spearman", "Pearson")


def read(path, classifier, limit=None):
    """Return the texts as a list of columns, and their targets as in the file."""
    from keras_albert.tools.tasks import TASKS

    kind = TASKS["regression" if classifier.is_regression else "classification"]
    names = ("text_column", "text_pair_column", "label_column")
    data = kind.read(path, argparse.Namespace(limit=limit, **dict.fromkeys(names)))
    return list(data.x) if isinstance(data.x, tuple) else [data.x], data.y


def take(data, rows):
    columns, y = data
    return [[column[row] for row in rows] for column in columns], [y[n] for n in rows]


def quality(classifier, metric, y, outputs):
    from scipy import stats
    from sklearn.metrics import matthews_corrcoef

    truth = np.ravel(classifier.encode_targets(y))
    is_score = classifier.is_regression
    answers = outputs[:, 0] if is_score else outputs.argmax(axis=-1)
    if metric == "accuracy":
        return float(np.mean(truth == answers))
    if metric == "Matthews":
        return float(matthews_corrcoef(truth, answers))
    find = stats.spearmanr if metric == "Spearman" else stats.pearsonr
    return float(find(truth, answers).statistic)


def parse_rule(words):
    rule = {}
    for word in words.split(","):
        name, _, value = word.partition("=")
        if name not in NUMBERS:
            known = ", ".join(NUMBERS)
            raise argparse.ArgumentTypeError(f"{word!r} sets none of {known}")
        rule[name] = NUMBERS[name](value)
    # `tolerance` last: the first number names the kind.
    return {name: rule[name] for name in NUMBERS if name in rule}


def describe(rule):
    return ", ".join(f"{k}={v:g}" for k, v in rule.items()) or "all layers"


def families(classifier):
    """Return the rules that are tried, in lists of which one of each is chosen."""
    layers = classifier.backbone.num_layers
    patiences = [{"patience": n} for n in range(1, layers - 1)]
    thresholds = [{"threshold": p} for p in THRESHOLDS]
    if classifier.is_regression:
        patiences = [p | {"tolerance": t} for p in patiences for t in TOLERANCES]
        thresholds = []
    return [[{"num_layers": n} for n in range(1, layers)], patiences, thresholds]


def choose(classifier, data, metric, points):
    """Return of each family the rule with the fewest layers that is good enough."""
    columns, y = data

    def try_rule(rule):
        outputs, depths = predict(classifier, columns, **rule)
        return float(depths.mean()), quality(classifier, metric, y, outputs), rule

    _, whole, _ = try_rule({})
    print(f"chosen on {len(y)} texts, where all layers have {metric} {whole:.4f}:")
    chosen = []
    for family in families(classifier):
        tried = map(try_rule, family)
        # An undefined correlation is not good enough.
        good = [each for each in tried if each[1] >= whole - points / 100 - 1e-9]
        if good:
            depth, value, rule = min(good, key=lambda each: each[0])
            print(f"{describe(rule)}, {metric} {value:.4f}, depth {depth:.2f}")
            chosen.append(rule)
        elif family:
            print(f"no {next(iter(family[0]))} within {points:g} points")
    return chosen
