"""The command line. Every option's help is the docstring of its field; only the command that runs is imported."""

import os
import sys
import traceback
import warnings
from io import TextIOWrapper
from typing import Annotated, Any, Union

import tyro

from slewrl import __version__
from slewrl.errors import UserFacingError
from slewrl.registry import Registry

COMMANDS = Registry(
    "command",
    {
        "limits": "slewrl.commands.limits:Limits",
        "robot": "slewrl.commands.robot:Robot",
        "train": "slewrl.commands.train:Train",
        "evaluate": "slewrl.commands.show:Evaluate",
        "play": "slewrl.commands.show:Play",
        "campaign": "slewrl.commands.campaign:CampaignCommand",
        "report": "slewrl.commands.pages:Report",
        "calm": "slewrl.commands.calm:CalmCommand",
        "seeds": "slewrl.commands.seeds:Seeds",
        "export": "slewrl.commands.deploy:Export",
        "check": "slewrl.commands.deploy:Check",
        "prove": "slewrl.commands.prove:Prove",
        "demo": "slewrl.commands.pages:Demo",
    },
)
HELP = """Reinforcement learning under hard actuator rate limits: |a_t - a_{t-1}| <= delta, every joint, every step.

Where to start:
  slewrl demo                                            train, evaluate, audit: a page in five minutes
  slewrl limits robot.urdf --dt 0.02 --safety 0.9        from a robot's datasheet to limits.yaml
  slewrl train --task HalfCheetah-v5 --steps 60000       train under the paper's tight limits; --help for the rest
  slewrl evaluate runs/NAME                              what a trained policy comes to
  slewrl play runs/NAME --video out.mp4                  see it move
  slewrl campaign run mini                               many runs as one; slewrl campaign list for the paper's
  slewrl report runs/mini --html                         tables, figures and a page from a campaign's runs
  slewrl calm commands.csv --dt 0.02                     how much the commands of any robot shake
  slewrl seeds --sd 900 --difference 500                 how many seeds tell two methods apart
  slewrl export runs/NAME --out policy.bundle            one file for the robot
  slewrl check policy.bundle                             a million bad days for it, and a certificate
  slewrl prove limits.yaml                               that the limiter keeps them, for every command: a proof
  slewrl limits H1:paper --out h1.yaml                   the same for a built-in set of limits
  slewrl robot my.urdf                                   a robot of your own, ready to walk (or g1, h1)
  slewrl --version

In Python:  limits = RateLimits.from_yaml("limits.yaml");  make_layer("ddsrad")(latent, limits.box(prev)).executed"""


def refuse_repeats(arguments: list[str]) -> None:
    """An option given twice: only the second would count, and nobody would know."""
    options = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    if twice := [option for option in options if options.count(option) > 1]:
        raise ValueError(
            f"{twice[0]} is there twice, expected once (several values, where it takes them: {twice[0]} A B)"
        )


def say_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """A warning for a person: what it says, and for others than a user's the place."""
    where = "" if category is UserWarning else f"{filename}:{lineno}: {category.__name__}: "
    print(f"warning: {where}{message}", file=sys.stderr)


def refuse_empty(arguments: list[str]) -> None:
    """An empty value, mostly of a shell variable that is not set: an empty path would mean the folder one is in."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        option, equals, value = argument.partition("=")
        if argument == "" or (option.startswith("--") and equals and not value):
            name = before.partition("=")[0] if argument == "" else option
            named = name if name.startswith("--") else "an argument"
            raise ValueError(f"{named} is empty, expected a value (is a variable of the shell not set?)")


def parse(arguments: list[str]) -> Any:
    """The command that the arguments ask for, with its options."""
    if arguments and arguments[0] in list(COMMANDS):
        name, *options = arguments
        return tyro.cli(COMMANDS[name], prog=f"slewrl {name}", args=options)
    commands = [Annotated[kind, tyro.conf.subcommand(name)] for name, kind in COMMANDS.items()]
    return tyro.cli(Union[tuple(commands)], prog="slewrl", description=HELP, args=arguments)  # type: ignore[call-overload]  # noqa: UP007


def main() -> None:
    """Entry point of ``slewrl``."""
    warnings.showwarning = say_warning
    if sys.argv[1:] == ["--version"]:
        print(__version__)
        raise SystemExit(0)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a folder's name may hold what the terminal cannot show
    try:
        refuse_repeats(sys.argv[1:])
        refuse_empty(sys.argv[1:])
        raise SystemExit(parse(sys.argv[1:]).run())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # slewrl ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left to print goes nowhere
        raise SystemExit(0) from None
    except (ValueError, KeyError, OSError, FloatingPointError, UserFacingError) as error:
        # KeyError quotes its message; a person should not see that.
        print(f"error: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        if error.__cause__ is not None and isinstance(error, UserFacingError):
            where = traceback.extract_tb(error.__cause__.__traceback__)[-1]
            print(f"  raised at {where.filename}:{where.lineno}", file=sys.stderr)
        raise SystemExit(2) from None
