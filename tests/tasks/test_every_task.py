"""The checks that all tasks pass; each task's own file has the rest."""

from tests.tasks.task_checks import check_task


def test_classifier(make_classifier, toy, tmp_path):
    texts, labels = toy
    check_task(make_classifier(), texts[:12], labels[:12], tmp_path)


def test_regression(make_classifier, toy, tmp_path):
    texts, _ = toy
    scores = [len(text) / 20 for text in texts[:12]]
    check_task(make_classifier(num_classes=1), texts[:12], scores, tmp_path)
