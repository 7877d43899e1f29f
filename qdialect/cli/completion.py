"""Completion for shells, made from the tables of commands and flags.

What the shell asks while one types needs no Python: words are written into the script. Names
of passes and targets are those that are installed when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qdialect.cli.flags import Command, Flag

SHELLS = ("bash", "zsh", "fish")


def script(shell: str, programs: Mapping[str, Sequence[Command]], values: Mapping[str, str]) -> str:
    """The script for a shell. `programs` are commands by program: of a program with several,
    each is `program word...`; `values` are words that a flag takes, by flag."""
    if shell == "fish":
        return _fish(programs, values)
    lines = ["# Completion of qdialect's commands; made by: qopt completion " + shell]
    if shell == "zsh":
        lines += ["autoload -U +X bashcompinit && bashcompinit"]
    for program, commands in programs.items():
        lines += _function(program, commands, values)
    return "\n".join(lines) + "\n"


def _words(commands: Sequence[Command], program: str) -> dict[str, Command]:
    """Commands by the words after the program's name."""
    return {command.name.removeprefix(program).strip(): command for command in commands}


def spellings(flag: Flag) -> list[str]:
    """A flag as one types it."""
    return [("-" if len(name) == 1 else "--") + name for name in flag.names]


def _function(program: str, commands: Sequence[Command], values: Mapping[str, str]) -> list[str]:
    name = "_" + program.replace("-", "_")
    by_words = _words(commands, program)
    first = " ".join(sorted({words.split()[0] for words in by_words if words}))
    lines = [
        f"{name}() {{",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local flags="" values=""',
        "  COMPREPLY=()",
    ]
    if first:
        lines += [
            "  if [[ $COMP_CWORD -eq 1 ]]; then",
            f'    COMPREPLY=($(compgen -W "{first}" -- "$cur"))',
            "    return",
            "  fi",
        ]
    lines.append('  case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in')
    # The longer name first: `profile merge` is no `profile` with an argument.
    for words in sorted(by_words, key=lambda words: -len(words.split())):
        lines += _case(words, by_words[words], values)
    lines += [
        "  esac",
        '  if [[ -n "$values" ]]; then',
        '    COMPREPLY=($(compgen -W "$values" -- "$cur"))',
        '  elif [[ "$cur" == -* ]]; then',
        '    COMPREPLY=($(compgen -W "$flags" -- "$cur"))',
        "  else",
        '    COMPREPLY=($(compgen -f -- "$cur"))',
        "  fi",
        "}",
        f"complete -o filenames -F {name} {program}",
    ]
    return lines


def _case(words: str, command: Command, values: Mapping[str, str]) -> list[str]:
    pattern = "*" if not words else f'"{words}"' if " " in words else f'"{words} "*'
    flags = " ".join(text for flag in command.flags for text in spellings(flag))
    lines = [f"    {pattern})", f'      flags="{flags}"', '      case "$prev" in']
    for flag in command.flags:
        taken = " ".join(flag.choices) or values.get(flag.name, "")
        if taken and flag.kind == "value":
            lines.append(f'        {"|".join(spellings(flag))}) values="{taken}" ;;')
    return [*lines, "        *) ;;", "      esac", "      ;;"]


def _fish(programs: Mapping[str, Sequence[Command]], values: Mapping[str, str]) -> str:
    lines = ["# Completion of qdialect's commands; made by: qopt completion fish"]
    for program, commands in programs.items():
        by_words = _words(commands, program)
        for words, command in by_words.items():
            about = _quoted(" ".join(command.summary.split()))
            when = ""
            if words:
                head, _, tail = words.partition(" ")
                if tail:
                    seen = f"__fish_seen_subcommand_from {head}"
                    lines.append(f"complete -c {program} -n '{seen}' -a {tail} -d {about}")
                    when = f" -n '{seen}; and __fish_seen_subcommand_from {tail}'"
                else:
                    start = "__fish_use_subcommand"
                    lines.append(f"complete -c {program} -n {start} -a {head} -d {about}")
                    when = f" -n '__fish_seen_subcommand_from {head}'"
            for flag in command.flags:
                lines.append(f"complete -c {program}{when} {_fish_flag(flag, values)}")
    return "\n".join(lines) + "\n"


def _fish_flag(flag: Flag, values: Mapping[str, str]) -> str:
    names = " ".join(f"-{'s' if len(name) == 1 else 'l'} {name}" for name in flag.names)
    taken = " ".join(flag.choices) or values.get(flag.name, "")
    takes = ""
    if flag.kind == "value":
        takes = f" -x -a '{taken}'" if taken else " -r"
    return f"{names}{takes} -d {_quoted(flag.help)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
