#!/usr/bin/env python3
"""uroce against rxe of Debian's kernel, which runs in a guest: test_rxe.py [part of a case's name]..."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import guest as guests  # noqa: E402
import harness  # noqa: E402
import interop  # noqa: E402
import rig  # noqa: E402
from errors import Dropped, Errors, Unanswered  # noqa: E402, F401  pylint: disable=unused-import
from faults import Faults  # noqa: E402, F401  pylint: disable=unused-import
from hello import Hello  # noqa: E402, F401  pylint: disable=unused-import
from matrix import Interface, Matrix, OnDemand  # noqa: E402, F401  pylint: disable=unused-import
from ping import Ping  # noqa: E402, F401  pylint: disable=unused-import
from placement import FlushOfRxe, Placement  # noqa: E402, F401  pylint: disable=unused-import
from programs import Programs, TimeWait  # noqa: E402, F401  pylint: disable=unused-import

if __name__ == "__main__":
    reason = rig.missing()
    if reason:
        print(f"1..1\nok 1 rxe # SKIP {reason}")
        sys.exit()
    rig.enter_namespace()
    try:
        harness.main()
    finally:
        interop.save_results(guests.KERNEL.name.replace("kernel", "results") + ".json")
