"""Search settings that were asked for and that nothing would read."""

from collections.abc import Sequence

from calque.commands.company import Company
from calque.errors import ConfigError
from calque.search.settings import SearchConfig


def refuse_idle_settings(settings: Sequence[str], *, search: SearchConfig, company: Company) -> None:
    """Raises a ConfigError that names every such setting of a command line with what it is read with.

    What is at its default passes, as it asks for nothing.
    """
    draws = (search.method != "beam", "method=sample or method=risk")
    risks = (search.method == "risk", "method=risk")
    language, reverse = company.language is not None, company.reverse is not None
    uses = {
        **dict.fromkeys(("temperature", "top_k", "top_p", "min_p", "seed"), draws),
        **dict.fromkeys(("samples", "utility"), risks),
        "groups": (search.method == "beam", "method=beam"),
        "diversity": (search.method == "beam" and search.groups > 1, "groups=2 or more"),
        "patience": (search.method == "beam" and search.stopping == "patience", "stopping=patience"),
        "ensemble": (bool(company.ensemble), "--ensemble"),
        "language_weight": (language and not reverse, "--language, and without --reverse"),
        "prior_weight": (language and reverse, "--language and --reverse"),
        "channel_weight": (reverse, "--reverse"),
    }
    given = dict.fromkeys(text.partition("=")[0].strip().removeprefix("search.") for text in settings)
    idle = [
        f"{key}={getattr(search, key)} changes nothing: it is read only with {uses[key][1]}"
        for key in given
        if key in uses and not uses[key][0] and getattr(search, key) != SearchConfig.model_fields[key].default
    ]
    if idle:
        raise ConfigError("\n".join(idle))
