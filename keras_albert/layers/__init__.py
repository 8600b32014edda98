"""The layers of ALBERT."""

from keras_albert.layers.block import TransformerBlock
from keras_albert.layers.embedding import FactorizedEmbedding
from keras_albert.layers.encoder import SharedTransformerEncoder
from keras_albert.layers.heads import ConditionalSpanHead, MaskedLMHead

__all__ = [
    "ConditionalSpanHead",
    "FactorizedEmbedding",
    "MaskedLMHead",
    "SharedTransformerEncoder",
    "TransformerBlock",
]
