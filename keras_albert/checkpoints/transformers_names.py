"""transformers' names of weights and settings: ALBERT, BERT, ELECTRA, DistilBERT."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_albert.checkpoints.weight_map import (
    TRANSPOSED,
    Head,
    Mappings,
    Naming,
    WeightMap,
)


@dataclass(frozen=True, kw_only=True)
class Architecture(WeightMap):
    """The names of an architecture, and what is special in its config."""

    model_type: str
    base_class: str
    # The prefix of the backbone's names in all classes but the base class.
    prefix: str
    # The keys and defaults of settings, where they are not ALBERT's; unused keys.
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    unused_keys: tuple[str, ...] = ("inner_group_num",)
    # By task, the key of a head's dropout and its default; `None` is the encoder's.
    dropouts: Mapping[str, tuple[str, float | None]]
    special_ids: dict[str, int] = field(default_factory=lambda: {"pad_token_id": 0})
    # Second names of tied tensors, which a file may contain as well, or instead.
    tied: Mapping[str, str]
    # Settings of the pooler of a multiple choice, with the only values that are read.
    summary: Mapping[str, Any] = field(default_factory=dict)
    # The name of the embeddings of segments where there are none: they are zeros.
    segments: str | None = None


_TORCH = Naming(".weight", ".bias", ".weight", ".bias", ".weight", TRANSPOSED)


def _embeddings(scope: str) -> Mappings:
    tables = ("word_embeddings", "position_embeddings", "token_type_embeddings")
    return _TORCH.embeddings(
        [f"{scope}.{table}" for table in tables], f"{scope}.LayerNorm"
    )


def _heads(
    kind: str, masked_lm: Mappings, has_pooler: bool = True, **others: Any
) -> tuple[Head, ...]:
    """Return the heads of an architecture, of which `others` may differ, by task."""
    classifier = (_TORCH.dense("logits", "classifier"),)
    spans = (_TORCH.dense("span_logits", "qa_outputs"),)
    choices = (_TORCH.dense("score", "classifier"),)
    found = [
        Head("AlbertBackbone", f"{kind}Model", has_pooler=has_pooler),
        Head("AlbertTextEmbedder", f"{kind}Model", has_pooler=has_pooler),
        Head("AlbertMaskedLM", f"{kind}ForMaskedLM", (masked_lm,), has_pooler=False),
        Head("AlbertClassifier", f"{kind}ForSequenceClassification", classifier),
        *(
            Head(f"Albert{task}", f"{kind}For{foreign}", parts, has_pooler=False)
            for task, foreign, parts in (
                ("TokenClassifier", "TokenClassification", classifier),
                ("QuestionAnswerer", "QuestionAnswering", spans),
            )
        ),
        Head("AlbertMultipleChoice", f"{kind}ForMultipleChoice", choices),
    ]
    return tuple(others.pop(head.task, head) for head in found) + tuple(others.values())


# The settings of a BERT, some of which the others share.
_BERT_DEFAULTS = {
    "vocab_size": 30_522,
    "num_attention_heads": 12,
    "num_hidden_groups": 12,
    "hidden_size": 768,
    "embedding_size": 768,
    "intermediate_size": 3072,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
}
_BERT_LAYERS = (
    (
        *("attention.self.query", "attention.self.key", "attention.self.value"),
        *("attention.output.dense", "intermediate.dense", "output.dense"),
    ),
    ("attention.output.LayerNorm", "output.LayerNorm"),
)

_ALBERT_PREDICTIONS = _TORCH.masked_lm(
    "predictions.dense", "predictions.LayerNorm", "predictions.bias"
)
ALBERT = Architecture(
    model_type="albert",
    always_projects=True,
    base_class="AlbertModel",
    prefix="albert.",
    unused_keys=(),
    dropouts=dict.fromkeys(
        ("AlbertClassifier", "AlbertTokenClassifier", "AlbertMultipleChoice"),
        ("classifier_dropout_prob", 0.1),
    ),
    special_ids={"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    tied={
        "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
        "predictions.decoder.bias": "predictions.bias",
    },
    embeddings=_embeddings("albert.embeddings"),
    projection=_TORCH.dense(
        "embedding/projection", "albert.encoder.embedding_hidden_mapping_in"
    ),
    pooler=_TORCH.dense("pooler", "albert.pooler"),
    block=_TORCH.block(
        "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
        (
            *("attention.query", "attention.key", "attention.value"),
            *("attention.dense", "ffn", "ffn_output"),
        ),
        ("attention.LayerNorm", "full_layer_layer_norm"),
    ),
    heads=_heads(
        "Albert",
        _ALBERT_PREDICTIONS,
        AlbertPretrainer=Head(
            "AlbertPretrainer",
            "AlbertForPreTraining",
            (
                _ALBERT_PREDICTIONS,
                _TORCH.dense("sentence_order", "sop_classifier.classifier"),
            ),
        ),
    ),
    head_prefixes=("predictions.", "sop_classifier.", "classifier.", "qa_outputs."),
)

# An ALBERT whose embeddings are as wide as the encoder, and whose layers are groups of
# their own.
_BERT_PREDICTIONS = _TORCH.masked_lm(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
)
BERT = Architecture(
    model_type="bert",
    base_class="BertModel",
    prefix="bert.",
    keys={"embedding_size": "hidden_size", "num_hidden_groups": "num_hidden_layers"},
    defaults=_BERT_DEFAULTS,
    dropouts=dict.fromkeys(
        ("AlbertClassifier", "AlbertTokenClassifier", "AlbertMultipleChoice"),
        ("classifier_dropout", None),
    ),
    tied={
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    embeddings=_embeddings("bert.embeddings"),
    pooler=_TORCH.dense("pooler", "bert.pooler.dense"),
    block=_TORCH.block("bert.encoder.layer.{group}.", *_BERT_LAYERS),
    heads=_heads(
        "Bert",
        _BERT_PREDICTIONS,
        # Trained to tell the next sentence from any other, ALBERT's from one in wrong
        # order.
        AlbertPretrainer=Head(
            "AlbertPretrainer",
            "BertForPreTraining",
            (_BERT_PREDICTIONS, _TORCH.dense("sentence_order", "cls.seq_relationship")),
        ),
    ),
    head_prefixes=(
        *("cls.predictions.", "cls.seq_relationship."),
        *("classifier.", "qa_outputs."),
    ),
)

# An ALBERT whose layers are groups of their own. Its pooler belongs to the heads.
ELECTRA = Architecture(
    model_type="electra",
    base_class="ElectraModel",
    prefix="electra.",
    keys={"num_hidden_groups": "num_hidden_layers"},
    defaults=_BERT_DEFAULTS
    | {"embedding_size": 128, "hidden_size": 256}
    | {"num_attention_heads": 4, "intermediate_size": 1024},
    dropouts={
        "AlbertClassifier": ("classifier_dropout", None),
        "AlbertTokenClassifier": ("classifier_dropout", None),
        "AlbertMultipleChoice": ("summary_last_dropout", 0.1),
    },
    pooler_activation="gelu",
    # Whatever the encoder's.
    head_activation="gelu",
    summary={
        "summary_type": "first",
        "summary_use_proj": True,
        "summary_activation": "gelu",
    },
    tied={"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"},
    embeddings=_embeddings("electra.embeddings"),
    projection=_TORCH.dense("embedding/projection", "electra.embeddings_project"),
    pooler=_TORCH.dense("pooler", "classifier.dense"),
    block=_TORCH.block("electra.encoder.layer.{group}.", *_BERT_LAYERS),
    heads=_heads(
        "Electra",
        _TORCH.masked_lm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
        ),
        has_pooler=False,
        AlbertClassifier=Head(
            "AlbertClassifier",
            "ElectraForSequenceClassification",
            (_TORCH.dense("logits", "classifier.out_proj"),),
        ),
        AlbertMultipleChoice=Head(
            "AlbertMultipleChoice",
            "ElectraForMultipleChoice",
            (_TORCH.dense("score", "classifier"),),
            pooler=_TORCH.dense("pooler", "sequence_summary.summary"),
        ),
    ),
    head_prefixes=(
        *("generator_predictions.", "generator_lm_head."),
        # That of pretraining, which tells replaced tokens, has no task here.
        "discriminator_predictions.",
        *("classifier.dense.", "classifier.out_proj."),
        *("classifier.weight", "classifier.bias"),
        *("sequence_summary.", "qa_outputs."),
    ),
)

# A BERT without segments. Its pooler belongs to the heads.
DISTILBERT = Architecture(
    model_type="distilbert",
    base_class="DistilBertModel",
    prefix="distilbert.",
    keys={
        "hidden_size": "dim",
        "embedding_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_hidden_layers": "n_layers",
        "num_hidden_groups": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "attention_dropout",
        "hidden_act": "activation",
    },
    defaults=_BERT_DEFAULTS | {"num_hidden_layers": 6, "num_hidden_groups": 6},
    unused_keys=("inner_group_num", "type_vocab_size", "layer_norm_eps"),
    dropouts={
        "AlbertClassifier": ("seq_classif_dropout", 0.2),
        "AlbertTokenClassifier": ("dropout", 0.1),
        "AlbertMultipleChoice": ("seq_classif_dropout", 0.2),
    },
    pooler_activation="relu",
    tied={"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"},
    embeddings=_embeddings("distilbert.embeddings"),
    segments="distilbert.embeddings.token_type_embeddings.weight",
    pooler=_TORCH.dense("pooler", "pre_classifier"),
    block=_TORCH.block(
        "distilbert.transformer.layer.{group}.",
        (
            *("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            *("attention.out_lin", "ffn.lin1", "ffn.lin2"),
        ),
        ("sa_layer_norm", "output_layer_norm"),
    ),
    heads=_heads(
        "DistilBert",
        _TORCH.masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
        has_pooler=False,
    ),
    head_prefixes=(
        *("vocab_transform.", "vocab_layer_norm.", "vocab_projector."),
        *("pre_classifier.", "classifier.", "qa_outputs."),
    ),
)

READ = {each.model_type: each for each in (ALBERT, BERT, DISTILBERT, ELECTRA)}
