"""The methods for one text, and how transformers computes the same.

Each method has a model of keras_albert with the weights of transformers' model. Where
transformers has a pipeline for the task, it is the peer; elsewhere it is the tokenizer,
the model and the few lines that make an answer of its outputs.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from peer_models import TransformersModel, build_backbone
from settings import SIZES

# Of logits, probabilities and vectors.
TOLERANCE = 1e-4
TAGS = ("O", "B-name", "I-name")
CHOICES = ["It is good.", "It is not good at all.", "Nobody knows."]
QUESTION = "What is it about?"
MAX_ANSWER_LENGTH = 30
TOP_K = 5
MASK = "[MASK]"

Call = Callable[..., Any]


@dataclass(frozen=True)
class Method:
    """A method of a task that takes one text.

    Args:
        task: string. The class in keras_albert.
        auto: string. The auto class in transformers.
        run: Callable of the task and the input that calls the method.
        make_peer: Callable of the `TransformersModel` that returns a function of the
            input.
        read: Callable from a text to the input, a tuple. Defaults to the text alone.
        arguments: Arguments of the task. Defaults to none.
        parts: Callable from our answer to what must be equal, and to numbers.
            Defaults to no answer but numbers.
        peer_parts: The same for transformers' answer. Defaults to `parts`.
        compared: In place of `run` and `make_peer`, what is compared before they are
            measured. Defaults to `None`, their answers.
    """

    task: str
    auto: str
    run: Call
    make_peer: Callable[[TransformersModel], Call]
    read: Callable[[str], tuple[Any, ...]] = lambda text: (text,)
    arguments: dict[str, Any] = field(default_factory=dict)
    parts: Callable[[Any], tuple[Any, Any]] = lambda answer: (None, answer)
    peer_parts: Callable[[Any], tuple[Any, Any]] | None = None
    compared: tuple[Call, Callable[[TransformersModel], Call]] | None = None

    def check(self, task: Any, peer: TransformersModel, inputs: Sequence[Any]) -> float:
        """Compare the answers to all texts.

        Args:
            task: The task.
            peer: transformers' model.
            inputs: The results of `read`.

        Returns:
            The largest difference of a number.

        Raises:
            ValueError: If the answers differ, or their numbers by more than
                `TOLERANCE`.
        """
        run, make_peer = self.compared or (self.run, self.make_peer)
        call = make_peer(peer)
        return max(self._difference(run(task, *x), call(*x)) for x in inputs)

    def _difference(self, ours: Any, theirs: Any) -> float:
        expected, numbers = self.parts(ours)
        found, others = (self.peer_parts or self.parts)(theirs)
        numbers, others = np.asarray(numbers), np.asarray(others)
        if found != expected or numbers.shape != others.shape:
            msg = f"transformers answers {theirs!r:.200} instead of {ours!r:.200}."
            raise ValueError(msg)
        difference = float(np.abs(numbers - others).max(initial=0.0))
        # In this form the check fails for NaN, too.
        if not difference <= TOLERANCE:
            msg = f"transformers' numbers differ by {difference:.1e}."
            raise ValueError(msg)
        return difference


def build(
    method: Method, size: str, vocabulary: Callable[[], bytes], **changes: Any
) -> Any:
    """Build a task with random weights in its head.

    Args:
        method: `Method`.
        size: string. A size, for random weights, or a preset.
        vocabulary: Callable that returns the vocabulary of a model of a size.
        **changes: Other arguments of the backbone.
    """
    import keras

    import keras_albert

    keras.utils.set_random_seed(0)
    task = getattr(keras_albert, method.task)
    if size in SIZES:
        tokenizer = keras_albert.AlbertTokenizer(vocabulary())
        backbone = build_backbone(size, tokenizer.vocabulary_size(), **changes)
        preprocessor = task.preprocessor_cls(
            tokenizer, max_sequence_length=backbone.max_sequence_length
        )
    else:
        # What transformers can compute; the built-in preset has another pooler and
        # GELU.
        changes = {"pooler_input": "cls", "activation": "gelu_approximate"} | changes
        backbone = keras_albert.AlbertBackbone.from_preset(size, **changes)
        preprocessor = task.preprocessor_cls.from_preset(size)
    return task(backbone, preprocessor=preprocessor, **method.arguments)


def _pipeline(name: str, **options: Any) -> Callable[[TransformersModel], Call]:
    def make(peer: TransformersModel) -> Call:
        import transformers

        made = transformers.pipeline(name, model=peer.model, tokenizer=peer.tokenizer)
        return lambda *x: made(*x, **options)

    return make


def _model(
    answer: Callable[[TransformersModel, dict[str, Any], Any], Any],
    *,
    offsets: bool = False,
) -> Callable[[TransformersModel], Call]:
    """Return a maker of a function of texts from one of the model's outputs.

    Args:
        answer: Callable of the peer, the encoded input and the outputs.
        offsets: bool. Whether it needs the places of tokens. Defaults to `False`.
    """

    def make(peer: TransformersModel) -> Call:
        peer.model.eval()

        def run(*texts: Any) -> Any:
            encoded = peer.tokenizer(
                *texts,
                truncation=True,
                padding=True,
                return_tensors="pt",
                return_offsets_mapping=offsets,
            )
            inputs = dict(encoded)
            inputs.pop("offset_mapping", None)
            with peer.torch.inference_mode():
                outputs = peer.model(
                    **{k: v.to(peer.device) for k, v in inputs.items()}
                )
                return answer(peer, encoded, outputs)

        return run

    return make


def _logits(peer: TransformersModel, encoded: Any, outputs: Any) -> Any:
    return outputs.logits.cpu().numpy()[0]


def _mean(peer: TransformersModel, encoded: Any, outputs: Any) -> Any:
    """Return the mean vector of the tokens, with length 1."""
    weights = encoded["attention_mask"][..., None].to(peer.device)
    vectors = (outputs.last_hidden_state * weights).sum(1) / weights.sum(1)
    return peer.torch.nn.functional.normalize(vectors).cpu().numpy()[0]


def _best_span(peer: TransformersModel, encoded: Any, outputs: Any) -> Any:
    """Return the likeliest answer, as transformers' former pipeline found it."""
    outside = np.array(encoded.sequence_ids(0)) != 1
    # "No answer" has a part in the probabilities, but is not returned.
    outside[0] = False
    scores = []
    for logits in (outputs.start_logits, outputs.end_logits):
        shifted = np.where(outside, -np.inf, logits[0].cpu().numpy().astype(float))
        raised = np.exp(shifted - shifted.max())
        scores.append(raised / raised.sum())
    for each in scores:
        each[0] = 0.0
    table = np.tril(np.triu(np.outer(*scores)), MAX_ANSWER_LENGTH - 1)
    start, end = np.unravel_index(table.argmax(), table.shape)
    offsets = encoded["offset_mapping"][0]
    return {
        "score": float(table[start, end]),
        "start": int(offsets[start][0]),
        "end": int(offsets[end][1]),
    }


def _choose(peer: TransformersModel) -> Call:
    def choose(question: str, choices: list[str]) -> Any:
        encoded = peer.tokenizer(
            [question] * len(choices),
            choices,
            truncation=True,
            padding=True,
            return_tensors="pt",
        )
        with peer.torch.inference_mode():
            inputs = {k: v[None].to(peer.device) for k, v in encoded.items()}
            scores = peer.model(**inputs).logits[0].softmax(-1).tolist()
        best = int(np.argmax(scores))
        return {"index": best, "choice": choices[best], "scores": scores}

    peer.model.eval()
    return choose


def _words(text: str) -> tuple[str]:
    """Remove punctuation, which the tagger tokenizes as words of their own."""
    return (" ".join(re.findall(r"\w+", text)),)


def _with_mask(text: str) -> tuple[str]:
    """Replace the word in the middle."""
    words = text.split()
    words[len(words) // 2] = MASK
    return (" ".join(words),)


def _span(answer: Any) -> Any:
    # transformers' first character may be the space before it.
    return answer["end"], answer["score"]


def _tokens(answers: Sequence[Any]) -> Any:
    return [row["token"] for row in answers], [row["score"] for row in answers]


METHODS = {
    "classify": Method(
        "AlbertClassifier",
        "AutoModelForSequenceClassification",
        lambda task, text: task.classify(text),
        _pipeline("text-classification"),
        arguments={"num_classes": 2, "labels": ("no", "yes")},
        parts=lambda answer: (answer["label"], answer["score"]),
        peer_parts=lambda answer: (answer[0]["label"], answer[0]["score"]),
    ),
    "tag": Method(
        "AlbertTokenClassifier",
        "AutoModelForTokenClassification",
        lambda task, text: task.tag(text),
        _pipeline("token-classification", aggregation_strategy="simple"),
        read=_words,
        arguments={"num_classes": len(TAGS), "labels": TAGS},
        # The pipeline's entities may end within words; the logits are the same.
        compared=(
            lambda task, text: task.predict([text], verbose=0)[0],
            _model(_logits),
        ),
        # Padding has none.
        parts=lambda logits: (None, logits[logits.any(axis=-1)]),
    ),
    "answer": Method(
        "AlbertQuestionAnswerer",
        "AutoModelForQuestionAnswering",
        lambda task, *x: task.answer(*x, max_answer_length=MAX_ANSWER_LENGTH),
        _model(_best_span, offsets=True),
        read=lambda text: (QUESTION, text),
        parts=_span,
    ),
    "embed": Method(
        "AlbertTextEmbedder",
        "AutoModel",
        lambda task, text: task.embed(text),
        _model(_mean),
    ),
    "fill_mask": Method(
        "AlbertMaskedLM",
        "AutoModelForMaskedLM",
        lambda task, text: task.fill_mask(text, top_k=TOP_K),
        _pipeline("fill-mask", top_k=TOP_K),
        read=_with_mask,
        parts=_tokens,
    ),
    "choose": Method(
        "AlbertMultipleChoice",
        "AutoModelForMultipleChoice",
        lambda task, *x: task.choose(None, *x),
        _choose,
        read=lambda text: (text, CHOICES),
        parts=lambda answer: (answer["index"], answer["scores"]),
    ),
    "predict": Method(
        "AlbertClassifier",
        "AutoModelForSequenceClassification",
        lambda task, text: task.predict([text], verbose=0)[0],
        _model(_logits),
        arguments={"num_classes": 2},
    ),
}
