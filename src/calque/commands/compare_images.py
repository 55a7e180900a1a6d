"""`calque compare --images`: compares captioners, or files of captions, on the images of a manifest."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from calque.commands.compare_task import ComparisonRequest, Document, TaskComparison
from calque.commands.compare_translation_tables import translation_tables
from calque.commands.compare_translations import translation_settings
from calque.commands.compared_systems import Argument, Options, load, model_facts, read_lines, speed
from calque.errors import CalqueError, ConfigError

if TYPE_CHECKING:
    from calque.data.image_manifests import Entry
    from calque.evaluation.comparison.translations import System


def compare_captions(request: ComparisonRequest) -> Document:
    """Compares captions like translations, with the first caption of each image as its reference.

    Returns the comparison as a JSON document.
    """
    from calque.commands.progress import preparing
    from calque.engine.captioner_boxes import manifest_entries
    from calque.evaluation.comparison.translations import EvaluationSet, System, check_systems, compare_translations

    arguments, options, images = request.arguments, request.options, request.files["--images"]
    settings = translation_settings(request)
    entries = manifest_entries(images)
    if without := sum(not entry.captions for entry in entries):
        raise ConfigError(f"{images}: {without:,} images have no reference caption; add captions to the manifest")
    test = EvaluationSet(
        [entry.captions[0] for entry in entries], None, {"source": None, "reference": str(images)}, None
    )
    files = {item.name: read_lines(item.path) for item in arguments if item.is_file}
    check_systems(test, [System(item.name, files.get(item.name, [""] * len(entries))) for item in arguments])
    systems = [
        System(item.name, files[item.name], item.group, item.facts)
        if item.is_file
        else _captioned(item, entries, options=options)
        for item in arguments
    ]
    with preparing() as progress:
        return compare_translations(test, systems, settings=settings, training=None, labels=None, progress=progress)


def _captioned(argument: Argument, entries: "Sequence[Entry]", *, options: Options) -> "System":
    """Captions all images with a model; returns the captions and facts such as the model's size and speed."""
    from calque.commands.caption_scores import UNUSED
    from calque.commands.loading import refuse_idle_beam_settings, search_of
    from calque.commands.progress import counting
    from calque.engine import Captioner, CaptionRequest
    from calque.evaluation.comparison.translations import System

    captioner = load(argument, Captioner, device=options.device, precision=options.precision)
    settings = list(argument.settings)
    has_beam = any(setting.removeprefix("search.").startswith("beam=") for setting in settings)
    search = search_of(captioner.search, settings, beam=None if has_beam else options.beam, nbest=1, batch_tokens=None)
    refuse_idle_beam_settings(settings, search=search, unused=UNUSED)
    texts, started = [], time.perf_counter()
    with counting(f"captioning with {argument.name}", total=len(entries)) as advance:
        for answer in captioner.answers(CaptionRequest(entry.image, search) for entry in entries):
            if isinstance(answer, CalqueError):
                raise answer
            texts.append(answer.text)
            advance(1)
    pace = speed(
        time.perf_counter() - started,
        len(texts),
        sum(len(text.split()) for text in texts),
        device=str(captioner.device),
    )
    return System(argument.name, texts, argument.group, model_facts(argument, captioner) | {"speed": pace})


CAPTIONING = TaskComparison(
    "captioning",
    "--images",
    "--images for captioners",
    compare_captions,
    translation_tables,
    takes=frozenset({"--group", "--metric", "--sentences", "--beam"}),
    searches=True,
)
