"""How good vectors are: for similarity, for search and for clusters."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_albert.tasks.text_embedding.search import unit_rows
from keras_albert.utils.arguments import check_positive
from keras_albert.utils.environment import import_package


def similarity_scores(first: Any, second: Any, scores: Any) -> dict[str, float]:
    """Compare the cosines of pairs with their true similarities.

    Args:
        first: Float array `(pairs, width)`, the vectors of the first texts.
        second: Float array `(pairs, width)`, the vectors of the second texts.
        scores: A number for each pair, on any scale.

    Returns:
        A dict with `"Pearson"` and `"Spearman"`, the correlations; an empty one if all
        numbers of a side are equal.

    Raises:
        ImportError: If SciPy is not installed.
        ValueError: If the numbers of rows differ, or a score or vector is not finite.

    Example:
        >>> import numpy as np
        >>> from keras_albert.tasks import similarity_scores
        >>> first, second = np.eye(3), [[1, 0, 0], [1, 1, 0], [1, 0, 0]]
        >>> round(similarity_scores(first, second, [5, 4, 0])["Spearman"], 3)
        1.0
    """
    scores = np.asarray(scores, float)
    counts = len(first), len(second), len(scores)
    if len(set(counts)) > 1:
        raise ValueError(
            f"Each pair needs two vectors and a score. Received: {counts[0]} first "
            f"vectors, {counts[1]} second ones, {counts[2]} scores."
        )
    if len(bad := np.flatnonzero(~np.isfinite(scores))):
        msg = f"Row {bad[0]} has the score {scores[bad[0]]}. Drop it or correct it."
        raise ValueError(msg)
    cosines = np.sum(unit_rows(first) * unit_rows(second), axis=-1)
    return correlations(scores, cosines)


def correlations(truth: Any, answers: Any) -> dict[str, float]:
    """Return the correlations, none if all numbers of a side are equal."""
    stats = import_package("A correlation", "keras-albert[examples]", "scipy.stats")
    if np.ptp(truth) == 0 or np.ptp(answers) == 0:
        return {}
    return {
        "Pearson": float(stats.pearsonr(truth, answers).statistic),
        "Spearman": float(stats.spearmanr(truth, answers).statistic),
    }


def retrieval_scores(
    rows: Any, relevant: Sequence[Sequence[int] | set[int]], k: int = 10
) -> dict[str, float]:
    """Measure how high a search ranks the right answers, as a mean over queries.

    The definitions follow
    [sentence-transformers](https://sbert.net/docs/package_reference/sentence_transformer/evaluation.html)
    and, with relevance of 0 or 1, of trec_eval.

    Args:
        rows: Int array `(queries, n)`. The rows that were found, best first, as
            `search` returns them.
        relevant: For each query, the rows that answer it, at least one.
        k: int. How many answers count, except for the mean average precision, for
            which all `n` do. Defaults to `10`.

    Returns:
        A dict with `"nDCG@k"`, `"MRR@k"`, `"recall@k"` and `"MAP@n"`.

    Raises:
        ValueError: If the numbers of queries differ, a query has no answer, or `k` is
            below 1 or above `n`.

    Example:
        >>> from keras_albert.tasks import retrieval_scores
        >>> found = retrieval_scores([[2, 0, 1], [1, 2, 0]], [{0}, {1}], k=3)
        >>> {name: round(score, 3) for name, score in found.items()}
        {'nDCG@3': 0.815, 'MRR@3': 0.75, 'recall@3': 1.0, 'MAP@3': 0.75}
    """
    rows = np.asarray(rows)
    check_positive(k=k)
    if rows.ndim != 2 or len(rows) != len(relevant) or k > rows.shape[1]:
        raise ValueError(
            f"`relevant` has {len(relevant)} queries and `k` is {k}, so `rows` must "
            f"have the shape ({len(relevant)}, {k} or more). Received: {rows.shape}"
        )
    if empty := [row for row, each in enumerate(relevant) if not each]:
        msg = f"Query {empty[0]} has no right answer in `relevant`. Leave it out."
        raise ValueError(msg)
    right = [set(each) for each in relevant]
    found = zip(rows.tolist(), right, strict=True)
    hits = np.array([[row in each for row in ranked] for ranked, each in found], float)
    counts = np.array([len(each) for each in right])
    ranks = np.arange(1, rows.shape[1] + 1)
    discounts = 1 / np.log2(ranks[:k] + 1)
    best = np.cumsum(discounts)[np.minimum(counts, k) - 1]
    precisions = np.cumsum(hits, axis=1) / ranks * hits
    scores = {
        f"nDCG@{k}": hits[:, :k] @ discounts / best,
        f"MRR@{k}": (hits / ranks)[:, :k].max(1),
        f"recall@{k}": hits[:, :k].sum(1) / counts,
        f"MAP@{len(ranks)}": precisions.sum(1) / np.minimum(counts, len(ranks)),
    }
    return {name: float(each.mean()) for name, each in scores.items()}


def clustering_scores(
    vectors: Any, labels: Sequence[Any], seed: int = 0
) -> dict[str, float]:
    """Find as many clusters as there are labels, and compare them with the labels.

    Args:
        vectors: Float array `(texts, width)`.
        labels: A label for each text.
        seed: int. The seed of k-means, whose best of 10 runs counts. Defaults to `0`.

    Returns:
        A dict with `"homogeneity"`, `"completeness"` and their harmonic mean,
        `"V-measure"` ([Rosenberg and Hirschberg,
        2007](https://aclanthology.org/D07-1043/)).

    Raises:
        ImportError: If scikit-learn is not installed.
        ValueError: If the numbers of vectors and labels differ.

    Example:
        >>> from keras_albert.tasks import clustering_scores
        >>> vectors = [[0, 1], [0.1, 1], [1, 0], [1, 0.1]]
        >>> clustering_scores(vectors, ["sea", "sea", "dog", "dog"])["V-measure"]
        1.0
    """
    if len(vectors) != len(labels):
        msg = f"There are {len(vectors)} vectors, but {len(labels)} labels."
        raise ValueError(f"{msg} Each text needs one of each.")
    what, extra = "`clustering_scores`", "keras-albert[examples]"
    cluster = import_package(what, extra, "sklearn.cluster")
    metrics = import_package(what, extra, "sklearn.metrics")
    means = cluster.KMeans(len(set(labels)), n_init=10, random_state=seed)
    found = means.fit_predict(np.asarray(vectors))
    scores = metrics.homogeneity_completeness_v_measure(labels, found)
    names = ("homogeneity", "completeness", "V-measure")
    return dict(zip(names, map(float, scores), strict=True))
