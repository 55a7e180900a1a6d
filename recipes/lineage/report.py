"""The results of the line as tables, figures and the papers' claims, a part for each corpus.

    python recipes/lineage/report.py OUT [OUT2 ...] --keep recipes/lineage/results
    python recipes/lineage/report.py recipes/lineage/results/*.jsonl --write recipes/lineage/README.md

    python recipes/lineage/report.py recipes/lineage/results/*.jsonl --brief README.md README.zh.md

Each PATH is a folder of runs, or a file that was kept of one. It prints the report; --keep writes what it needs to
FOLDER/CORPUS.jsonl, --write puts it between the marks of a file, and the figures beside that file; --brief puts one
short table of all corpora between the marks of each file.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, get_args

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

import pages
from claims import LONG, MARGIN, SHORT, claims_table, findings, loss_at_length
from corpus import UNITS, CorpusKind
from figure import draw_line
from lengths import BUCKET_NAMES, JOINED
from results import Results, collect, keep

# the heads of the short table, by the name of the marks that it goes between
BRIEF_HEADS = {
    "line": ("entry", "parameters", "Multi30k BLEU", "chrF", "1-10 words", "41-60 words", "tokens/s", "dialogues BLEU"),
    "line zh": ("条目", "参数", "Multi30k BLEU", "chrF", "1-10 词", "41-60 词", "词元/秒", "对话 BLEU"),
}
SPEEDS = "speed.json"  # what speed.py has written, beside what was kept or in a folder of runs

Speeds = Mapping[str, float]  # target tokens a second, by entry


def table(results: Results, *, speeds: Speeds) -> str:
    """One row an entry, in Markdown; means over seeds, and the range of BLEU. Speeds have a column if there are any."""
    head = (
        *("entry", "parameters", "rate", "seeds", "BLEU lowercased (range)", "cased", "chrF"),
        *(("target tokens/s",) if speeds else ()),
        *(*BUCKET_NAMES, f"lost on {LONG}, %"),
    )
    rows = []
    for name, seeds in results.items():
        ones = list(seeds.values())
        rows.append(
            [
                name,
                _all(f"{one['parameters']:,}" for one in ones),
                _all(one["learning_rate"] for one in ones),
                str(len(ones)),
                _ranged(_bleu(seeds), digits=2, bold=True),
                *(f"{pages.mean([one[key] for one in ones]):.2f}" for key in ("bleu", "chrf")),
                *((_speed(name, speeds),) if speeds else ()),
                *(_at_length(ones, bucket) for bucket in BUCKET_NAMES),
                _lost(ones),
            ]
        )
    return pages.table(head, rows)


def brief(collected: Mapping[CorpusKind, Results], *, head: Sequence[str], speeds: Speeds) -> str:
    """One row an entry, for all corpora, in Markdown: lowercased BLEU (with its range) and chrF, means over seeds."""
    captions, dialogues = (collected.get(corpus, {}) for corpus in get_args(CorpusKind))
    if not captions:
        raise ValueError("the short table needs results of multi30k")
    highest = max(pages.mean(_bleu(seeds)) for seeds in captions.values())
    rows = []
    for name, seeds in captions.items():
        ones, bleu = list(seeds.values()), _bleu(seeds)
        rows.append(
            [
                f"`{name}`",
                f"{ones[0]['parameters'] / 1e6:.1f} M",
                _ranged(bleu, digits=1, bold=pages.mean(bleu) == highest),
                f"{pages.mean([one['chrf'] for one in ones]):.1f}",
                *(_at_length(ones, bucket) for bucket in (SHORT, LONG)),
                _speed(name, speeds),
                f"{pages.mean(_bleu(dialogues[name])):.1f}" if name in dialogues else "",
            ]
        )
    return pages.table(head, rows)


def made_with(results: Results) -> str:
    """What the numbers were made with: a list in Markdown; where runs differ, all there is."""
    ones = [one for seeds in results.values() for one in seeds.values()]

    def told(*keys: str) -> str:
        return _all(reduce(getitem, keys, one) for one in ones)

    lengths = ", ".join(f"{name}: {told('lengths', name, 'sentences')}" for name in BUCKET_NAMES)
    signatures = (("BLEU lowercased", "bleu_lowercased"), ("BLEU cased", "bleu"), ("chrF", "chrf"))
    lines = [
        f"{len(ones)} runs of {told('steps')} steps on {told('device')}",
        f"torch {told('torch')}, Calque {told('calque')}; data {_all(one['data'][:12] for one in ones)}",
        f"beam {told('search', 'beam')}, length penalty {told('search', 'length_penalty')}",
        f"sentences by length, of the test set and its neighbours joined by {', '.join(map(str, JOINED))}: {lengths}; "
        f"longer and left out: {told('longer')}",
        *(f"{name}: `{told('signatures', key)}`" for name, key in signatures),
    ]
    return "\n".join(f"- {line}" for line in lines)


def report(corpus: CorpusKind, results: Results, *, speeds: Speeds) -> str:
    """All of one corpus, in Markdown."""
    unit = UNITS[corpus]
    parts = [
        f"1-10 to 41-60 are lowercased BLEU by {unit} of the source; what is lost there is said below the figure.",
        table(results, speeds=speeds if corpus == "multi30k" else {}),
        f"![BLEU by the length of the source, and of all entries]({figure_name(corpus)})",
        "A difference is *shown* where its mean is larger than the seeds' spread, the largest distance between two "
        "seeds of one entry.\nA loss on long sentences is what joined sources of "
        f"{BUCKET_NAMES[-1]} {unit} score less, in per cent, when they are translated at once\nthan when their "
        f"sentences are translated one by one; a system *loses* where every seed loses more than {MARGIN:g} %, "
        "and does not\nwhere none does.",
        claims_table(findings(results)),
        made_with(results),
    ]
    return "\n\n".join(parts) + "\n"


def figure_name(corpus: CorpusKind) -> str:
    """`lineage-multi30k.png`."""
    return f"lineage-{corpus}.png"


def filled(text: str, *, corpus: CorpusKind, results: str) -> str:
    """`text` with the results between the marks of their corpus."""
    return pages.filled(text, results, name=f"results {corpus}")


def write_brief(page: Path, collected: Mapping[CorpusKind, Results], *, speeds: Speeds) -> None:
    """Puts the short table between the marks that the page has for it."""
    text = page.read_text(encoding="utf-8")
    name = next((name for name in BRIEF_HEADS if f"<!-- {name} -->" in text), "line")
    pages.write_page(page, brief(collected, head=BRIEF_HEADS[name], speeds=speeds), name=name)


def read_speeds(paths: Sequence[Path]) -> Speeds:
    """What was measured of each entry by itself, where these results were made; nothing where that was not done."""
    found = dict.fromkeys((path if path.is_dir() else path.parent) / SPEEDS for path in paths)
    return {name: speed for path in found if path.is_file() for name, speed in json.loads(path.read_bytes()).items()}


def _bleu(seeds: Mapping[int, Mapping[str, Any]]) -> list[float]:
    return [one["bleu_lowercased"] for one in seeds.values()]


def _at_length(ones: Sequence[Mapping[str, Any]], bucket: str) -> str:
    values = [one["lengths"][bucket]["bleu_lowercased"] for one in ones]
    return "" if None in values else f"{pages.mean(values):.1f}"


def _lost(ones: Sequence[Mapping[str, Any]]) -> str:
    losses = [loss for one in ones if (loss := loss_at_length(one)) is not None]
    return f"{min(losses):.0f} to {max(losses):.0f}" if len(losses) == len(ones) else ""


def _speed(name: str, speeds: Speeds) -> str:
    return f"{round(speeds[name], -2):,.0f}" if name in speeds else ""


def _ranged(values: Sequence[float], *, digits: int, bold: bool) -> str:
    told = f"{pages.mean(values):.{digits}f}"
    return f"{f'**{told}**' if bold else told} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def _all(values: Any) -> str:
    return " / ".join(dict.fromkeys(map(str, values)))


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", metavar="PATH")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="for the results, one compact file a corpus")
    parser.add_argument("--write", type=Path, metavar="FILE", help="with marks to be filled; figures go beside it")
    parser.add_argument("--brief", type=Path, nargs="+", default=[], metavar="FILE", help="pages with marks for it")
    given = parser.parse_args()
    try:
        collected = collect(given.paths)
        if not collected:
            raise ValueError(f"no results in {', '.join(map(str, given.paths))}")
        speeds = read_speeds(given.paths)
        reports = {corpus: report(corpus, results, speeds=speeds) for corpus, results in collected.items()}
        for corpus, text in reports.items():
            print(f"## {corpus}\n\n{text}")
        if given.keep:
            keep(given.keep, collected)
        if given.write:
            text = given.write.read_text(encoding="utf-8")
            for corpus, results in reports.items():
                text = filled(text, corpus=corpus, results=results)
            given.write.write_text(text, encoding="utf-8")
            for corpus, found in collected.items():
                draw_line(given.write.parent / figure_name(corpus), found, unit=UNITS[corpus])
        for page in given.brief:
            write_brief(page, collected, speeds=speeds)
    except (OSError, ValueError) as error:
        print(f"report.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    _main()
