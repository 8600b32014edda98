"""The checks that all tasks pass; each task's own file has the rest."""

from tests.one_backend import on_one_backend
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
from tests.tasks.task_checks import check_task


def test_classifier(make_classifier, toy, tmp_path):
    texts, labels = toy
    check_task(make_classifier(), texts[:12], labels[:12], tmp_path)


@on_one_backend
def test_regression(make_classifier, toy, tmp_path):
    texts, _ = toy
    scores = [len(text) / 20 for text in texts[:12]]
    check_task(make_classifier(num_classes=1), texts[:12], scores, tmp_path)


def test_multiple_choice(toy_proto, tmp_path):
    x, y = toy_questions(8)
    check_task(small_chooser(toy_proto), x, y, tmp_path)


@on_one_backend
def test_embedder_of_pairs_with_similarities(tmp_path):
    """With a WordPiece vocabulary."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, "lamp", "##s", "bread", "rain", "st", "##or", "##m"]
    x, y = toy_pairs(8)
    check_task(small_embedder(pieces), x, y, tmp_path)


def test_embedder_of_pairs_alone(toy_proto, tmp_path):
    x, _ = toy_pairs(8)
    embedder = small_embedder(toy_proto, objective="contrastive", normalize=False)
    check_task(embedder, x, None, tmp_path)


def test_masked_lm(toy_proto, toy, tmp_path):
    texts = [f"{text} [MASK]" for text in toy[0][:12]]
    check_task(make_masked_lm(toy_proto), texts, None, tmp_path)


def test_pretrainer(toy_proto, toy, tmp_path):
    pairs = (toy[0][:12], toy[0][12:24])
    check_task(make_pretrainer(toy_proto), pairs, None, tmp_path)


def test_token_classifier(toy_proto, tmp_path):
    x, y = toy_tags(8)
    check_task(small_tagger(toy_proto, num_classes=2), x, y, tmp_path)


def test_question_answerer(toy_proto, tmp_path):
    x, y = toy_reading(6)
    check_task(small_reader(toy_proto), x, y, tmp_path)


@on_one_backend
def test_question_answerer_with_the_conditional_head(toy_proto, tmp_path):
    x, y = toy_reading(6)
    check_task(small_reader(toy_proto, head="conditional"), x, y, tmp_path)
