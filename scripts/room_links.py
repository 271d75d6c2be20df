"""Makes a room's include folder: links to exactly the rooms that it may see, and nothing else.

Usage: room_links.py SOURCE_FOLDER ROOM_FOLDER ROOM...
"""

import os
import sys


def main(source, folder, *rooms):
    os.makedirs(folder, exist_ok=True)
    for name in set(os.listdir(folder)) - set(rooms):
        os.unlink(os.path.join(folder, name))
    for room in rooms:
        link, target = os.path.join(folder, room), os.path.join(source, room)
        if os.path.islink(link) and os.readlink(link) == target:
            continue
        if os.path.lexists(link):
            os.unlink(link)
        os.symlink(target, link)


if __name__ == "__main__":
    main(*sys.argv[1:])
