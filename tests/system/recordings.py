"""Recordings of the daemons that a system test starts, where the environment has UROCE_TEST_RECORD: those of a failed test stay in
build/recordings/TEST. With UROCE_TEST_RECORD=all those of every test stay."""

import atexit
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

WANTED = os.environ.get("UROCE_TEST_RECORD", "")
KEPT = pathlib.Path(os.environ.get("UROCE_BUILD", "build")).resolve() / "recordings"
MIB = 16
# That two engines' recordings may take of a daemon's memory.
MOST_KIB = 2 * MIB * 1024 if WANTED else 0
_folders = {}  # by the folder of a test: where its daemons record


def options(command, directory):
    """More words for a command line, where it starts a daemon that is to be recorded."""
    words = [str(word) for word in command]
    starts = any(pathlib.Path(word).name == "uroced" for word in words) and ({"--demo", "--interface", "--"} & set(words))
    if not WANTED or not starts or "--record" in words:
        return []
    if directory not in _folders:
        # It lies on tmpfs. Daemons may give up root before they record.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="uroce-recordings-", dir="/dev/shm"))
        folder.chmod(0o1777)
        _folders[directory] = folder
    return ["--record", str(_folders[directory]), "--set", f"engines.record_mib={MIB}"]


def keep(name, folders=None):
    """Copies all recordings of now, or of these folders, to a folder of this name. Returns it, or None where there are none."""
    files = [file for folder in folders or _folders.values() for file in sorted(folder.glob("*.uroce"))]
    if not files:
        return None
    kept = KEPT / name
    kept.mkdir(parents=True, exist_ok=True)
    for file in files:
        subprocess.run(["cp", "--sparse=always", file, kept], check=True, timeout=60)
    return kept


def forget(directory, name):
    """The test with this folder has ended."""
    folder = _folders.get(directory)
    if folder is None:
        return
    if WANTED == "all":
        keep(name, [folder])
    del _folders[directory]
    shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _forget_all():
    for directory in list(_folders):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            forget(directory, pathlib.Path(directory).name)
