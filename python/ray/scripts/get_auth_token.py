"""`ray get-auth-token`: prints the cluster's token, which every node of the cluster has to know."""

import argparse
import sys


def main(args) -> int:
    parser = argparse.ArgumentParser("ray get-auth-token", description=__doc__)
    parser.add_argument(
        "--generate", action="store_true", help="make ~/.ray/auth_token if there is none"
    )
    options = parser.parse_args(args)
    from ray._private import token

    try:
        found = token.make() if options.generate else token.find()
    except OSError as error:
        print(f"ray get-auth-token: {error}", file=sys.stderr)
        return 1
    if found is None:
        print(
            "ray get-auth-token: there is no token: make one with --generate, or copy "
            "~/.ray/auth_token from a node of the cluster",
            file=sys.stderr,
        )
        return 1
    print(found)
    return 0
