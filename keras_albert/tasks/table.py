"""The table of tasks: what the exports need to know of each class."""

from typing import Any, Literal, NamedTuple

from keras_albert.tasks.classification.model import AlbertClassifier
from keras_albert.tasks.masked_lm import AlbertMaskedLM, AlbertPretrainer
from keras_albert.tasks.multiple_choice import AlbertMultipleChoice
from keras_albert.tasks.question_answering.model import AlbertQuestionAnswerer
from keras_albert.tasks.text_embedding import AlbertTextEmbedder
from keras_albert.tasks.token_classification.model import AlbertTokenClassifier


class TaskRow(NamedTuple):
    """A class of tasks.

    Attributes:
        graph: string. The module and the class of its graph, both in
            `serving.saved_model` and in `serving.onnx`.
        outputs: string or `None`. What the model's output is: numbers, by the name that
            they are exported with, or scores, of which one is the best, of
            `"classes"`, `"tags"` or `"choices"`. Defaults to `None`: several outputs,
            which have names.
        pairs: bool. Whether `text_pair` is an option of an export. Defaults to `False`.
        ranks: string or `None`. What `top_k` of an export chooses from: `"classes"` or
            `"tokens"`. Defaults to `None`, nothing.
    """

    graph: str
    outputs: Literal["logits", "embedding", "classes", "tags", "choices"] | None = None
    pairs: bool = False
    ranks: Literal["classes", "tokens"] | None = None


TASKS: dict[type[Any], TaskRow] = {
    AlbertClassifier: TaskRow(
        "classification:ClassifierGraph", "classes", pairs=True, ranks="classes"
    ),
    AlbertMaskedLM: TaskRow(
        "masked_lm:MaskedLMGraph", "logits", pairs=True, ranks="tokens"
    ),
    AlbertMultipleChoice: TaskRow("multiple_choice:MultipleChoiceGraph", "choices"),
    AlbertPretrainer: TaskRow("masked_lm:PretrainerGraph", ranks="tokens"),
    AlbertQuestionAnswerer: TaskRow("question_answering:QuestionAnswererGraph"),
    AlbertTextEmbedder: TaskRow(
        "text_embedding:TextEmbedderGraph", "embedding", pairs=True
    ),
    AlbertTokenClassifier: TaskRow("token_classification:TokenClassifierGraph", "tags"),
}
