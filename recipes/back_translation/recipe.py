"""Back-translation on Multi30k, English to German: with half of the pairs, and with none.

CORPORA/multi30k holds train, val and test_2016_flickr, as .en.gz and .de.gz. Half of the training pairs stay pairs. Of
the other half, the German side serves as monolingual text; for the iterated variant, so does the English side, in
another order. The unsupervised variants read the English of the first half and the German of the second. Their only
pairs are those of val, with which models are selected.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from calque.evaluation.metrics import score_translations
from recipes.back_translation.graph import Corpus, Synthesis, Training, synthesis_job, training_job
from recipes.back_translation.lexicon import induce, word_for_word, word_vectors, words_of
from recipes.back_translation.steps import to
from recipes.back_translation.text import halve, tagged
from recipes.runner.files import read_lines, write_lines
from recipes.runner.pair_recipe import Baseline, Column, Options, Recipe, Row, read_part, write_pairs
from recipes.runner.scheduler import Job

HERE = Path(__file__).resolve().parent
TEST = "test_2016_flickr"
ROUNDS = 5  # of unsupervised back-translation
FIRST = ("training.steps=1200", "training.validate_every=400")
LATER = (
    "training.steps=800",
    "training.validate_every=400",
    "training.average=3",
    "training.schedule.warmup=100",
    "training.optimiser.learning_rate=0.001",
)

PAIRS = Corpus("data/all/train.source", "data/all/train.target")
REVERSED = Corpus("data/all/train.target", "data/all/train.source")
FORWARD, BACKWARD = (
    Corpus("data/all/valid.source", "data/all/valid.target"),
    Corpus("data/all/valid.target", "data/all/valid.source"),
)
GERMAN, ENGLISH = "data/all/mono.target", "data/all/mono.source"


def synthetic(name: str, target: str, *, tag: bool = False) -> Corpus:
    """Synthetic sources for a monolingual text."""
    return Corpus(f"synthetic/{name}-{{seed}}.{'tagged.' if tag else ''}txt", target)


SUPERVISED: tuple[Training | Synthesis, ...] = (
    Training("half", (PAIRS,), FORWARD),
    Training("all", (Corpus("data/all/full.source", "data/all/full.target"),), FORWARD),
    Training("reverse", (REVERSED,), BACKWARD),
    Synthesis("en-beam", ("reverse",), ("translate", "reverse-{seed}", GERMAN, "beam=5")),
    Synthesis("en-sample", ("reverse",), ("translate", "reverse-{seed}", GERMAN, "method=sample")),
    Training("beam", (PAIRS, synthetic("en-beam", GERMAN)), FORWARD, ("en-beam",)),
    Training("sample", (PAIRS, synthetic("en-sample", GERMAN)), FORWARD, ("en-sample",)),
    Training("tagged", (PAIRS, synthetic("en-beam", GERMAN, tag=True)), FORWARD, ("en-beam",)),
    Synthesis("de-beam", ("tagged",), ("translate", "tagged-{seed}", ENGLISH, "beam=5")),
    Training("reverse2", (REVERSED, synthetic("de-beam", ENGLISH, tag=True)), BACKWARD, ("de-beam",)),
    Synthesis("en-again", ("reverse2",), ("translate", "reverse2-{seed}", GERMAN, "beam=5")),
    Training("iterated", (PAIRS, synthetic("en-again", GERMAN, tag=True)), FORWARD, ("en-again",)),
)


def unsupervised() -> list[Training | Synthesis]:
    """The rounds of unsupervised training: each run translates both texts for the next one.

    Round 0 restores noised sentences and word-for-word translations. Later rounds start from the run before, and read
    its translations of both texts as sources, besides noised sentences.
    """
    texts = {"en": "data/unsupervised/en.txt", "de": "data/unsupervised/de.txt"}
    valid = Corpus("data/unsupervised/valid.source", "data/unsupervised/valid.target")
    restoring = [
        Corpus(f"synthetic/noised-{language}-{{seed}}.txt", f"synthetic/restored-{language}-{{seed}}.txt", 0.34)
        for language in texts
    ]
    literal = [
        Corpus("synthetic/literal-de-{seed}.txt", texts["en"]),
        Corpus("synthetic/literal-en-{seed}.txt", texts["de"]),
    ]
    steps: list[Training | Synthesis] = [
        Synthesis("lexicon", (), ("lexicon",)),
        Training("unsupervised-0", (*restoring, *literal), valid, ("lexicon",), settings=FIRST),
    ]
    for number in range(1, ROUNDS + 1):
        before, names = f"unsupervised-{number - 1}", {"de": f"de-{number}", "en": f"en-{number}"}
        for language, name in names.items():
            other = "en" if language == "de" else "de"
            source = f"data/unsupervised/{other}.tagged.txt"  # tagged with the other language: to be translated
            steps.append(
                Synthesis(
                    name,
                    (before,),
                    ("translate", f"{before}-{{seed}}", source, to(other), "beam=1", "length_penalty=0"),
                )
            )
        corpora = [synthetic(names["de"], texts["en"], tag=True), synthetic(names["en"], texts["de"], tag=True)]
        quiet = [corpus._replace(weight=0.1) for corpus in restoring]
        steps.append(
            Training(
                f"unsupervised-{number}",
                (*corpora, *quiet),
                valid,
                tuple(names.values()),
                start=before,
                settings=LATER,
                cost=1.0,
            )
        )
    return steps


def prepare(corpora: Path, data: Path) -> dict[str, int]:
    """Writes pairs and monolingual texts; returns the number of lines of each."""
    folder = corpora / "multi30k"
    train, valid, test = (
        list(zip(*(read_lines(folder / f"{part}.{side}.gz") for side in ("en", "de")), strict=True))
        for part in ("train", "val", TEST)
    )
    halves = halve(train)
    write_pairs(data / "all", {"train": halves.pairs, "full": train, "valid": valid, "test": test})
    write_lines(data / "all" / "mono.source", halves.sources)
    write_lines(data / "all" / "mono.target", halves.targets)
    group = data / "unsupervised"
    english, german = [source for source, _ in halves.pairs], halves.targets
    for language, lines in (("en", english), ("de", german)):
        other = "de" if language == "en" else "en"
        write_lines(group / f"{language}.txt", lines)
        write_lines(group / f"{language}.tagged.txt", tagged(lines, to(other)))
    tag = to("de")
    write_pairs(
        group,
        {
            "train": zip(english, german, strict=False),  # not pairs: samples only
            "valid": [(f"{tag} {source}", target) for source, target in valid],
            "test": [(f"{tag} {source}", target) for source, target in test],
        },
    )
    return {"pairs": len(halves.pairs), "monolingual": len(halves.targets), "valid": len(valid), "test": len(test)}


def score(group: Path, outputs: Sequence[str]) -> Mapping[str, float]:
    """Lowercased and cased BLEU, and chrF."""
    scores = score_translations(outputs, [target for _, target in read_part(group, "test")])
    return {"bleu": scores.bleu_lowercased.value, "cased": scores.bleu.value, "chrf": scores.chrf.value}


def copied(group: Path) -> list[str]:
    """The unchanged English source: its score shows what shared names and punctuation alone are worth."""
    return [source.removeprefix(to("de")).strip() for source, _ in read_part(group, "test")]


def literal(group: Path) -> list[str]:
    """Word-for-word translations with a lexicon that is induced from the two monolingual texts."""
    texts = ([words_of(line) for line in read_lines(group / f"{language}.txt")] for language in ("en", "de"))
    lexicon = induce(*map(word_vectors, texts))
    return [word_for_word(source, lexicon.forward) for source in copied(group)]


def jobs(recipe: Recipe, out: Path, options: Options, wanted: set[str]) -> list[Job]:
    """The jobs that train the wanted runs and all runs that they depend on."""
    steps = {step.name: step for step in (*SUPERVISED, *unsupervised())}
    chosen: dict[str, Training | Synthesis] = {}

    def choose(name: str) -> None:
        step = steps[name]
        start = getattr(step, "start", None)
        for need in (*step.needs, *([start] if start else [])):
            choose(need)
        chosen[name] = step

    for name in sorted(wanted):
        choose(name)
    settings = (f"training.device={options.device}", "training.threads=1", *options.settings)
    config, prefix = HERE / "transformer.toml", recipe.name
    return [
        training_job(step, seed, out=out, prefix=prefix, config=config, settings=settings)
        if isinstance(step, Training)
        else synthesis_job(step, seed, out=out, prefix=prefix, device=options.device)
        for seed in options.seeds
        for step in chosen.values()
    ]


RECIPE = Recipe(
    name="back_translation",
    module=__name__,
    prepare=prepare,
    score=score,
    jobs=jobs,
    systems=(),
    rows=(
        Row("half", "half of the pairs", "half"),
        Row("beam", "and German, back-translated with a beam", "beam"),
        Row("sample", "and German, back-translated by sampling", "sample"),
        Row("tagged", "and German, back-translated with a beam, tagged", "tagged"),
        Row("iterated", "and German and English, iterated, tagged", "iterated"),
        Row("all", "all pairs", "all"),
        *(
            Row(f"unsupervised-{number}", f"no pairs, round {number}", f"unsupervised-{number}", group="unsupervised")
            for number in range(ROUNDS + 1)
        ),
    ),
    baselines=(
        Baseline("copied", "the English source", copied, "unsupervised"),
        Baseline("literal", "no pairs, word for word by the lexicon", literal, "unsupervised"),
    ),
    columns=(Column("bleu", "BLEU lowercased", 2), Column("cased", "BLEU cased", 2), Column("chrf", "chrF", 2)),
)
