"""Emulated cards behind a virtual IOMMU."""

import card_cases
import cards
import interop


class WithIommu(card_cases.Case):
    """Cards bound to vfio-pci behind a virtual IOMMU: no physical addresses, and idle engines sleep until an interrupt."""

    _rig = None
    models = []  # whose cards the guest has

    @classmethod
    def rig(cls):
        if cls._rig is None:
            cls._rig = cards.CardRig(cls.models, with_rxe=False, first=len(cards.MODELS), **cards.IOMMU)
        return cls._rig

    @classmethod
    def tearDownClass(cls):
        if cls._rig is not None:
            cls._rig.close()

    def received_interrupts(self, card):
        lines = self.rig().guest.run(f"grep 'vfio-msix.[1-9].*({card.pci})' /proc/interrupts || true").splitlines()
        return sum(int(count) for line in lines for count in line.split()[1:3])

    def on_vfio(self, model):
        daemon = self.daemon_on(self.rig(), model, driver="vfio-pci")
        self.transfer_all(daemon.peer(0), daemon.peer(1), 1024, card_cases.WITH_RXE)
        self.transfer_all(daemon.peer(1), daemon.peer(0), 1024, card_cases.WITH_RXE, family=6)
        interrupts = [self.received_interrupts(card) for card in daemon.cards]
        self.assertIn("an idle engine wakes by interrupt" if model.interrupts else "an idle engine wakes by naps", daemon.end())
        self.assertEqual([count > 0 for count in interrupts], [model.interrupts] * 2, interrupts)
        interop.record("cards", model.name, "vfio-pci")


def add_cases(models):
    WithIommu.models = models
    for each in models:
        setattr(WithIommu, f"test_{each.name}", lambda self, model=each: self.on_vfio(model))
