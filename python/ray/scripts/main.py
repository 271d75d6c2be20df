"""The `ray` command: `ray --version`, and a module of this folder for each command."""

import sys

_LATER = frozenset(
    (
        "attach check-open-ports cluster-dump dashboard down "
        "drain-node exec get get-head-ip get-worker-ips "
        "global-gc health-check job kill-actor kill-random-node list local-dump logs metrics "
        "monitor rsync-down rsync-up sanity-check stack submit summary "
        "timeline up"
    ).split()
)
_REFUSED = {
    "cpp": "the other language is C: see `ray c-flags`",
    "debug": "use `ray replay TASK_ID --pdb`, which runs a task that failed in this terminal",
    "disable-usage-stats": "it reports nothing to anybody",
    "enable-usage-stats": "it reports nothing to anybody",
    "serve": "Mobula is Ray's core only: tasks, actors and objects",
    "symmetric-run": "start the node by `ray start --head`, then your program",
}
_COMMANDS = frozenset(
    "c-flags get-auth-token memory microbenchmark replay start status stop".split()
)
_USAGE = """usage: ray [--version] COMMAND

commands:
  start --head      starts a node that outlives the programs that use it
  start --address   starts a node that joins the cluster of another one
  stop              ends the nodes that `ray start` began
  status            what the nodes have, what of it is used, and what waits for it
  get-auth-token    prints the cluster's token, which every node of it has to know
  replay TASK_ID    runs a task that failed again, in this terminal, with its arguments
  memory            the objects of a running session, who holds them, and why
  microbenchmark    how many tasks, actor calls, puts and gets a second this machine does
  c-flags           what the C compiler needs for a driver; with --compile, for a library
                    of tasks: see docs/c-api.md

`ray COMMAND --help` tells about each.
"""


def main(argv: "list[str] | None" = None) -> int:
    """Runs the command and returns its exit status."""
    args = sys.argv[1:] if argv is None else argv
    if args in ([], ["--help"], ["-h"], ["help"]):
        print(_USAGE, end="")
        return 0
    if args[0] == "--version":
        from ray._version import version

        print(f"ray, version {version}")
        return 0
    if args[0] in _COMMANDS:
        from importlib import import_module

        module = "ray.scripts." + args[0].replace("-", "_")
        return import_module(module).main(args[1:])
    if args[0] in _REFUSED:
        print(f"ray {args[0]} is not in Mobula: {_REFUSED[args[0]]}", file=sys.stderr)
    elif args[0] in _LATER:
        print(f"ray {args[0]} is not in Mobula yet", file=sys.stderr)
    else:
        print(f"ray: there is no command {args[0]!r}\n{_USAGE}", end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
