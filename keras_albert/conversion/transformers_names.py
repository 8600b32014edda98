"""transformers' names of weights and settings: ALBERT, BERT, ELECTRA, DistilBERT."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from keras_albert.conversion.weight_map import (
    TRANSPOSED,
    Head,
    Mappings,
    WeightMap,
    WeightMapping,
    name_blocks,
)


@dataclass(frozen=True, kw_only=True)
class Architecture(WeightMap):
    """The names of an architecture, and what its config has of its own."""

    model_type: str
    base_class: str
    # The prefix of the backbone's names in all classes but the base class.
    prefix: str
    # The settings' own keys and defaults, where they are not ALBERT's; keys it lacks.
    keys: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)
    unused_keys: tuple[str, ...] = ("inner_group_num",)
    # By task, the key of a head's dropout and its default; `None` is the encoder's.
    dropouts: Mapping[str, tuple[str, float | None]]
    special_ids: dict[str, int] = field(default_factory=lambda: {"pad_token_id": 0})
    pooler_activation: str = "tanh"
    # Second names of tied tensors, which a file may contain as well, or instead.
    tied: Mapping[str, str]
    # Settings of the pooler of a multiple choice, with the only values that are read.
    summary: Mapping[str, Any] = field(default_factory=dict)
    # The name of the embeddings of segments where there are none: they are zeros.
    segments: str | None = None


def _dense(ours: str, theirs: str) -> Mappings:
    return (
        WeightMapping(f"{ours}/kernel", f"{theirs}.weight", TRANSPOSED),
        WeightMapping(f"{ours}/bias", f"{theirs}.bias"),
    )


def _norm(ours: str, theirs: str) -> Mappings:
    return (
        WeightMapping(f"{ours}/gamma", f"{theirs}.weight"),
        WeightMapping(f"{ours}/beta", f"{theirs}.bias"),
    )


def _embeddings(scope: str) -> Mappings:
    return (
        *(
            # KerasHub names the variable of position embeddings `embeddings`, too.
            WeightMapping(f"embedding/{ours}/embeddings", f"{scope}.{theirs}.weight")
            for ours, theirs in (
                ("token_embedding", "word_embeddings"),
                ("position_embedding", "position_embeddings"),
                ("segment_embedding", "token_type_embeddings"),
            )
        ),
        *_norm("embedding/layer_norm", f"{scope}.LayerNorm"),
    )


def _masked_lm(dense: str, layer_norm: str, bias: str) -> Mappings:
    """Map the head of a masked LM; its last layer is tied to the embeddings."""
    return (
        *_dense("masked_lm_head/transform", dense),
        *_norm("masked_lm_head/layer_norm", layer_norm),
        WeightMapping("masked_lm_head/output_bias", bias),
    )


def _heads(
    kind: str, masked_lm: Mappings, has_pooler: bool = True, **others: Any
) -> tuple[Head, ...]:
    """Return the heads of an architecture, of which `others` may differ, by task."""
    classifier = (_dense("logits", "classifier"),)
    spans = (_dense("span_logits", "qa_outputs"),)
    choices = (_dense("score", "classifier"),)
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

_ALBERT_PREDICTIONS = _masked_lm(
    "predictions.dense", "predictions.LayerNorm", "predictions.bias"
)
ALBERT = Architecture(
    model_type="albert",
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
    projection=_dense(
        "embedding/projection", "albert.encoder.embedding_hidden_mapping_in"
    ),
    pooler=_dense("pooler", "albert.pooler"),
    block=name_blocks(
        "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.",
        (
            *("attention.query", "attention.key", "attention.value"),
            *("attention.dense", "ffn", "ffn_output"),
        ),
        ("attention.LayerNorm", "full_layer_layer_norm"),
        _dense,
        _norm,
    ),
    heads=_heads(
        "Albert",
        _ALBERT_PREDICTIONS,
        AlbertPretrainer=Head(
            "AlbertPretrainer",
            "AlbertForPreTraining",
            (
                _ALBERT_PREDICTIONS,
                _dense("sentence_order", "sop_classifier.classifier"),
            ),
        ),
    ),
    head_prefixes=("predictions.", "sop_classifier.", "classifier.", "qa_outputs."),
)

# An ALBERT whose embeddings are as wide as the encoder, and whose layers are groups of
# their own.
_BERT_PREDICTIONS = _masked_lm(
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
    pooler=_dense("pooler", "bert.pooler.dense"),
    block=name_blocks("bert.encoder.layer.{group}.", *_BERT_LAYERS, _dense, _norm),
    heads=_heads(
        "Bert",
        _BERT_PREDICTIONS,
        # Trained to tell the next sentence from any other, ALBERT's from one in wrong
        # order.
        AlbertPretrainer=Head(
            "AlbertPretrainer",
            "BertForPreTraining",
            (_BERT_PREDICTIONS, _dense("sentence_order", "cls.seq_relationship")),
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
    projection=_dense("embedding/projection", "electra.embeddings_project"),
    pooler=_dense("pooler", "classifier.dense"),
    block=name_blocks("electra.encoder.layer.{group}.", *_BERT_LAYERS, _dense, _norm),
    heads=_heads(
        "Electra",
        _masked_lm(
            "generator_predictions.dense",
            "generator_predictions.LayerNorm",
            "generator_lm_head.bias",
        ),
        has_pooler=False,
        AlbertClassifier=Head(
            "AlbertClassifier",
            "ElectraForSequenceClassification",
            (_dense("logits", "classifier.out_proj"),),
        ),
        AlbertMultipleChoice=Head(
            "AlbertMultipleChoice",
            "ElectraForMultipleChoice",
            (_dense("score", "classifier"),),
            pooler=_dense("pooler", "sequence_summary.summary"),
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
    pooler=_dense("pooler", "pre_classifier"),
    block=name_blocks(
        "distilbert.transformer.layer.{group}.",
        (
            *("attention.q_lin", "attention.k_lin", "attention.v_lin"),
            *("attention.out_lin", "ffn.lin1", "ffn.lin2"),
        ),
        ("sa_layer_norm", "output_layer_norm"),
        _dense,
        _norm,
    ),
    heads=_heads(
        "DistilBert",
        _masked_lm("vocab_transform", "vocab_layer_norm", "vocab_projector.bias"),
        has_pooler=False,
    ),
    head_prefixes=(
        *("vocab_transform.", "vocab_layer_norm.", "vocab_projector."),
        *("pre_classifier.", "classifier.", "qa_outputs."),
    ),
)

READ = {each.model_type: each for each in (ALBERT, BERT, DISTILBERT, ELECTRA)}
