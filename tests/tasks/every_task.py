"""Each task, small, with data that it learns from."""

from tests.tasks.masked_lm.masked_lm_models import make_masked_lm, make_pretrainer
from tests.tasks.question_answering.small_reader import small_reader, toy_reading
from tests.tasks.small_models import (
    small_chooser,
    small_embedder,
    small_tagger,
    toy_pairs,
    toy_questions,
    toy_tags,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORD_PIECES = [*SPECIAL, "lamp", "##s", "bread", "rain", "st", "##or", "##m"]


def cases(make=None, proto=None, toy=((), ())):
    """A function that makes the task, and the data, by name."""
    texts, labels = (column[:12] for column in toy)
    (pairs, similarities), reading = toy_pairs(8), toy_reading(6)
    alone = {"objective": "contrastive", "normalize": False}
    masks = [f"{text} [MASK]" for text in texts]
    return {
        "classifier": (make, texts, labels),
        "exits": (lambda: make(exits=True), texts, labels),
        "regression": (lambda: make(1), texts, [len(text) / 20 for text in texts]),
        "multiple_choice": (lambda: small_chooser(proto), *toy_questions(8)),
        "similarities": (lambda: small_embedder(WORD_PIECES), pairs, similarities),
        "pairs": (lambda: small_embedder(proto, **alone), pairs, None),
        "masked_lm": (lambda: make_masked_lm(proto), masks, None),
        "pretrainer": (lambda: make_pretrainer(proto), (texts, texts[::-1]), None),
        "token_classifier": (lambda: small_tagger(proto, num_classes=2), *toy_tags(8)),
        "question_answerer": (lambda: small_reader(proto), *reading),
        "conditional": (lambda: small_reader(proto, head="conditional"), *reading),
    }


# One of each class, for what the options of a task do not change.
CLASSES = (
    *("classifier", "multiple_choice", "pairs", "masked_lm", "pretrainer"),
    *("token_classifier", "conditional"),
)
