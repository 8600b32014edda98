"""Made-up documents for the tests of the data pipeline."""

import numpy as np

_WORDS = """
the old café on corner opened again full by noon she paid nobody asked for change
captain said not today and crew went back to work river runs through town children
village learned read small red school every morning baker carried ten loaves up hill
"""


def _sentences():
    rng = np.random.default_rng(0)
    words = _WORDS.split()
    for length in rng.geometric(0.15, 400):
        yield " ".join(rng.choice(words, length + 1)).capitalize() + "."


SENTENCES = list(_sentences())


def make_documents(count, seed=0, sentences=(1, 30)):
    """Documents as lists of paragraphs, of one to three sentences each."""
    rng = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        drawn = rng.integers(len(SENTENCES), size=int(rng.integers(*sentences)))
        chosen = [SENTENCES[i] for i in drawn]
        cuts = np.cumsum(rng.integers(1, 4, len(chosen))).tolist()
        starts = [0, *(cut for cut in cuts if cut < len(chosen))]
        ends = [*starts[1:], len(chosen)]
        documents.append(
            [" ".join(chosen[b:e]) for b, e in zip(starts, ends, strict=True)]
        )
    return documents


def plain(documents):
    """The documents as the contents of a text file."""
    return "\n\n".join("\n".join(paragraphs) for paragraphs in documents) + "\n"
