#!/usr/bin/env python3
"""Runs system suites with all daemons recorded, and replays every recording.

Usage: replay_recordings.py [SUITE...]      UROCE_BUILD names the build folder
Without suites those of SUITES run, in which queue pairs also fail, daemons die, are replaced and meet fault rules. The recordings
stay in build/recordings. The exit code is 1 where a replay differs, or where fewer than 50 recordings have traffic."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys

import harness
import recordings

# Not `connections`: it counts the daemon's memory, of which a recording is a part.
SUITES = ("faults", "clients", "verbs_programs", "crash", "replace", "replace_cm", "daemon_death")
LEAST = 50
# The reasons of a daemon that was killed while it started.
NOTHING = ("it has 0 bytes", "nothing is recorded in it")
HERE = pathlib.Path(__file__).parent
UROCE = harness.BUILD / "apps" / "uroce" / "uroce"


def run_suite(suite):
    env = {**os.environ, "UROCE_TEST_RECORD": "all", "UROCE_BUILD": str(harness.BUILD)}
    done = subprocess.run([HERE / f"test_{suite}.py"], env=env, capture_output=True, text=True, timeout=1800, check=False)
    lines = done.stdout.splitlines()
    failed = [line for line in lines if line.startswith("not ok")]
    print(f"{suite}: {sum(line.startswith('ok') for line in lines)} passed, {len(failed)} failed", *failed, sep="\n  ", flush=True)
    if failed:
        print(done.stderr, flush=True)


def replay(file):
    """Replays a recording and dumps it."""
    done = subprocess.run([UROCE, "replay", "--json", file], capture_output=True, text=True, timeout=600, check=False)
    dumped = subprocess.run([UROCE, "record", "dump", file], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            timeout=600, check=False)
    if any(why in done.stderr for why in NOTHING):
        return {"divergence": None, "frames_in": 0, "frames_out": 0}
    said = json.loads(done.stdout) if done.stdout else {"divergence": done.stderr.strip(), "frames_in": 0, "frames_out": 0}
    if done.returncode != 0 and said["divergence"] is None:
        said["divergence"] = f"exit code {done.returncode}: {done.stderr.strip()}"
    if dumped.returncode != 0 and said["divergence"] is None:
        said["divergence"] = f"record dump: {dumped.stderr.strip()}"
    return said


def main():
    shutil.rmtree(recordings.KEPT, ignore_errors=True)
    for suite in sys.argv[1:] or SUITES:
        run_suite(suite)
    files = sorted(recordings.KEPT.rglob("*.uroce"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(replay, files))
    busy = [one for one in said if one["frames_in"] + one["frames_out"] > 0]
    same = [one for one in busy if one["divergence"] is None]
    for file, one in zip(files, said):
        if one["divergence"] is not None:
            print(f"{file.relative_to(recordings.KEPT)}: {one['divergence']}")
    print(f"{len(same)} of {len(busy)} recordings with traffic are bit-exact, and "
          f"{sum(one['divergence'] is None for one in said) - len(same)} of {len(said) - len(busy)} without: "
          f"{sum(one['frames_in'] + one['frames_out'] for one in busy)} frames, {sum(one['completions'] for one in same)} completions")
    sys.exit(len(same) < LEAST and not sys.argv[1:] or any(one["divergence"] is not None for one in said))


main()
