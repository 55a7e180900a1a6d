"""Training text for peers: the corpus as pieces of one sentencepiece model, and its vocabulary."""

from pathlib import Path
from typing import NamedTuple

from benchmarks.corpora import Corpus, read_lines, write_lines

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
END = "</s>"


class PieceTexts(NamedTuple):
    """Files that peers train on: pieces separated by spaces."""

    source: Path
    target: Path
    vocabulary: Path  # a piece per line, without the special pieces, which every peer adds itself

    def bytes(self) -> int:
        """The total size of all files in bytes."""
        return sum(path.stat().st_size for path in self)


def write_texts(corpus: Corpus, *, tokenizer: Path, folder: Path) -> PieceTexts:
    """Writes the training text of a corpus as pieces. Sources have the end mark, which Calque's encoders read
    too."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    pieces: list[str] = processor.id_to_piece(list(range(len(processor))))
    sources, targets = (
        [" ".join(line) for line in processor.encode(read_lines(path), out_type=str)]
        for path in (corpus.source, corpus.target)
    )
    return PieceTexts(
        write_lines(folder / "train.source", [f"{line} {END}" for line in sources]),
        write_lines(folder / "train.target", targets),
        write_lines(folder / "vocabulary.txt", [piece for piece in pieces if piece not in SPECIAL]),
    )


def encode_file(source: Path, *, tokenizer: Path, output: Path) -> Path:
    """Writes the lines of a file as pieces with the end mark, and returns the output file."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    lines = processor.encode(read_lines(source), out_type=str)
    return write_lines(output, [" ".join([*line, END]) for line in lines])


def decode_file(pieces: Path, *, tokenizer: Path, output: Path) -> Path:
    """Joins the pieces in each line of a file to text, and returns the output file."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    return write_lines(output, processor.decode([line.split(" ") for line in read_lines(pieces)]))


def vocabulary_of(texts: PieceTexts) -> int:
    """The vocabulary size, special pieces included."""
    return len(read_lines(texts.vocabulary)) + len(SPECIAL)


def mean_length(text: Path, *, tokenizer: Path, limit: int = 5000) -> float:
    """The mean number of pieces per line, end mark included, in the first lines of a file."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    lines = processor.encode(read_lines(text, limit=limit))
    return sum(len(line) + 1 for line in lines) / len(lines)
