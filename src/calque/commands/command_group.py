"""The class of the command groups `calque`, `calque data` and `calque ngram`; it parses arguments and runs commands."""

from typing import Any

from typer.core import TyperGroup

from calque.commands.help_words import PlainHelp
from calque.commands.usage_errors import UsageError, refuse_usage, suggestion, with_help
from calque.errors import ConfigError


class CommandGroup(PlainHelp, TyperGroup):
    """A group of commands. Errors in the command line are raised as a ConfigError that says how to get help."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Runs a command line; help texts call the program `calque`, however it was started."""
        return super().main(*arguments, **{"prog_name": "calque", **options})

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the options of the group itself."""
        try:
            return list(super().parse_args(ctx, args))
        except UsageError as error:
            refuse_usage(error, ctx=ctx)
            raise

    def invoke(self, ctx: Any) -> Any:
        """Runs the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            refuse_usage(error, ctx=ctx)
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first argument names."""
        if not ctx.resilient_parsing and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            hint = suggestion(args[0], self.list_commands(ctx))
            raise ConfigError(with_help(f"no such command: {args[0]}{hint}", ctx=ctx))
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line."""
        return ["[OPTIONS]", "COMMAND ..."]
