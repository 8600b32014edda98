"""The ONNX graph of a multiple choice model."""

from dataclasses import replace
from typing import Any, ClassVar

from keras_albert.data.tables import ID_NAMES
from keras_albert.exports.onnx.builder import OnnxBuilder
from keras_albert.exports.onnx.graph import OnnxTask
from keras_albert.layers.heads import MISSING_CHOICE


class MultipleChoiceGraph(OnnxTask):
    """The graph of an `AlbertMultipleChoice`."""

    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "context": (),
        "question": (),
        "choices": ("choices",),
    }

    def token_axes(self) -> dict[str, tuple[str, ...]]:
        return dict.fromkeys(ID_NAMES, ("batch", "choices", "length"))

    def run(self, ids: dict[str, Any]) -> Any:
        op, builder = self.op, self.builder
        mask = ids["padding_mask"]
        length = builder.size(mask, -1)
        rows = {
            name: op.Reshape(x, builder.integers(-1, length)) for name, x in ids.items()
        }
        # For a missing choice, the first position is unmasked.
        is_empty = op.Equal(op.ReduceMax(rows["padding_mask"], [1]), 0)
        is_first = op.Equal(op.Range(0, op.Squeeze(length), 1), 0)
        is_shown = op.And(is_empty, is_first)
        is_real = builder.cast(rows["padding_mask"], "bool")
        rows["padding_mask"] = op.Or(is_real, is_shown)
        pooled = self.encode_pooled(rows)
        scores = builder.dense(self.task.output_dense, pooled, keep_float=True)
        scores = op.Reshape(scores, op.Shape(mask, end=2), allowzero=1)
        self.is_present = op.Greater(op.ReduceMax(mask, [2], keepdims=0), 0)
        return op.Where(self.is_present, scores, MISSING_CHOICE)

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        return {"logits": (self.run(ids), "batch", "choices")}

    def answer_tokens(self, outputs: Any) -> None:
        """Add the numeric outputs."""
        self.builder.output("logits", outputs, "batch", "choices")
        self._answer(outputs)

    def _answer(self, outputs: Any) -> Any:
        op, builder = self.op, self.builder
        scores = op.Where(self.is_present, op.Softmax(outputs, axis=-1), 0.0)
        builder.output("scores", scores, "batch", "choices")
        # An extra place at 0, because there is no maximum over no choices; it becomes
        # the index -1.
        padded = op.Pad(scores, [0, 1, 0, 0], -1.0)
        _, best = self.largest(op.Where(op.Greater(padded, 0.0), padded, -1.0))
        index = op.Sub(best, 1)
        builder.output("index", index, "batch")
        return index

    def answer_texts(self, *columns: Any) -> None:
        op, builder = self.op, self.builder
        context, question, choices = columns
        filled = fill_in(builder, question, choices)
        stands_alone = op.Equal(context, builder.string(""))
        first = op.Where(stands_alone, question, context)
        second = op.Where(op.Unsqueeze(stands_alone, [1]), choices, filled)
        packed = self._pack(first, op.Reshape(second, [-1]), choices)
        index = self._answer(self.run(packed))
        column = builder.integers(builder.size(choices, 0), 1)
        none = op.Expand(builder.string(""), column)
        known = op.Concat(none, choices, axis=1)
        place = op.Unsqueeze(op.Add(index, 1), [1])
        choice = op.Squeeze(op.GatherElements(known, place, axis=1), [1])
        builder.output("choice", choice, "batch")

    def _pack(self, texts: Any, tails: Any, choices: Any) -> dict[str, Any]:
        """Pack a row for each choice, as `ChoiceRows` does."""
        op, builder, preprocessor = self.op, self.builder, self.texts.preprocessor
        max_length = preprocessor.max_length
        first, second = self.texts.tokenize(texts, tails)
        kept = op.Min(second.lengths, min(preprocessor.max_qa_length, max_length - 4))
        begins = op.Add(second.begins, op.Sub(second.lengths, kept))
        second = replace(second, begins=begins, lengths=kept)
        # The index of each row's text; a text is tokenized once.
        count = op.Max(builder.size(choices, 1), 1)
        rows = op.Div(self.texts.positions(tails), count)
        room = op.Sub(max_length - 3, kept)
        lengths = op.Min(op.Gather(first.lengths, rows), room)
        first = replace(first, begins=op.Gather(first.begins, rows), lengths=lengths)
        packed = self.texts.pack([first, second])
        is_missing = op.Reshape(op.Equal(choices, builder.string("")), [-1, 1])
        mask = op.Where(is_missing, 0, packed["padding_mask"])
        width = builder.size(mask, 1)
        shape = builder.integers(op.Shape(choices), width)
        return {
            name: op.Reshape(ids, shape, allowzero=1)
            for name, ids in {**packed, "padding_mask": mask}.items()
        }


def fill_in(builder: OnnxBuilder, questions: Any, choices: Any) -> Any:
    """Put each choice for the `_` of its question, or behind it: `(batch, choices)`."""
    op = builder.op
    # An extra question and choice, because `StringJoin` crashes on empty tensors.
    nothing = op.Constant(value_strings=[""])
    questions = op.Concat(questions, nothing, axis=0)
    for axis in (0, 1):
        shape = op.ScatterElements(op.Shape(choices), [axis], [1])
        choices = op.Concat(choices, op.Expand(nothing, shape), axis=axis)
    # An extra blank, removed below, because an empty string splits into no parts.
    whole = op.StringConcat(questions, builder.string("_"))
    parts, counts = op.StringSplit(whole, delimiter="_", _outputs=2)
    blanks = op.Unsqueeze(op.Sub(counts, 2), [1])
    place = op.Range(0, op.Squeeze(builder.size(parts, 1)), 1)
    is_blank = op.Unsqueeze(op.Less(place, blanks), [1])
    between = op.Where(is_blank, op.Unsqueeze(choices, [2]), builder.string(""))
    parts = op.StringConcat(op.Unsqueeze(parts, [1]), between)
    filled = builder.typed(builder.texts.StringJoin(parts, nothing, [2]), "string")
    opened = op.StringConcat(questions, builder.string(" "))
    behind = op.StringConcat(op.Unsqueeze(opened, [1]), choices)
    found = op.Where(op.Greater(blanks, 0), filled, behind)
    return op.Slice(found, [0, 0], [-1, -1])
