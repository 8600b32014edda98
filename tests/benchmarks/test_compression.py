"""The table of ranks, at toy size."""

import importlib

from keras_albert import AlbertTextEmbedder, AlbertTextEmbedderPreprocessor
from keras_albert.preprocessors import AlbertTokenizer
from tests.compression.test_distill import LENGTHS, TEXTS, backbone


def test_each_rank_has_a_row(tiny_proto, tmp_path, capsys):
    tokenizer = AlbertTokenizer(tiny_proto)
    preprocessor = AlbertTextEmbedderPreprocessor(tokenizer, **LENGTHS)
    AlbertTextEmbedder(backbone(), preprocessor).save_to_preset(tmp_path / "teacher")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    rows = [f"{text}\t{TEXTS[i // 2]}\t{i % 5}" for i, text in enumerate(TEXTS)]
    header = "sentence1\tsentence2\tscore"
    (tmp_path / "dev.tsv").write_text("\n".join([header, *rows]))
    paths = {"teacher": "teacher", "texts": "texts.txt", "dev": "dev.tsv"}
    words = [w for k, v in paths.items() for w in (f"--{k}", str(tmp_path / v))]
    words += ["--ranks", "0", "2", "--steps", "2", "--repeats", "1"]
    words += ["--batch-size", "4", "--max-length", "16"]
    importlib.import_module("compression").main(words)
    printed = capsys.readouterr().out
    lines = [line.split(" | ") for line in printed.splitlines() if line[:1] == "|"]
    assert [line[0] for line in lines] == ["| rank", "| ---", "| teacher", "| 0", "| 2"]
    sizes = [int(line[1].replace(",", "")) for line in lines[2:]]
    assert sizes[1] < sizes[2] < sizes[0]
    assert all(-1 <= float(cell) <= 1 for line in lines[2:] for cell in line[4:5])
