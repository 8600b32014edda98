"""Texts over all of Unicode, what is hard about it more often."""

from hypothesis import strategies as st

# Every character that UTF-8 can encode: all but the surrogates.
_ANY = st.characters(exclude_categories=["Cs"])
_EMOJI = st.text(
    "👩👨👧🏽🏿❤🔥\u200d\ufe0f🇬🇧🇫🇷🏴\U000e0067\U000e007f", min_size=1, max_size=9
)
_WORDS = (
    *("the", "The", "river", "CAFÉ", "naïve", "e\u0301t", "in", "2011,", "12", "1,000"),
    *("'", '"', "``", "''", "-", ".", "…", "ﬁ", "½", "ﷺ", "ß", "Σ", "İ", "ǆ", "\ufb03"),
    *("[MASK]", "[CLS]", "[SEP]", "<pad>", "<unk>", "<s>"),
    # Names of pieces that only graphs have, and characters that become others.
    *("\u2581", "\ufffd", "\ufffe", "<0x41>", "<0xE6>", "か\u3099", "\u1100\u1161"),
)
_CATEGORIES = (
    *(["Mn"], ["Mc", "Me"], ["Cc"], ["Cf"], ["Zs", "Zl", "Zp"], ["Co"], ["Cn"]),
    *(["Lu", "Lt"], ["Lo"], ["Lm"], ["Nd"], ["No", "Nl"], ["Po", "Sm", "Sk"], ["So"]),
)
# Hebrew and Arabic, Hangul by letters and by syllables, forms of width, Indic, kana.
_RANGES = (
    *((0x590, 0x8FF), (0xFB1D, 0xFEFC), (0x1100, 0x11FF), (0xAC00, 0xD7FB)),
    *((0xFF00, 0xFFEF), (0x900, 0xDFF), (0x3040, 0x33FF), (0x1D400, 0x1D7FF)),
)


def _run(character, count):
    return character * count


_PARTS = st.one_of(
    st.sampled_from(_WORDS),
    st.sampled_from([" ", "  ", "\t", "\n", "\u00a0", "\u2003", "\u200b", "\0"]),
    st.text(_ANY, max_size=8),
    _EMOJI,
    *(
        st.text(st.characters(categories=found), min_size=1, max_size=5)
        for found in _CATEGORIES
    ),
    *(
        st.text(
            st.characters(min_codepoint=first, max_codepoint=last),
            min_size=1,
            max_size=6,
        )
        for first, last in _RANGES
    ),
    st.builds(_run, _ANY | st.sampled_from("e0la \0漢.\u0301"), st.integers(2, 200)),
)

TEXTS = st.lists(_PARTS, max_size=9).map("".join)
"""Of nothing to some hundred characters."""


HARD_TEXTS = [
    "",
    "   ",
    "\u0301",
    "\u0301 \u0301",
    "a\x00b\x00",
    "x \u0301\u0301 y",
    "👩\u200d👩\u200d👧 hi 漢字",
    "\u200ba\u200b \u0301b\ufeff",
    "ﷺ…½ ﬁne  ",
    "[CLS] the [MASK]<unk><pad>[SEP]",
    "\t\r\n\x1c\x85\u2028 In 2011, it\u2009rained ",
    "\ud7ff\ue000\U0010ffff\ufffd▁",
]
