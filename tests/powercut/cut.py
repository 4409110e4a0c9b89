"""Cuts the power under a store, again and again, and looks at what is left.

    cut.py CHILD WORK CUTS THREADS SYNC ENGINE:MODE...

Each cut: a fresh disk that forgets (disk.py), ext4 on it, a child that runs graphs on many threads and says what
it was told; at a random moment the cut. What the child had said by then is owed. Both images are mounted, which
lets ext4 replay its journal, and a second child opens the store, checks every thread, and goes on with each.
Ends with 1 if anything that was owed is lost; without sync, if nothing is.
"""
import os
import random
import subprocess
import sys
import threading
import time

# Where images are kept of which something is lost, as they were before anything looked at them.
KEEP = os.environ.get("KEEP")
HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"none": "nothing of it arrived", "half": "half of it arrived"}


def sh(*words, check=True, **more):
    return subprocess.run(words, check=check, capture_output=True, text=True, **more)


def patiently(*words):
    for _ in range(50):
        if sh(*words, check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise SystemExit(f"{' '.join(words)} does not work")


class Place:
    """Folders of one run of this script."""

    def __init__(self, work):
        self.fuse, self.mount, self.out = (os.path.join(work, name) for name in ("fuse", "mount", "out"))
        for path in (self.fuse, self.mount, self.out):
            os.makedirs(path, exist_ok=True)
        self.store = os.path.join(self.mount, "store")


class Child:
    """Writes until it is killed. What it has said is read meanwhile."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.said = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            # A kill may cut the last line.
            if line.endswith("\n"):
                self.said.append(line)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(5)


def cut(child, place, name, threads, sync, engine, mode, dice):
    disk = subprocess.Popen([sys.executable, os.path.join(HERE, "disk.py"), place.fuse, place.out])
    file = os.path.join(place.fuse, "disk")
    while not os.path.exists(file):
        time.sleep(0.02)
    sh("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", file)
    loop = sh("losetup", "-f", "--show", file).stdout.strip()
    sh("mount", loop, place.mount)
    writer = Child([child, "write", engine, mode, place.store, threads, sync])
    end = time.time() + 60
    while len(writer.said) < 2 and writer.process.poll() is None and time.time() < end:
        time.sleep(0.005)
    # From the first moments of a store to several seconds of it.
    time.sleep(dice.choice([0.0, 0.1, 0.5, 1.0, 2.0]) + dice.random())
    owed = list(writer.said)
    with open(os.path.join(place.fuse, "cut"), "w") as told:
        told.write(name)
    died = writer.process.poll()
    writer.kill()
    patiently("umount", place.mount)
    sh("losetup", "-d", loop, check=False)
    sh("fusermount", "-u", "-z", place.fuse, check=False)
    disk.terminate()
    disk.wait()
    if died is not None:
        raise SystemExit(f"the child ended by itself: {owed[-1:]}")
    acknowledged = os.path.join(place.out, f"{name}.owed")
    # What was about to be deleted by the cut is not owed, even if that was said after `owed` was taken.
    deleting = [line for line in writer.said[len(owed):] if line.startswith("W ")]
    with open(acknowledged, "w") as file:
        file.writelines(owed[1:] + deleting)
    left = {}
    for kind in KINDS:
        image = os.path.join(place.out, f"{name}.{kind}")
        if KEEP:
            sh("cp", "--sparse=always", image, os.path.join(KEEP, f"{name}.{kind}"))
        loop = sh("losetup", "-f", "--show", image).stdout.strip()
        if sh("mount", loop, place.mount, check=False).returncode != 0:
            left[kind] = "the file system does not mount"
        else:
            try:
                ran = sh(child, "verify", engine, place.store, acknowledged, check=False, timeout=300)
                left[kind] = ran.stdout.strip() or f"exit {ran.returncode}: {ran.stderr.strip()[-300:]}"
            except subprocess.TimeoutExpired:
                left[kind] = "it hangs"
            patiently("umount", place.mount)
        sh("losetup", "-d", loop, check=False)
        os.unlink(image)
        if KEEP and left[kind].startswith("left lost 0 wrong 0 "):
            os.unlink(os.path.join(KEEP, f"{name}.{kind}"))
        elif KEEP:
            sh("cp", acknowledged, KEEP)
    flushes, unflushed = open(os.path.join(place.out, f"{name}.told")).read().split()
    return owed[1:], int(flushes), int(unflushed), left


def main():
    child, work, cuts, threads, sync = sys.argv[1:6]
    place = Place(work)
    lost_anything = False
    for what in sys.argv[6:]:
        engine, mode = what.split(":")
        dice = random.Random(f"{what} {os.environ.get('SEED', '1')}")
        tally = {kind: dict(clean=0, losses=0, lost=0, wrong=0, corrupt=0, broken=0) for kind in KINDS}
        acknowledged = flushes = unflushed = records = 0
        told = []
        for number in range(int(cuts)):
            name = f"{engine}-{mode}-{os.environ.get('SEED', '1')}-{number}"
            owed, more, waiting, left = cut(child, place, name, threads, sync, engine, mode, dice)
            acknowledged += len(owed)
            flushes += more
            unflushed += waiting
            for kind, text in left.items():
                sums, first = tally[kind], text.splitlines()[0]
                words = first.split()
                if words[0] == "left":
                    lost, wrong = int(words[2]), int(words[4])
                    records += int(words[8])
                    sums["lost"] += lost
                    sums["wrong"] += wrong
                    sums["losses" if lost or wrong else "clean"] += 1
                else:
                    sums["corrupt" if words[0] == "corrupt" else "broken"] += 1
                if words[0] != "left" or lost or wrong:
                    told.append(f"{name} {kind}: {text[:400]}")
        print(f"{engine} {mode} {sync}: {cuts} cuts under {threads} threads, {acknowledged} acknowledgements, "
              f"{flushes} flushes of the disk, {unflushed} sectors not flushed, {records} records read back")
        for kind, sums in tally.items():
            print(f"  {KINDS[kind]}: {sums['clean']} whole, {sums['losses']} with losses ({sums['lost']} records lost, "
                  f"{sums['wrong']} things wrong), {sums['corrupt']} corrupt, {sums['broken']} broken")
            lost_anything |= sums["losses"] + sums["broken"] > 0
            # A store that says so has lost what was owed all the same.
            lost_anything |= sums["corrupt"] > 0
        for line in told[:4]:
            print("    " + line.replace("\n", " | "))
        sys.stdout.flush()
    sys.exit(lost_anything if sync == "sync" else not lost_anything)


main()
