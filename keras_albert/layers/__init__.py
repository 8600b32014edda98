"""The layers of ALBERT."""

from keras_albert.layers.factorized_embedding import FactorizedEmbedding
from keras_albert.layers.heads import ConditionalSpanHead, MaskedLMHead
from keras_albert.layers.shared_transformer_encoder import SharedTransformerEncoder
from keras_albert.layers.transformer_block import TransformerBlock

__all__ = [
    "ConditionalSpanHead",
    "FactorizedEmbedding",
    "MaskedLMHead",
    "SharedTransformerEncoder",
    "TransformerBlock",
]
