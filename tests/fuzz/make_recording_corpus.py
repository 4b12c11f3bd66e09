# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the seeds of the fuzz targets kvt and pickle into corpus/, from the fixtures under tests/fixtures.

    python make_recording_corpus.py

Inputs that a fuzzer found (names beginning with "found-") are kept.
"""
import pathlib
import pickle

HERE = pathlib.Path(__file__).resolve().parent
FIXTURES = HERE.parent / "fixtures"
MIB = 1 << 20


def put(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def main():
    cut = (FIXTURES / "recordings" / "cut-1.kvt").read_bytes()
    put("kvt", "cut", cut)
    put("kvt", "half", cut[:len(cut) // 2])
    put("kvt", "header", cut[:512])
    put("kvt", "newer", cut[:60] + b"\0\0\0\x63" + cut[64:])
    put("kvt", "text", b"no recording at all")
    # Every number of the schema's page is worth a try.
    put("kvt", "flipped", bytes(b ^ 1 if i % 257 == 100 and i > 512 else b for i, b in enumerate(cut)))
    put("pickle", "old", (FIXTURES / "snapshots" / "old.pickle").read_bytes())
    put("pickle", "code", (FIXTURES / "snapshots" / "code.pickle").read_bytes())
    frames = [{"name": "f", "filename": "a.py", "line": 3}]
    one = {"segments": [{"device": 0, "address": MIB, "total_size": 2 * MIB, "stream": 0, "blocks": [
        {"address": MIB, "size": 512, "requested_size": 100, "state": "active_allocated", "frames": frames},
        {"address": MIB + 512, "size": 2 * MIB - 512, "requested_size": 0, "state": "inactive", "frames": []}]}],
        "device_traces": [[{"action": "segment_alloc", "addr": MIB, "size": 2 * MIB, "stream": 0, "time_us": 5, "frames": frames},
                           {"action": "alloc", "addr": MIB, "size": 100, "stream": 0, "time_us": 6, "frames": frames},
                           {"action": "oom", "device_free": 7, "size": 1 << 33, "stream": 0, "time_us": 7, "frames": frames}]],
        "allocator_settings": {"max_split_size": -1, "expandable_segments": True, "garbage_collection_threshold": 0.5}}
    for protocol in range(2, 6):
        put("pickle", f"protocol{protocol}", pickle.dumps(one, protocol))
    put("pickle", "many_cells", pickle.dumps({"segments": [{"device": 0, "address": 512, "total_size": 1 << 45, "blocks": [
        {"size": 1 << 44, "state": "active_allocated"}]}]}, 4))


if __name__ == "__main__":
    main()
