# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes tests/fixtures/snapshots: memory snapshots as torch.cuda.memory._dump_snapshot() writes them, from a small model of
PyTorch's caching allocator (512-byte blocks, segments of 2 MiB and more, best fit, splitting, merging), and what they must say.

    python make_memory_snapshots.py

protocol2.pickle … protocol5.pickle hold the same snapshot; expected.json its numbers after each action of the trace;
old.pickle lacks what older versions lack; code.pickle would run code if it were unpickled by Python.
"""
import json
import pathlib
import pickle
import random

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "snapshots"
MIB = 1 << 20


def up(size, to=512):
    return (size + to - 1) // to * to


class Allocator:
    """Blocks of a segment are lists [address, size, requested, state, frames], ascending."""

    def __init__(self, base):
        self.segments, self.trace, self.clock, self.next = [], [], 1_700_000_000_000_000, base
        self.settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False}

    def note(self, action, where, size, frames):
        self.clock += 37
        entry = {"action": action, "size": size, "stream": 0, "time_us": self.clock, "frames": frames}
        entry["device_free" if action == "oom" else "addr"] = where
        self.trace.append(entry)

    def alloc(self, requested, frames):
        size = up(requested)
        fits = [(b[1], s, i) for s in self.segments for i, b in enumerate(s["blocks"]) if b[3] == "inactive" and b[1] >= size
                and (s["small"] == (size <= MIB))]
        if not fits:
            total = 2 * MIB if size <= MIB else up(size, 2 * MIB)
            self.segments.append({"address": self.next, "small": size <= MIB, "blocks": [[self.next, total, 0, "inactive", []]]})
            self.note("segment_alloc", self.next, total, frames)
            self.next += total + 64 * MIB  # a hole of addresses behind each segment
            fits = [(total, self.segments[-1], 0)]
        _, segment, i = min(fits, key=lambda f: f[0])
        block = segment["blocks"][i]
        if block[1] > size:
            segment["blocks"].insert(i + 1, [block[0] + size, block[1] - size, 0, "inactive", []])
        block[1:] = [size, requested, "active_allocated", frames]
        self.note("alloc", block[0], requested, frames)
        return block[0]

    def find(self, address):
        return next((s, i) for s in self.segments for i, b in enumerate(s["blocks"]) if b[0] == address)

    def free(self, address):
        segment, i = self.find(address)
        block = segment["blocks"][i]
        self.note("free_requested", address, block[2], block[4])
        self.note("free_completed", address, block[2], block[4])
        block[2:] = [0, "inactive", []]
        for j in (i + 1, i):  # merge with the neighbours
            blocks = segment["blocks"]
            if 0 < j < len(blocks) and blocks[j - 1][3] == blocks[j][3] == "inactive":
                blocks[j - 1][1] += blocks.pop(j)[1]

    def empty_cache(self):
        for s in [s for s in self.segments if len(s["blocks"]) == 1 and s["blocks"][0][3] == "inactive"]:
            self.segments.remove(s)
            self.note("segment_free", s["address"], s["blocks"][0][1], [])

    def numbers(self):
        live = [b for s in self.segments for b in s["blocks"] if b[3] != "inactive"]
        return {"allocated": sum(b[1] for b in live), "asked_slots": sum(up(b[2]) // 512 for b in live), "live": len(live),
                "reserved": sum(b[1] for s in self.segments for b in s["blocks"])}

    def segment_list(self):
        return [{"device": 0, "address": s["address"], "total_size": sum(b[1] for b in s["blocks"]), "stream": 0,
                 "segment_type": "small" if s["small"] else "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                 "allocated_size": sum(b[1] for b in s["blocks"] if b[3] != "inactive"),
                 "blocks": [{"address": b[0], "size": b[1], "requested_size": b[2] or b[1], "state": b[3], "frames": b[4]}
                            for b in s["blocks"]]} for s in self.segments]


def frames_of(site):
    return [{"name": "empty", "filename": "/usr/lib/python3/site-packages/torch/functional.py", "line": 7},
            {"name": site, "filename": "/home/someone/model.py", "line": 10 + len(site)}]


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    random.seed(7)
    allocator = Allocator(0x7F2000000000)
    sites = {name: frames_of(name) for name in ("attention", "feed_forward", "loss")}
    live, expected, begin = [], [], None
    for action in range(260):
        if action == 60:  # the trace keeps the newest actions only
            begin = len(allocator.trace)
            expected.append(allocator.numbers())
        before = len(allocator.trace)
        if action == 150:
            allocator.empty_cache()
        elif action == 200:
            allocator.note("oom", 3 * MIB, 900 * MIB, sites["loss"])
        elif live and random.random() < 0.45:
            allocator.free(live.pop(random.randrange(len(live))))
        else:
            size = random.choice([100, 1000, 4096, 70_000, 700_000, 3 * MIB + 5, 9 * MIB])
            live.append(allocator.alloc(size, sites[random.choice(sorted(sites))]))
        if begin is not None:
            after = allocator.numbers()
            for entry in allocator.trace[before:]:
                if entry["action"] == "segment_alloc":  # before the block in it
                    expected.append({**expected[-1], "reserved": expected[-1]["reserved"] + entry["size"]})
                elif entry["action"] == "segment_free":
                    expected.append({**expected[-1], "reserved": expected[-1]["reserved"] - entry["size"]})
                elif entry["action"] != "free_requested":
                    expected.append(after)
    snapshot = {"segments": allocator.segment_list(), "device_traces": [allocator.trace[begin:], []],
                "allocator_settings": allocator.settings, "external_annotations": []}
    for protocol in range(2, 6):
        (FOLDER / f"protocol{protocol}.pickle").write_bytes(pickle.dumps(snapshot, protocol))
    (FOLDER / "expected.json").write_text(json.dumps(expected) + "\n")
    old = {"segments": [{"device": 1, "address": 4096, "total_size": 2 * MIB, "stream": 0, "blocks": [
        {"size": 1024, "state": "active_allocated"}, {"size": 2 * MIB - 2048, "state": "inactive"},
        {"size": 1024, "state": "active_pending_free", "history": [{"addr": 0, "real_size": 900, "frames": []}]}]}]}
    (FOLDER / "old.pickle").write_bytes(pickle.dumps(old, 4))
    (FOLDER / "code.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [], "extra": pathlib.PurePosixPath("x")}, 4))


if __name__ == "__main__":
    main()
