#!/usr/bin/env python3
"""uroce on emulated cards by their poll-mode drivers, in a guest: test_cards.py [--short] [part of a case's name]..."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / "system")]

import card_cases  # noqa: E402
import card_iommu  # noqa: E402
import cards  # noqa: E402
import harness  # noqa: E402
import interop  # noqa: E402
import rig  # noqa: E402
from card_cases import BadInput, Cards, Dmabufs  # noqa: E402, F401  pylint: disable=unused-import
from card_iommu import WithIommu  # noqa: E402, F401  pylint: disable=unused-import
from card_walk import Walk  # noqa: E402, F401  pylint: disable=unused-import

SHORT = {"virtio": ("on_its_own_mtu", "with_rxe"), "e1000e": ("on_its_largest_mtu",), "vmxnet3": ("on_programs",),
         "virtio_mtu": ()}  # for BadInput


def choose_cases():
    if "--short" not in sys.argv:
        card_iommu.add_cases(cards.IOMMU_MODELS)
        card_cases.add_cases(card_cases.CASES, cards.MODELS)
        return
    sys.argv.remove("--short")
    card_iommu.add_cases(cards.IOMMU_MODELS[:1])
    card_cases.models = [cards.BY_NAME[name] for name in SHORT]
    for name, cases in SHORT.items():
        card_cases.add_cases(cases, [cards.BY_NAME[name]])


if __name__ == "__main__":
    reason = rig.missing()
    if reason:
        print(f"1..1\nok 1 cards # SKIP {reason}")
        sys.exit()
    rig.enter_namespace()
    choose_cases()
    try:
        harness.main()
    finally:
        interop.save_results("cards-results.json")
