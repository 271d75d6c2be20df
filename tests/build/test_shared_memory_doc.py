"""docs/shared-memory.md names every field that lies in shared memory, and no field that does not.

Reads the structs out of the headers, so a field that is added without a bullet on that page fails
here. On the page a struct is a heading, ### `struct_t` (its header), and each of its fields a
bullet, - **field**, with at least the points Values and Writer below it.

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
    "src/shm/wait.h": ["shm_wait_t"],
    "src/shm/arena.h": ["shm_extent_t", "shm_block_t"],
    "src/store/slot.h": ["store_flow_t", "store_slot_t"],
    "src/wire/record.h": ["wire_record_t"],
    "include/mobula.h": ["mob_ref_t", "mob_pickle_t"],
}
# Structs of these headers that stay in one process's memory.
PRIVATE = {"wire_body_t", "wire_setup_t", "wire_writer_t"}
# Headers of the rooms that lay out shared memory, without a struct that lies there: one process's
# own books, the rules of flows (whose struct is slot.h's), the format of a file, what goes over the
# socket and what a message's bytes mean.
NOT_SHARED = {
    "src/shm/heap.h",
    "src/shm/segment.h",
    "src/store/flow.h",
    "src/store/spill.h",
    "src/wire/message.h",
}
LAYOUT_ROOMS = ["shm", "store", "wire"]
PAGE = "docs/shared-memory.md"
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


def page_fields(text):
    """Of each struct on the page: the header that its heading names, and its fields with the points
    that stand below each. A heading of any kind ends a struct.
    """
    found, own, points = {}, None, None
    for line in text.splitlines():
        heading = re.match(r"### `(\w+)` \(([\w./]+)\)$", line)
        field = re.match(r"- \*\*([\w.]+)\*\*$", line)
        point = re.match(r"  - (\w+): \S", line)
        if heading:
            own = {}
            found[heading.group(1)] = (heading.group(2), own)
        elif line.startswith("#"):
            own = None
        elif field and own is not None:
            points = own[field.group(1)] = set()
        elif point and own:
            points.add(point.group(1))
    return found


def headers_below(folder):
    path = os.path.join(SOURCE, folder)
    return sorted(f"{folder}/{name}" for name in os.listdir(path) if name.endswith(".h"))


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

    def test_parser_of_the_page(self):
        sample = """
### `one_t` (src/shm/one.h)

- **word**
  - Values: 1, or
    - Writer: of nothing
  - Writer: the daemon
- **value.small**
  - Values: bytes

#### Changes of its word

- **FREE**
## Further on
- **other**
"""
        self.assertEqual(
            page_fields(sample),
            {
                "one_t": (
                    "src/shm/one.h",
                    {"word": {"Values", "Writer"}, "value.small": {"Values"}},
                )
            },
        )

    def test_every_field_is_there_and_no_other(self):
        page = page_fields(read(PAGE))
        for path, names in SHARED.items():
            found = structs(read(path))
            for name in names:
                with self.subTest(struct=name):
                    self.assertIn(name, found, f"{path} has no {name} any more")
                    self.assertIn(name, page, f"{PAGE} has no heading of it")
                    header, listed = page[name]
                    self.assertEqual(header, path)
                    own = set(fields(found[name]))
                    self.assertTrue(own)
                    self.assertEqual(own - set(listed), set(), f"not on {PAGE}")
                    self.assertEqual(set(listed) - own, set(), "not in the header any more")

    def test_every_field_has_values_and_a_writer(self):
        for name, (_, listed) in page_fields(read(PAGE)).items():
            for field, points in listed.items():
                with self.subTest(field=f"{name}.{field}"):
                    self.assertLessEqual({"Values", "Writer"}, points)
                    self.assertLessEqual(points, {"Values", "Writer", "Death", "Order"})

    def test_no_struct_is_on_the_page_that_is_not_shared(self):
        shared = {name for names in SHARED.values() for name in names}
        self.assertEqual(set(page_fields(read(PAGE))) - shared, set())

    def test_no_header_has_another_struct(self):
        listed = {name for names in SHARED.values() for name in names} | PRIVATE
        for path in (p for room in LAYOUT_ROOMS for p in headers_below(f"src/{room}")):
            if path not in NOT_SHARED:
                self.assertEqual(
                    set(structs(read(path))) - listed, set(), f"{path}: shared or private?"
                )

    def test_layouts_are_in_the_rooms_that_lay_out(self):
        # A shared struct in a header of the client or the daemon would escape the test above.
        for room in sorted(os.listdir(os.path.join(SOURCE, "src"))):
            if room in LAYOUT_ROOMS or not os.path.isdir(os.path.join(SOURCE, "src", room)):
                continue
            for path in headers_below(f"src/{room}"):
                for name in structs(read(path)):
                    self.assertNotIn(name.split("_")[0], LAYOUT_ROOMS, path)


if __name__ == "__main__":
    SOURCE = os.path.realpath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
