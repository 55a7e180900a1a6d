"""What is pure in comparisons with peers: their configs, their reports, the text they read, and who takes part."""

import subprocess
from pathlib import Path

import pytest
import sentencepiece
from benchmarks import decode, train
from benchmarks.corpora import Corpus, read_lines, write_lines
from benchmarks.decode import contenders
from benchmarks.decoders import CalqueDecoder
from benchmarks.errors import BenchmarkError, ContenderError
from benchmarks.floor import Floor
from benchmarks.peers.decoders import SAME_LIMITS, SAME_SCORES, CTranslate2Decoder
from benchmarks.peers.environments import Environment, open_environments
from benchmarks.peers.texts import PieceTexts, decode_file, encode_file, mean_length, vocabulary_of, write_texts
from benchmarks.peers.trainers import config_of, read_report
from benchmarks.source_trees import SourceTree
from benchmarks.works import Work

ROOT = Path(__file__).parents[3]
LINES = ["ein kleiner Hund", "zwei große Hunde laufen", "ein Hund"] * 20
CALQUE = CalqueDecoder(SourceTree("here", ROOT, ""), Path("model"), 1, ("minimum=3",))
PEER = CTranslate2Decoder(Environment("ctranslate2", Path("somewhere"), "4"), Path("model"), "int8", 1)


@pytest.fixture
def tokenizer(tmp_path: Path) -> Path:
    """A sentencepiece model with Calque's special pieces."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES),
        model_prefix=str(tmp_path / "joint"),
        model_type="bpe",
        vocab_size=300,
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
        **{f"{name}_id": number for number, name in enumerate(("pad", "bos", "eos", "unk"))},
    )
    return tmp_path / "joint.model"


def test_peers_read_the_pieces_of_the_corpus_and_an_end_mark(tokenizer: Path, tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "lines", LINES)
    texts = write_texts(Corpus("", lines, lines, lines, lines, lines), tokenizer=tokenizer, folder=tmp_path)
    sources, targets = read_lines(texts.source), read_lines(texts.target)
    assert sources == [f"{line} </s>" for line in targets]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tokenizer))
    assert [processor.decode(line.split(" ")) for line in targets] == LINES
    pieces = read_lines(texts.vocabulary)
    assert not {"<pad>", "<s>", "</s>", "<unk>"} & set(pieces)
    assert vocabulary_of(texts) == len(pieces) + 4 == len(processor)


def test_pieces_become_text_again(tokenizer: Path, tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "lines", LINES)
    encoded = encode_file(lines, tokenizer=tokenizer, output=tmp_path / "pieces")
    assert all(line.endswith(" </s>") for line in read_lines(encoded))
    write_lines(encoded, [line.removesuffix(" </s>") for line in read_lines(encoded)])
    assert read_lines(decode_file(encoded, tokenizer=tokenizer, output=tmp_path / "text")) == LINES
    assert mean_length(lines, tokenizer=tokenizer) == sum(len(line.split()) + 1 for line in read_lines(encoded)) / 60


OPENNMT = (
    "[2026-11-17 13:16:08,387 INFO] Step {step}/   25; acc: 3.1; ppl: 924.7; xent: 6.8; lr: 0.00100; sents:      14; "
    "bsz:  325/ 385/14; 808/957 tok/s;      2 sec;\n"
)
EOLE = (
    "[2026-11-17 13:16:53,042 INFO] Step {step}/   25; acc: 3.9; ppl: 770.70; xent: 6.65; aux: 0.000; mtp: 0.000; "
    "attn_ent: 3.129; lr: 1.00e-03; sents:      14; bsz: 4325/3385/14; 653/773 tok/s;      2 sec;\n"
)


@pytest.mark.parametrize(("line", "tokens"), [(OPENNMT, 385), (EOLE, 3385)])
def test_target_tokens_are_read_from_the_last_report(line: str, tokens: int) -> None:
    assert read_report("Loading\n" + line.format(step=25) + "Saving\n", steps=25) == 25 * tokens
    with pytest.raises(ContenderError, match="expected one report after step 24"):
        read_report(line.format(step=25), steps=24)
    with pytest.raises(ContenderError, match="found none"):
        read_report("Traceback: something", steps=25)


@pytest.mark.parametrize("work", ["transformer", "lstm"])
def test_peers_train_the_same_sizes(work: str, tmp_path: Path) -> None:
    """Half of Calque's batch budget: theirs counts one side."""
    corpus = Corpus("", *[tmp_path] * 5)
    texts = PieceTexts(tmp_path, tmp_path, tmp_path)
    job = Work(work, corpus, 8192, 8000, 1)  # type: ignore[arg-type]
    opennmt, eole = (
        config_of(peer, job, steps=7, texts=texts, model=tmp_path)
        for peer in ("opennmt-py", "eole")  # type: ignore[arg-type]
    )
    assert opennmt["batch_size"] == eole["training"]["batch_size"] == 4096
    assert opennmt["train_steps"] == opennmt["report_every"] == eole["training"]["train_steps"] == 7
    assert opennmt["dropout"] == eole["training"]["dropout"] == [0.1]
    assert opennmt["hidden_size"] == eole["model"]["hidden_size"] == 256
    assert opennmt["share_decoder_embeddings"] and eole["model"]["share_decoder_embeddings"]


def test_peers_meet_calque_with_its_own_and_with_their_rules() -> None:
    greedy = contenders([CALQUE], [PEER], beam=1, precisions=["float32"])
    assert [decoder.name for decoder in greedy.decoders] == ["here", "here same rules", "CTranslate2 int8"]
    beam = contenders([CALQUE], [PEER], beam=5, precisions=["float32", "bfloat16"])
    assert beam.bases == ("here", "here same rules", "here bfloat16", "here bfloat16 same rules")
    assert beam.text_base == greedy.text_base == "here same rules"
    settings = [
        decoder.settings for decoder in (*greedy.decoders, *beam.decoders) if isinstance(decoder, CalqueDecoder)
    ]
    own, limits, rules = ("minimum=3",), ("minimum=3", *SAME_LIMITS), ("minimum=3", *SAME_LIMITS, *SAME_SCORES)
    assert settings == [own, limits, own, rules, own, rules]
    assert [decoder.precision for decoder in beam.decoders] == ["float32"] * 2 + ["bfloat16"] * 2 + ["int8"]


def test_without_peers_every_tree_is_one_contender() -> None:
    assert contenders([CALQUE], [], beam=5, precisions=["float32"]).decoders == [CALQUE]
    other = CALQUE._replace(label="other")
    both = contenders([CALQUE, other], [], beam=5, precisions=["float32", "int8"])
    assert [decoder.name for decoder in both.decoders] == ["here", "here int8", "here other"]
    assert (both.bases, both.text_base) == (("here", "here int8"), "here")


def test_with_a_shortlist_calque_takes_part_twice() -> None:
    alone = contenders([CALQUE], [], beam=5, precisions=["float32"], shortlist=True).decoders
    assert [decoder.name for decoder in alone] == ["here", "here shortlist"]
    assert alone[1].settings == ("minimum=3", "shortlist=true")  # type: ignore[attr-defined]
    beside = contenders([CALQUE], [PEER], beam=5, precisions=["int8"], shortlist=True)
    names = ["here int8", "here int8 same rules", "here int8 shortlist", "here int8 same rules shortlist"]
    assert [decoder.name for decoder in beside.decoders] == [*names, PEER.name]
    assert PEER._replace(shortlist=True).name == f"{PEER.name} shortlist"
    assert not PEER._replace(compute_type="float32", shortlist=True).is_exact


def test_missing_peers_are_named_with_the_command_that_installs_them(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"it has no environment for opennmt-py, eole; .*install --into .* eole$"):
        open_environments(tmp_path, ["opennmt-py", "eole"])


def test_a_floor_is_operations_per_second_divided_by_operations() -> None:
    floor = Floor(flops=40e6, amount=2, peaks={"float32": 100e9, "bfloat16": 200e9, "int8": 400e9})
    assert floor.speed() == 5000
    assert floor.share(2500) == "50%"
    assert floor.share(2500, precision="int8") == "12%"
    assert "20.0 MFLOP per target token" in floor.described("target token", "CPU-s")


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (train.main, ["--peers", "nowhere"], "--peers nowhere: it has no environment for opennmt-py, eole"),
        (train.main, ["--peers", "nowhere", "--work", "language-model"], "--work transformer or --work lstm"),
        (decode.main, ["--peers", "nowhere"], "--peers nowhere: it has no environment for ctranslate2"),
        (
            decode.main,
            ["--peers", "nowhere", "--work", "lstm"],
            "--peers nowhere: it has no environment for opennmt-py",
        ),
    ],
)
def test_peers_that_are_not_there_are_a_message(
    main: object, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert callable(main)
    assert main(words) == 2
    assert message in capsys.readouterr().err


INSTALL = [str(ROOT / "benchmarks" / "peers" / "install")]


def test_install_explains_itself_and_rejects_what_it_does_not_know() -> None:
    shown = subprocess.run([*INSTALL, "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "Examples:" in shown.stdout
    for words, message in ((["fairseq"], "fairseq is neither"), (["--into"], "--into needs a folder")):
        rejected = subprocess.run([*INSTALL, *words], capture_output=True, text=True)
        assert (rejected.returncode, rejected.stdout) == (2, "")
        assert message in rejected.stderr
