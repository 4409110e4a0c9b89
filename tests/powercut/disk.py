"""A disk that forgets: a file served by FUSE that keeps what was flushed apart from what was only written.

A loop device over the file passes writes and flushes on as they come. A line written to `cut` makes two images:
NAME.none, with what was flushed alone, and NAME.half, with a random half of the sectors written since. The cut
falls between two requests, whatever the process on the disk is doing.
"""
import os
import random
import sys

from fuse import FUSE, Operations

MIB = int(os.environ.get("DISK_MIB", "320"))
SECTOR = int(os.environ.get("SECTOR", "512"))
PIECE = 1 << 16


class Disk(Operations):
    def __init__(self, out):
        self.out = out
        self.written = bytearray(MIB << 20)
        self.flushed = bytearray(MIB << 20)
        self.since = []
        self.flushes = 0

    def getattr(self, path, fh=None):
        if path == "/":
            return dict(st_mode=0o40755, st_nlink=2)
        size = MIB << 20 if path == "/disk" else 0
        return dict(st_mode=0o100644, st_nlink=1, st_size=size)

    def readdir(self, path, fh):
        return [".", "..", "disk", "cut"]

    def open(self, path, flags):
        return 1

    def truncate(self, path, length, fh=None):
        return 0

    def read(self, path, size, offset, fh):
        return bytes(self.written[offset:offset + size])

    def write(self, path, data, offset, fh):
        if path == "/cut":
            self.cut(data.decode().strip())
        else:
            self.written[offset:offset + len(data)] = data
            self.since.append((offset, offset + len(data)))
        return len(data)

    def fsync(self, path, datasync, fh):
        if path == "/disk":
            for begin, end in self.since:
                self.flushed[begin:end] = self.written[begin:end]
            self.since.clear()
            self.flushes += 1
        return 0

    def cut(self, name):
        dice = random.Random(name)
        sectors = sorted({n for begin, end in self.since for n in range(begin // SECTOR, (end - 1) // SECTOR + 1)})
        arrived = [n for n in sectors if dice.random() < 0.5]
        for kind, there in (("none", []), ("half", arrived)):
            with open(os.path.join(self.out, f"{name}.{kind}"), "wb") as image:
                image.truncate(len(self.flushed))
                empty = bytes(PIECE)
                for at in range(0, len(self.flushed), PIECE):
                    piece = self.flushed[at:at + PIECE]
                    if piece != empty:
                        image.seek(at)
                        image.write(piece)
                for n in there:
                    image.seek(n * SECTOR)
                    image.write(self.written[n * SECTOR:(n + 1) * SECTOR])
        with open(os.path.join(self.out, f"{name}.told"), "w") as told:
            told.write(f"{self.flushes} {len(sectors)}")


if __name__ == "__main__":
    FUSE(Disk(sys.argv[2]), sys.argv[1], foreground=True, nothreads=True, big_writes=True, max_write=131072,
         attr_timeout=60, entry_timeout=60)
