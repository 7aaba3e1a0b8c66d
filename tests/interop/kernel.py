#!/usr/bin/env python3
"""Debian's kernel for the guest: kernel.py FOLDER downloads the image package and keeps of it what the guest boots.
With --release NAME it is that of another release, as trixie: newer kernels' rxe has operations that Debian 12's lacks.
kernel.py FOLDER PACKAGE... takes packages that are there, files.

FOLDER then has the kernel, `release`, the modules and their names in the order in which they load: in `modules` those of every
guest, in `card_modules` more for guests with cards, in `storage_modules` more for guests that mount remote disks. Nothing is
installed: this machine's own boot stays as it is.
"""

import argparse
import lzma
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

METAPACKAGE = "linux-image-amd64"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
KERNEL = "kernel"  # in the folder
# Modules that the guest loads, each after those that it needs. rxe asks the crypto layer for `crc32` by name.
ROOTS = ("virtio_pci", "virtio_net", "9pnet_virtio", "9p", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm")
# The kernel's drivers of emulated cards, and those that give a card to a program.
CARD_ROOTS = ("8021q", "e1000", "e1000e", "vmxnet3", "igb", "uio_pci_generic", "vfio_pci", "vfio_iommu_type1")
# Initiators of iSER and NVMe over RDMA, Linux's own NVMe target to compare with, and what ext4 asks the crypto layer for.
STORAGE_ROOTS = ("crc32c_generic", "ext4", "sd_mod", "ib_iser", "nvme_rdma", "nvmet_rdma", "loop", "sch_netem")
# Newer kernels have no such modules, and need none.
BUILT_IN_LATER = {"crc32_generic", "crc32c_generic"}
# The modules beside those of every guest, by the list's name.
MORE_ROOTS = {"card_modules": CARD_ROOTS, "storage_modules": STORAGE_ROOTS}


def run(program, *words, options=(), cwd=None, seconds=300):
    done = subprocess.run([program, *options, *words], cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join([program, *words])}: {done.stderr.strip()}")
    return done.stdout


class Archive:
    """Debian's packages, by this machine's apt. Those of another release come from the same mirror, with lists in the folder `work`."""

    def __init__(self, work, release=None):
        self.options = []
        if release:
            self.options = self.separate(work, f"deb [arch=amd64 signed-by={KEYS}] {self.mirror()} {release} main\n")
            self.update()

    def apt(self, tool, *words, **how):
        return run(f"apt-{tool}", *words, options=self.options, **how)

    def mirror(self):
        found = self.apt("get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Label: Debian", "Component: main")
        if not found:
            raise RuntimeError("apt knows no archive of Debian")
        return found.split()[0]

    def separate(self, work, source):
        (work / "lists/partial").mkdir(parents=True, exist_ok=True)
        (work / "sources.list").write_text(source)
        # A mirror may be weeks behind.
        settings = {"Dir::State": work, "Dir::State::lists": work / "lists", "Dir::State::status": "/dev/null", "Dir::Cache": work,
                    "Dir::Etc::sourcelist": work / "sources.list", "Dir::Etc::sourceparts": "/dev/null", "APT::Sandbox::User": "root",
                    "Acquire::Languages": "none", "Acquire::Check-Valid-Until": "false"}
        return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]

    def update(self):
        self.apt("get", "update", "-qq")

    def packages(self, folder):
        """The image package, in `folder`, and those with the parts that newer releases have in packages of their own."""
        found = re.search(r"Depends: linux-image-(\S+)", self.apt("cache", "depends", METAPACKAGE))
        if not found:
            raise RuntimeError(f"apt knows no package {METAPACKAGE}")
        image = f"linux-image-{found[1]}"
        parts = re.findall(rf"Depends: (linux-[a-z]+-{re.escape(found[1])})\n", self.apt("cache", "depends", image))
        self.apt("get", "download", "-qq", image, *parts, cwd=folder)
        return list(folder.glob("*.deb"))


def depends(module):
    """The modules that a module needs, by its own list."""
    found = re.search(rb"\0depends=([^\0]*)\0", contents(module))
    return [name for name in (found[1].decode().split(",") if found else []) if name]


def load_order(files, builtin, roots, loaded=()):
    """Paths of the modules that the guest needs beside `loaded`, each after those it depends on."""
    order = []

    def visit(name):
        name = name.replace("-", "_")
        if name in builtin:
            return
        path = files.get(name)
        if path is None and name in BUILT_IN_LATER:
            return
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


def contents(module):
    """Without the compression of newer packages, which the guest's insmod does not know."""
    data = module.read_bytes()
    return lzma.decompress(data) if module.suffix == ".xz" else data


def module_name(path):
    return path.name.partition(".")[0].replace("-", "_")


def ready_to_run(image):
    """The kernel without the program in front of it that unpacks it: an emulated processor needs seconds for that. QEMU starts either.
    With a compression that this machine does not know it is the whole image."""
    sectors, offset, length = image[0x1F1], *(int.from_bytes(image[at:at + 4], "little") for at in (0x248, 0x24C))
    packed = image[(sectors + 1) * 512 + offset:][:length]  # Documentation/arch/x86/boot.rst
    if packed.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(packed)
    if packed.startswith(b"\x28\xb5\x2f\xfd") and shutil.which("zstd"):
        frame = packed[:-4]  # The length of the unpacked kernel follows it.
        return subprocess.run(["zstd", "-dc"], input=frame, stdout=subprocess.PIPE, timeout=300, check=True).stdout
    return image


def keep(tree, folder):
    """Moves from an unpacked package what the guest boots."""
    modules = next(place for parent in ("lib", "usr/lib") for place in (tree / parent).glob("modules/*"))
    files = {module_name(path): path for path in modules.rglob("*.ko*")}
    builtin = {module_name(pathlib.Path(line)) for line in (modules / "modules.builtin").read_text().split()}
    always = load_order(files, builtin, ROOTS)
    lists = {name: load_order(files, builtin, roots, always) for name, roots in MORE_ROOTS.items()}
    for name, order in {"modules": always, **lists}.items():
        names = [path.name.removesuffix(".xz") for path in order]
        for path, plain in zip(order, names):
            (folder / plain).write_bytes(contents(path))
        (folder / name).write_text("".join(plain + "\n" for plain in names))
    (folder / KERNEL).write_bytes(ready_to_run(next(tree.rglob("vmlinuz*")).read_bytes()))
    (folder / "release").write_text(modules.name + "\n")


def download(work, release):
    try:
        return Archive(work, release).packages(work)
    except RuntimeError:  # Stale lists name files that the mirror no longer has.
        run("apt-get", "update", "-qq")
        return Archive(work, release).packages(work)


def fetch(folder, release=None, packages=()):
    """Downloads into `folder`, or takes `packages`. It then is complete or not there."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".kernel-") as name:
        work = pathlib.Path(name)
        packages = packages or download(work, release)
        tree, ready = work / "tree", work / "ready"
        for package in packages:
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


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("packages", type=pathlib.Path, nargs="*")
    parser.add_argument("--release")
    return parser.parse_args()


def main():
    args = arguments()
    folder = args.folder.resolve()
    if not complete(folder):
        try:
            fetch(folder, args.release, args.packages)
        except (OSError, RuntimeError, StopIteration, subprocess.SubprocessError) as error:
            sys.exit(f"no kernel for the interop tests: {error}")
    print(f"kernel {(folder / 'release').read_text().strip()} in {folder}")


if __name__ == "__main__":
    main()
