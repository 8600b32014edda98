"""How a question answerer answers: the part behind the model's outputs."""

from typing import Any

import numpy as np

from keras_albert.tasks.question_answering.null_threshold import best_null_threshold
from keras_albert.tasks.question_answering.span_search import (
    SpanCandidates,
    span_candidates,
)
from keras_albert.tasks.question_answering.squad_scores import question_scores
from keras_albert.text.packing.examples import check_counts
from keras_albert.text.question_answering.read_targets import read_answers
from keras_albert.utils.arguments import check_positive

# Candidates to keep of each window, as in the reference; more if more are asked for.
_N_BEST = 20


class Answering:
    """Answers from logits, as a mixin that stands before `AlbertTask`."""

    preprocessor: Any
    predict: Any
    end_n_top: int
    null_threshold: float | None

    def answer(
        self,
        question: Any,
        context: Any,
        top_k: int = 1,
        max_answer_length: int = 30,
        batch_size: int | None = None,
    ) -> Any:
        """Answer questions for a person to read.

        Args:
            question: string, or a list of them.
            context: string of any length, or a list of as many.
            top_k: int. How many answers to give to each. Defaults to `1`.
            max_answer_length: int. The most tokens in an answer. Defaults to `30`.
            batch_size: int. Windows in a batch. Defaults to `None`, 32.

        Returns:
            For one question a dict of `answer`, `score`, a probability, `start` and
            `end`, where `context[start:end]` is the answer; for many a list of them;
            with `top_k` above 1 a list of dicts, the likeliest first, in place of
            each. "No answer" is an empty `answer` with `start` and `end` 0. It comes
            where `null_threshold` says so, or a context has nothing that is seen.

        Raises:
            ValueError: If the model has no preprocessor, a number is below 1, or a
                row is wrong.
        """
        check_positive(top_k=top_k, max_answer_length=max_answer_length)
        (questions, contexts), batched = self._texts(question, context)
        if not questions:
            return []
        found = self._search(
            (questions, contexts), max(top_k, _N_BEST), max_answer_length, batch_size
        )
        answers = [
            self._rank(found, row, text)[:top_k] for row, text in enumerate(contexts)
        ]
        best = answers if top_k > 1 else [ranked[0] for ranked in answers]
        return best if batched else best[0]

    def choose_null_threshold(
        self,
        x: Any,
        y: Any,
        max_answer_length: int = 30,
        batch_size: int | None = None,
    ) -> float:
        """Choose `null_threshold` by the best F1 on questions held out for it.

        Take neither those that the model was trained on nor those that it will be
        judged by.

        Args:
            x: Questions and contexts, as in `fit`.
            y: Their answers.
            max_answer_length: int. The most tokens in an answer. Defaults to `30`.
            batch_size: int. Windows in a batch. Defaults to `None`, 32.

        Returns:
            The threshold, which the model keeps, and `save_to_preset` saves.

        Raises:
            ValueError: If not both kinds of questions are there.
        """
        answers = read_answers(y)
        (questions, contexts), _ = self._texts(x)
        check_counts(len(questions), answers, None)
        has_answer = np.array([bool(row) for row in answers], bool)
        if has_answer.all() or not has_answer.any():
            msg = (
                "A threshold needs questions with and without an answer. Received: "
                f"{has_answer.sum()} with and {(~has_answer).sum()} without."
            )
            raise ValueError(msg)
        found = self._search(
            (questions, contexts), _N_BEST, max_answer_length, batch_size
        )
        f1 = []
        for row, (text, right) in enumerate(zip(contexts, answers, strict=True)):
            spans = zip(found.starts[row][:1], found.ends[row][:1], strict=True)
            given = "".join(text[start:end] for start, end in spans)
            f1.append(question_scores(given, [answer for _, answer in right])[1])
        self.null_threshold = best_null_threshold(
            found.null_scores, np.array(f1), (~has_answer).astype(float)
        )
        return self.null_threshold

    def _texts(self, *x: Any) -> tuple[tuple[list[str], ...], bool]:
        if self.preprocessor is None:
            msg = (
                "Questions are texts, and this model has no preprocessor. Build it "
                "with one, or call `predict` on ids."
            )
            raise ValueError(msg)
        columns, batched = self.preprocessor.columns(x if len(x) > 1 else x[0])
        return columns, batched

    def _search(
        self, x: Any, n_best: int, max_answer_length: int, batch_size: int | None
    ) -> SpanCandidates:
        windows, _ = self.preprocessor.encode(x)
        outputs = self.predict(windows, batch_size, verbose=0)
        return span_candidates(
            outputs, windows, max_answer_length, n_best, self.end_n_top
        )

    def _rank(self, found: SpanCandidates, row: int, context: str) -> list[Any]:
        """Put the answers to one question in order, "no answer" among them."""
        spans = zip(found.starts[row], found.ends[row], found.scores[row], strict=True)
        ranked = [
            _answer(context, int(start), int(end), float(np.exp(score)))
            for start, end, score in spans
        ]
        if self.null_threshold is None and ranked:
            return ranked
        probability = float(found.null_probabilities[row])
        nothing = _answer(context, 0, 0, probability)
        if not ranked or found.null_scores[row] > self.null_threshold:
            return [nothing, *ranked]
        place = sum(answer["score"] >= probability for answer in ranked)
        ranked.insert(max(1, place), nothing)
        return ranked


def _answer(context: str, start: int, end: int, score: float) -> dict[str, Any]:
    text = context[start:end]
    return {"answer": text, "score": score, "start": start, "end": end}
