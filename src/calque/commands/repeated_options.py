"""Rejects options that take one value but are given several times; otherwise, the last value would silently win."""

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from calque.commands.help_words import PlainHelp
from calque.errors import ConfigError


class SingleValueCommand(PlainHelp, TyperCommand):
    """A command that rejects a repeated option unless the option takes several values or is a flag."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parses the command line; a ConfigError names the options that are repeated."""
        if ctx.resilient_parsing:  # a shell completes the line
            return list(super().parse_args(ctx, args))
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        repeated = [
            f"{parameter.opts[0]} is given {count} times, but takes only one value"
            for parameter, count in Counter(order).items()
            if count > 1 and not getattr(parameter, "multiple", False) and not getattr(parameter, "is_flag", False)
        ]
        if repeated:
            raise ConfigError("\n".join(repeated))
        return list(super().parse_args(ctx, args))
