"""docs/shared-memory.md names every field that lies in shared memory, and no field that does not.

Reads the structs out of the headers, so a field that is added without a line on that page fails
here.

Usage: test_shared_memory_doc.py SOURCE_ROOT
"""

import os
import re
import sys
import unittest

SHARED = {
    "src/shm/node.h": ["shm_node_t"],
    "src/shm/lane.h": ["shm_lane_t", "shm_worker_bits_t"],
    "src/shm/lease.h": ["shm_lease_t"],
    "src/shm/queue.h": ["shm_queue_t"],
    "src/shm/events.h": ["shm_event_t", "shm_events_t"],
    "src/shm/bell.h": ["shm_bell_t"],
    "src/shm/ring.h": ["shm_message_t", "shm_ring_t"],
    "src/shm/arena.h": ["shm_extent_t", "shm_block_t"],
    "src/store/slot.h": ["store_slot_t"],
    "src/wire/record.h": ["wire_record_t"],
    "include/mobula.h": ["mob_ref_t", "mob_pickle_t"],
}
# Structs of these headers that stay in one process's memory.
PRIVATE = {"wire_body_t"}
SOURCE = ""


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as f:
        return f.read()


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def block_end(text, start):
    """The index of the brace that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("a brace that is never closed")


def structs(text):
    """Name and body of each `typedef struct {...} name;`."""
    text = without_comments(text)
    found = {}
    for match in re.finditer(r"typedef\s+struct\b[^{;]*\{", text):
        end = block_end(text, match.end() - 1)
        name = re.match(r"\s*(\w+)\s*;", text[end + 1 :])
        if name:
            found[name.group(1)] = text[match.end() : end]
    return found


def fields(body, prefix=""):
    """The fields of a struct's body; of a struct or union inside it, its own name and those of its
    fields.
    """
    at, names = 0, []
    while at < len(body):
        inner = re.compile(r"\s*(?:struct|union)\b[^{;]*\{").match(body, at)
        if inner:
            end = block_end(body, inner.end() - 1)
            stop = body.index(";", end)
            own = re.match(r"\s*(\w*)", body[end + 1 : stop]).group(1)
            names += [prefix + own] if own else []
            names += fields(body[inner.end() : end], f"{prefix}{own}." if own else prefix)
        else:
            stop = body.find(";", at)
            if stop < 0:
                break
            declaration = re.sub(r"alignas\s*\([^)]*\)|\[[^]]*\]", "", body[at:stop])
            names += [
                prefix + re.search(r"(\w+)\s*$", part).group(1)
                for part in declaration.split(",")
                if part.strip()
            ]
        at = stop + 1
    return names


class SharedMemoryPage(unittest.TestCase):
    def test_parser(self):
        sample = """
            typedef struct one {
                /* a; b */ alignas(64) _Atomic uint64_t word, other[4 * 2]; uint8_t *p;
            } one_t;
            typedef struct {
                union { uint8_t small[3]; struct { int block; } large; } value;
                struct { int x, y; } table[];
            } two_t;
        """
        found = structs(sample)
        self.assertEqual(fields(found["one_t"]), ["word", "other", "p"])
        self.assertEqual(
            fields(found["two_t"]),
            [
                "value",
                "value.small",
                "value.large",
                "value.large.block",
                "table",
                "table.x",
                "table.y",
            ],
        )

    def test_every_field_is_named(self):
        page = set(re.findall(r"`([\w.]+)`", read("docs/shared-memory.md")))
        for path, names in SHARED.items():
            found = structs(read(path))
            for name in names:
                self.assertIn(name, found, f"{path} has no {name} any more")
                own = fields(found[name])
                self.assertTrue(own, name)
                for field in own:
                    # A struct inside that only groups fields is named by them.
                    if (
                        any(other.startswith(field + ".") for other in own)
                        and f"{name}.{field}" not in page
                    ):
                        continue
                    with self.subTest(field=f"{name}.{field}"):
                        self.assertIn(
                            f"{name}.{field}", page, "docs/shared-memory.md does not name it"
                        )

    def test_nothing_else_is_named(self):
        known = set()
        for path, names in SHARED.items():
            found = structs(read(path))
            for name in names:
                known |= {f"{name}.{field}" for field in fields(found[name])}
        named = set(re.findall(r"`((?:\w+_t)\.[\w.]+)`", read("docs/shared-memory.md")))
        self.assertEqual(named - known, set(), "fields that are not there any more")

    def test_no_shared_header_has_another_struct(self):
        listed = {name for names in SHARED.values() for name in names} | PRIVATE
        for path in SHARED:
            if path.startswith("src/"):
                self.assertEqual(
                    set(structs(read(path))) - listed, set(), f"{path}: shared or private?"
                )


if __name__ == "__main__":
    SOURCE = os.path.realpath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
