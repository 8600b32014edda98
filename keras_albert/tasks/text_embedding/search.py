"""Search by vectors, exact or with an index; hard negatives; and scores of vectors."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_albert.text.reading import text_columns
from keras_albert.types import FloatArray, Int64Array
from keras_albert.utils.arguments import check_at_least, check_positive
from keras_albert.utils.environment import import_package

# The scores that are computed at a time: 256 x 16384 are 16 MB.
_CORPUS_ROWS, _QUERIES = 2**14, 2**8


def unit_rows(vectors: Any) -> FloatArray:
    """Return vectors with length 1, so that dot products are cosines."""
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.dtype.kind in "OSU":
        raise ValueError(
            "Vectors must be an array of numbers (texts, width), as `embed` returns "
            f"for a list of texts. Received: dtype={vectors.dtype}, "
            f"shape={vectors.shape}"
        )
    vectors = vectors.astype(np.float32, copy=False)
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if len(bad := np.flatnonzero(~np.isfinite(lengths))):
        msg = f"The vector of row {bad[0]} is not finite. Embed it again, or drop it."
        raise ValueError(msg)
    return vectors / np.maximum(lengths, np.finfo("float32").tiny)


def search(corpus: Any, queries: Any, top_k: int = 10) -> tuple[Int64Array, FloatArray]:
    """Find the vectors with the highest cosines to each query.

    The search is exact, and computes a block of scores at a time: besides both arrays,
    of which the corpus may be a `numpy.memmap`, it needs some 100 MB.

    Args:
        corpus: Float array `(texts, width)`; or an index of faiss over vectors of
            length 1, as `build_index` returns it.
        queries: Float array `(queries, width)`.
        top_k: int. How many to find, at most all. Defaults to `10`.

    Returns:
        Their rows in the corpus, int64 `(queries, top_k)`, best first; and their
        cosines, float32 of this shape. An index may find less than `top_k`: the other
        rows are -1.

    Raises:
        ValueError: If the widths of the vectors differ, or `top_k` is below 1.

    Example:
        >>> import numpy as np
        >>> from keras_albert.tasks import search
        >>> rows, cosines = search(np.eye(3), [[0.6, 0.8, 0.0]], top_k=2)
        >>> rows, cosines
        (array([[1, 0]]), array([[0.8, 0.6]], dtype=float32))
    """
    check_positive(top_k=top_k)
    queries = unit_rows(queries)
    is_index = hasattr(corpus, "ntotal")
    corpus = corpus if is_index or hasattr(corpus, "shape") else np.asarray(corpus)
    width = corpus.d if is_index else corpus.shape[-1]
    if width != queries.shape[1]:
        raise ValueError(
            f"The vectors of the corpus have width {width}, but the queries have width "
            f"{queries.shape[1]}. Embed both with the same model and the same `dim`."
        )
    if is_index:
        scores, rows = corpus.search(queries, min(top_k, corpus.ntotal))
        return rows, scores
    nothing = np.zeros((len(queries), 0))
    rows, scores = nothing.astype(np.int64), nothing.astype(np.float32)
    for begin in range(0, len(corpus), _CORPUS_ROWS):
        block = unit_rows(corpus[begin : begin + _CORPUS_ROWS])
        found = [
            _best(queries[start : start + _QUERIES] @ block.T, top_k)
            for start in range(0, max(1, len(queries)), _QUERIES)
        ]
        new_rows, new_scores = map(np.concatenate, zip(*found, strict=True))
        rows = np.concatenate([rows, new_rows + begin], axis=1)
        scores = np.concatenate([scores, new_scores], axis=1)
        order = np.lexsort((rows, -scores))[:, :top_k]
        rows, scores = (np.take_along_axis(x, order, axis=1) for x in (rows, scores))
    return rows, scores


def _best(scores: FloatArray, top_k: int) -> tuple[Int64Array, FloatArray]:
    """Return the columns of the highest scores of each row, in any order."""
    if top_k < scores.shape[1]:
        columns = np.argpartition(scores, -top_k, axis=1)[:, -top_k:]
    else:
        columns = np.tile(np.arange(scores.shape[1]), (len(scores), 1))
    return columns, np.take_along_axis(scores, columns, axis=1)


def build_index(corpus: Any) -> Any:
    """Return an index for approximate search in large collections.

    It is an HNSW graph of [faiss](https://faiss.ai) with 32 neighbours a text ([Malkov
    and Yashunin, 2016](https://arxiv.org/abs/1603.09320)), which `faiss.write_index`
    saves. `search` takes any index of faiss over vectors of length 1.

    Args:
        corpus: Float array `(texts, width)`.

    Returns:
        A `faiss.IndexHNSWFlat`.

    Raises:
        ImportError: If faiss is not installed.
        ValueError: If the vectors are not an array of two axes.

    Example:
        >>> import numpy as np
        >>> from keras_albert.tasks import build_index, search
        >>> index = build_index(np.eye(3))
        >>> search(index, [[0.6, 0.8, 0.0]], top_k=2)
        (array([[1, 0]]), array([[0.8, 0.6]], dtype=float32))
    """
    faiss = import_package("`build_index`", "faiss-cpu", "faiss")
    index = faiss.IndexHNSWFlat(corpus.shape[-1], 32, faiss.METRIC_INNER_PRODUCT)
    for begin in range(0, len(corpus), _CORPUS_ROWS):
        index.add(unit_rows(corpus[begin : begin + _CORPUS_ROWS]))
    return index


def mine_hard_negatives(
    embed: Callable[[list[str]], Any],
    x: Any,
    corpus: Sequence[str] | None = None,
    num_negatives: int = 1,
    *,
    skip: int = 0,
    margin: float = 0.05,
    depth: int = 100,
) -> tuple[list[str], ...]:
    """Find wrong answers that look right to a model, to train on as negatives.

    The method is TopK-PercPos ([de Souza P. Moreira et al.,
    2024](https://arxiv.org/abs/2407.15831)): a text that is nearly as similar as the
    right answer may be right too, and is left out.

    Args:
        embed: Callable. A function from texts to vectors, such as a model's `embed`.
        x: Pairs `(first, second)`. The second texts of equal first ones are all right.
        corpus: Sequence of string or `None`. The texts to choose from. Defaults to
            `None`, the second texts.
        num_negatives: int. How many to find for each pair. Defaults to `1`.
        skip: int. How many of the texts nearest to a first text to leave out. Defaults
            to `0`.
        margin: float. A negative has at most the cosine of the pair, less this share of
            it. Defaults to `0.05`.
        depth: int. How many of the nearest texts to look at. Defaults to `100`.

    Returns:
        Columns `(first, second, wrong, ...)` for `AlbertTextEmbedder.fit`, without the
        pairs for which there are not enough negatives.

    Raises:
        ValueError: If `x` does not have pairs, or a number is too low.

    Example:
        >>> from keras_albert import AlbertTextEmbedder
        >>> from keras_albert.tasks import mine_hard_negatives
        >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
        >>> questions = ["where is my parcel?", "how do I reset my password?"]
        >>> answers = ["the parcel is on its way", "click on forgotten password"]
        >>> columns = mine_hard_negatives(embedder.embed, (questions, answers))
        >>> columns[2]
        ['click on forgotten password', 'the parcel is on its way']
    """
    check_positive(num_negatives=num_negatives, depth=depth)
    check_at_least(0, skip=skip)
    columns, batched = text_columns(x)
    if len(columns) != 2 or not batched:
        raise ValueError("`x` must be pairs: a tuple of two lists `(first, second)`.")
    right: dict[str, set[str]] = {}
    for anchor, answer in zip(*columns, strict=True):
        right.setdefault(anchor, {anchor}).add(answer)
    texts = list(dict.fromkeys(columns[1] if corpus is None else corpus))
    vectors = unit_rows(embed(columns[0]))
    cosines = np.sum(vectors * unit_rows(embed(columns[1])), axis=-1)
    limits = cosines - margin * np.abs(cosines)
    rows, scores = search(unit_rows(embed(texts)), vectors, depth)
    mined = []
    for number, pair in enumerate(zip(*columns, strict=True)):
        near = rows[number, skip:][scores[number, skip:] <= limits[number]]
        found = [texts[row] for row in near if texts[row] not in right[pair[0]]]
        if len(found) >= num_negatives:
            mined.append((*pair, *found[:num_negatives]))
    empty: tuple[list[str], ...] = tuple([] for _ in range(2 + num_negatives))
    return tuple(map(list, zip(*mined, strict=True))) or empty


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
