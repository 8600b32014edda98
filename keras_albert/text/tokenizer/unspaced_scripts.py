"""The letters of scripts without spaces between words."""

# The content of a character class of `re`, used both for masking and for splitting
# texts into words. Marks within a range are matched before.
UNSPACED = (
    "\u0e01-\u0e30\u0e32-\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2-\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"  # Lao
    "\u0f00\u0f40-\u0f6c\u0f88-\u0f8c"  # Tibetan
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065-\u1066"  # Burmese
    "\u106e-\u1070\u1075-\u1081\u108e"
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e-\uaa7f"
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
    "\u3005-\u3007\u303b\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\U0001aff0-\U0001affe\U0001b000-\U0001b167"
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)
