"""Help that shows the value of an option as FILE, FOLDER or N, not as a Python type."""

from typing import Any


class PlainHelp:
    """A mixin for commands and groups whose help shows no Python types; it must precede Typer's class among the bases.

    The value of an option is shown as its `metavar`. If all options are in panels, --help is put in one too.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, without Python types in their help."""
        parameters: list[Any] = list(super().get_params(ctx))  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
            elif parameter.param_type_name == "argument":
                parameter.display_type_rich = _no_type
        *options, help_option = [item for item in parameters if item.param_type_name == "option"] or [None]
        if options and all(getattr(option, "rich_help_panel", None) for option in options):
            help_option.rich_help_panel = "Help"
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line: MODEL for an argument that is required, [NAME] for one that is not."""
        pieces = ["[OPTIONS]"]
        for parameter in self.get_params(ctx):
            if parameter.param_type_name != "argument":
                continue
            word = parameter.metavar or parameter.name.upper()
            pieces.append(word if parameter.required or word.startswith("[") else f"[{word}]")
        return pieces


def _no_type(ctx: Any) -> None:
    """Returns None instead of the type that Typer would show next to the name of an argument."""
