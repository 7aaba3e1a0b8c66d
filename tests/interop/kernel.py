#!/usr/bin/env python3
"""Debian's kernel for the guest: kernel.py FOLDER downloads the image package and keeps of it what the guest boots.
kernel.py FOLDER PACKAGE takes another image package, a file: newer kernels' rxe has operations that Debian 12's lacks.

FOLDER then has the kernel, `release`, the modules and their names in the order in which they load: in `modules` those of every
guest, in `card_modules` more for guests with cards, in `storage_modules` more for guests that mount remote disks. Nothing is
installed: this machine's own boot stays as it is.
"""

import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

METAPACKAGE = "linux-image-amd64"
KERNEL = "kernel"  # in the folder
# Modules that the guest loads, each after those that it needs. rxe asks the crypto layer for `crc32` by name.
ROOTS = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm")
# The kernel's drivers of emulated cards, and those that give a card to a program.
CARD_ROOTS = ("8021q", "e1000", "e1000e", "vmxnet3", "igb", "uio_pci_generic", "vfio_pci", "vfio_iommu_type1")
# Initiators of iSER and NVMe over RDMA, Linux's own NVMe target to compare with, and what ext4 asks the crypto layer for.
STORAGE_ROOTS = ("crc32c_generic", "ext4", "sd_mod", "ib_iser", "nvme_rdma", "nvmet_rdma", "loop", "sch_netem")
# The modules beside those of every guest, by the list's name.
MORE_ROOTS = {"card_modules": CARD_ROOTS, "storage_modules": STORAGE_ROOTS}


def run(*command, cwd=None, seconds=300):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def download(work):
    """The image package, in the folder `work`."""
    found = re.search(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", METAPACKAGE))
    if not found:
        raise RuntimeError(f"apt knows no package {METAPACKAGE}")
    run("apt-get", "download", "-qq", found[1], cwd=work)
    return next(work.glob("*.deb"))


def depends(module):
    """The modules that a module needs, by its own list."""
    found = re.search(rb"\0depends=([^\0]*)\0", module.read_bytes())
    return [name for name in (found[1].decode().split(",") if found else []) if name]


def load_order(files, builtin, roots, loaded=()):
    """Paths of the modules that the guest needs beside `loaded`, each after those it depends on."""
    order = []

    def visit(name):
        name = name.replace("-", "_")
        if name in builtin:
            return
        path = files.get(name)
        if path is None:
            raise RuntimeError(f"the kernel has no module {name}")
        if path in order or path in loaded:
            return
        for other in depends(path):
            visit(other)
        order.append(path)

    for root in roots:
        visit(root)
    return order


def unpacked(modules):
    """Newer packages have compressed modules, which the guest's insmod does not load."""
    for path in modules.rglob("*.ko.xz"):
        path.with_suffix("").write_bytes(lzma.decompress(path.read_bytes()))


def ready_to_run(image):
    """The kernel without the program in front of it that unpacks it: an emulated processor needs seconds for that. QEMU starts either.
    With a compression other than xz it is the whole image."""
    sectors, offset = image[0x1F1], int.from_bytes(image[0x248:0x24C], "little")  # Documentation/arch/x86/boot.rst
    packed = image[(sectors + 1) * 512 + offset:]
    return lzma.LZMADecompressor().decompress(packed) if packed.startswith(b"\xfd7zXZ") else image


def keep(tree, folder):
    """Moves from an unpacked package what the guest boots."""
    modules = next((tree / "lib/modules").iterdir())
    unpacked(modules)
    files = {path.stem.replace("-", "_"): path for path in modules.rglob("*.ko")}
    builtin = {pathlib.Path(line).stem.replace("-", "_") for line in (modules / "modules.builtin").read_text().split()}
    always = load_order(files, builtin, ROOTS)
    lists = {name: load_order(files, builtin, roots, always) for name, roots in MORE_ROOTS.items()}
    for name, order in {"modules": always, **lists}.items():
        for path in order:
            shutil.copy(path, folder / path.name)
        (folder / name).write_text("".join(path.name + "\n" for path in order))
    (folder / KERNEL).write_bytes(ready_to_run(next((tree / "boot").glob("vmlinuz-*")).read_bytes()))
    (folder / "release").write_text(modules.name + "\n")


def fetch(folder, package=None):
    """Downloads into `folder`, or takes `package`. It then is complete or not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".kernel-") as name:
        work = pathlib.Path(name)
        try:
            package = package or download(work)
        except RuntimeError:  # Stale lists name files that the mirror no longer has.
            run("apt-get", "update", "-qq")
            package = download(work)
        tree, ready = work / "tree", work / "ready"
        run("dpkg-deb", "-x", str(package), str(tree))
        ready.mkdir()
        keep(tree, ready)
        try:
            ready.rename(folder)
        except OSError:
            if not complete(folder):  # If it is, another run was faster.
                shutil.rmtree(folder, ignore_errors=True)
                ready.rename(folder)


def complete(folder):
    """Whether it has everything; one of an earlier version lacks a list."""
    return all((folder / name).exists() for name in ("release", KERNEL, "modules", *MORE_ROOTS))


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    if not complete(folder):
        try:
            fetch(folder, pathlib.Path(sys.argv[2]).resolve() if len(sys.argv) == 3 else None)
        except (OSError, RuntimeError, StopIteration, subprocess.SubprocessError) as error:
            sys.exit(f"no kernel for the interop tests: {error}")
    print(f"kernel {(folder / 'release').read_text().strip()} in {folder}")


if __name__ == "__main__":
    main()
