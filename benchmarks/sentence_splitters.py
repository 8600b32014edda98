"""Compare the speed and results of five sentence splitters.

    python benchmarks/sentence_splitters.py FILE.txt.gz ...

Skips libraries that are not installed: sentencex, blingfire, nupunkt, syntok, pysbd.
The splitter of `prepare_examples` was chosen with this benchmark. Prints megabytes per
second of processor time, sentences per paragraph, the share of very short ones, and the
results for hard cases.
"""

import argparse
import gzip
import importlib
import itertools
import time

HARD = (
    "Dr. Smith went to Washington, D.C. on Jan. 5. He met Mr. J. R. Jones at 3 p.m.",
    'He said, "Come here. Now!" She did. "Why?" he asked.',
    "The U.S. economy grew 3.5% in Q1. See Fig. 3. E. coli is common.",
    "今日は晴れです。明日は雨でしょう。",
    "यह एक वाक्य है। यह दूसरा है।",
    "He left... Then he came back. Visit www.example.com. It works!",
)


def _syntok(module):
    def split(text):
        return [
            "".join(token.spacing + token.value for token in sentence).strip()
            for paragraph in module.process(text)
            for sentence in paragraph
        ]

    return split


SPLITTERS = {
    "sentencex": lambda module: lambda text: list(module.segment("en", text)),
    "blingfire": lambda module: lambda text: module.text_to_sentences(text).split("\n"),
    "nupunkt": lambda module: module.sent_tokenize,
    "syntok.segmenter": _syntok,
    "pysbd": lambda module: module.Segmenter(language="en", clean=False).segment,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+")
    parser.add_argument("--paragraphs", type=int, default=500, help="of each file")
    arguments = parser.parse_args()
    paragraphs = []
    for path in arguments.files:
        with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
            lines = (line.strip() for line in file if line.strip())
            paragraphs += itertools.islice(lines, arguments.paragraphs)
    size = sum(len(paragraph.encode()) for paragraph in paragraphs)
    print(f"{len(paragraphs):,} paragraphs, {size:,} bytes")
    for name, make in SPLITTERS.items():
        try:
            split = make(importlib.import_module(name))
        except ImportError:
            print(f"{name}: not installed")
            continue
        split("Warm up. Please.")
        start = time.process_time()
        sentences = [s for paragraph in paragraphs for s in split(paragraph)]
        work = time.process_time() - start
        short = sum(len(sentence) < 10 for sentence in sentences)
        print(
            f"{name:<18} {size / work / 1e6:6.2f} MB/s, "
            f"{len(sentences) / len(paragraphs):.2f} sentences a paragraph, "
            f"{short / len(sentences):.1%} below 10 characters"
        )
        for text in HARD:
            print("     ", " | ".join(sentence.strip() for sentence in split(text)))


if __name__ == "__main__":
    main()
