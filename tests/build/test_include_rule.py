"""A room that includes a header of a room it may not see does not compile.

Takes each room's real compiler command from the build, and lets it compile small files of that
room. The rule is stated here a second time, in full and by hand, so that a slip in the build's own
table shows.

Usage: test_include_rule.py SOURCE_ROOT BUILD_ROOT
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SEES = {
    "base": {"base"},
    "wire": {"base", "wire"},
    "shm": {"base", "shm"},
    "store": {"base", "shm", "store"},
    "sched": {"base", "sched"},
    "control": {"base", "control"},
    "knot": {"base", "knot"},
    "actor": {"base", "control", "frame", "actor"},
    "frame": {"base", "frame"},
    "net": {"base", "net"},
    "redis": {"base", "control", "redis"},
    "link": {"base", "link"},
    "refs": {"base", "frame", "refs"},
    "pull": {"base", "control", "frame", "pull"},
    "place": {"base", "frame", "place"},
    "member": {"base", "control", "member"},
    "bulk": {"base", "net", "frame", "bulk"},
    "mesh": {"base", "net", "link", "mesh"},
    "group": {"base", "control", "frame", "group"},
    "client": {"base", "wire", "shm", "store", "client"},
    "node": {
        *("base", "wire", "shm", "store", "sched", "control", "actor", "knot", "frame", "node"),
        *("member", "redis", "net", "link", "mesh", "refs", "place", "pull", "bulk"),
        "group",
    },
    "task": {"base", "wire", "shm", "store", "client", "task"},
    "sim": {
        *(
            "base",
            "control",
            "actor",
            "frame",
            "link",
            "refs",
            "pull",
            "place",
            "member",
            "group",
            "sim",
        ),
    },
    "python": {"base", "wire", "shm", "store", "client", "task", "python"},
}
SOURCE, BUILD = "", ""


def room_commands():
    """The command (without source and output) with which each room is compiled, and the folder it
    is run in.
    """
    commands = {}
    with open(os.path.join(BUILD, "compile_commands.json")) as f:
        entries = json.load(f)
    for entry in entries:
        source = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
        parts = os.path.relpath(source, os.path.join(SOURCE, "src")).split(os.sep)
        if len(parts) != 2 or parts[0] == "..":
            continue
        if parts[0] != "sim" and "-DBASE_RULES_CAN_BREAK" in entry["command"]:
            continue  # the simulator compiles other rooms' files once more
        words, kept = iter(shlex.split(entry["command"])), []
        for word in words:
            if word in ("-o", "-MF", "-MQ"):
                next(words)
            elif word not in ("-c", "-MD", entry["file"]):
                kept.append(word)
        commands.setdefault(parts[0], (kept, entry["directory"]))
    return commands


def headers():
    src = os.path.join(SOURCE, "src")
    return [
        f"{room}/{name}"
        for room in sorted(os.listdir(src))
        if os.path.isdir(os.path.join(src, room))
        for name in sorted(os.listdir(os.path.join(src, room)))
        if name.endswith(".h")
    ]


class IncludeRule(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = room_commands()

    def compile(self, room, text):
        command, folder = self.commands[room]
        with tempfile.TemporaryDirectory() as scratch:
            source = os.path.join(scratch, "probe.c")
            with open(source, "w") as f:
                f.write(text)
            return subprocess.run(
                [*command, "-fsyntax-only", source], cwd=folder, stderr=subprocess.PIPE, text=True
            )

    def test_allowed_include_compiles(self):
        done = self.compile("sched", '#include "base/vec.h"\nextern int probe;\n')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_forbidden_include_breaks_the_build(self):
        self.assertTrue(os.path.exists(os.path.join(SOURCE, "src/shm/ring.h")))
        done = self.compile("sched", '#include "shm/ring.h"\nextern int probe;\n')
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"shm/ring\.h: No such file")

    def test_every_room_sees_exactly_its_rooms(self):
        self.assertEqual(
            set(self.commands), set(SEES), "the build's rooms and the ones listed here"
        )
        for room, sees in SEES.items():
            lines = ["extern int probe;"]
            for header in headers():
                allowed = header.split("/")[0] in sees
                lines.append(f'#if {"!" if allowed else ""}__has_include("{header}")')
                lines.append(f"#error {room} {'cannot' if allowed else 'can'} include {header}")
                lines.append("#endif")
            with self.subTest(room=room):
                done = self.compile(room, "\n".join(lines) + "\n")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_include_climbs_out_of_its_room(self):
        # A quoted include is also looked up beside its file, so "../shm/ring.h" is the one way
        # around the folders.
        for path, _, names in os.walk(os.path.join(SOURCE, "src")):
            for name in names:
                if name.endswith((".c", ".h")):
                    with open(os.path.join(path, name), encoding="utf-8") as f:
                        self.assertIsNone(
                            re.search(r'#\s*include\s*["<][^">]*\.\./', f.read()),
                            os.path.join(path, name),
                        )


if __name__ == "__main__":
    SOURCE, BUILD = (os.path.realpath(folder) for folder in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
