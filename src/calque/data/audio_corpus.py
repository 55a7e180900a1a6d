"""The config of an audio corpus: a manifest that names recordings and their transcripts."""

from pathlib import Path
from typing import Literal

from calque.config import Config
from calque.data.tables import Weight


class AudioConfig(Config):
    """A manifest of recordings with their transcripts: JSON objects, one per line, or a table separated by tabs.

    A JSON object has the keys audio and text, optionally start, end and speaker, and no others. A table may begin with
    a header that names these columns; other columns are ignored. Without a header, the first column is the audio file
    and the second the text.
    """

    kind: Literal["audio"] = "audio"
    path: Path
    """The manifest, plain or compressed. Paths of recordings are relative to its folder."""
    format: Literal["auto", "jsonl", "tsv"] = "auto"
    """The format of the manifest; auto is tsv if its name ends in .tsv (or .tsv.gz, …), otherwise jsonl."""
    audio_key: str = "audio"
    """The key or column of the audio file."""
    text_key: str = "text"
    """The key or column of the transcript."""
    weight: Weight = 1.0
    """How often an epoch reads each recording; with 0.5, every recording is read once in two epochs."""

    @property
    def is_table(self) -> bool:
        return self.format == "tsv" or (self.format == "auto" and ".tsv" in self.path.suffixes)


PLACE = "place"
AUDIO_COLUMNS = ("audio", "text", "folder", "speaker", PLACE)
"""The columns of a manifest: the recording as `Clip.cell` writes it, its text, the manifest's folder, the speaker, and
the manifest's name and line number, for messages."""
AUDIO_LINES = 64  # lines of a manifest in a block, whose recordings are in memory together
